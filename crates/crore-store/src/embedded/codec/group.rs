//! Encoding of a group.

use crore_core::group::Group;
use crore_core::{OwnerId, Revision};

use super::fields::PresenceBits;
use super::{ByteReader, Damaged, Put};

const VERSION: u8 = 1;
const SEALED: u64 = 1 << 0;
const LOST: u64 = 1 << 1;
const MAKER: u64 = 1 << 2;
const KNOWN: u64 = SEALED | LOST | MAKER;

pub(crate) fn put_group(group: &Group, out: &mut Vec<u8>) {
    PresenceBits::NONE
        .with(SEALED, group.sealed)
        .with(LOST, group.lost)
        .with(MAKER, group.maker.is_some())
        .put(VERSION, out);
    out.put_var(group.size);
    out.put_var(group.ran);
    out.put_var(group.succeeded);
    out.put_var(group.revision.0);
    if let Some(OwnerId(maker)) = group.maker {
        out.put_var(maker);
    }
}

pub(crate) fn get_group(reader: &mut ByteReader<'_>) -> Result<Group, Damaged> {
    let fields = PresenceBits::read(reader, VERSION, KNOWN)?;
    Ok(Group {
        size: reader.var()?,
        ran: reader.var()?,
        succeeded: reader.var()?,
        sealed: fields.has(SEALED),
        lost: fields.has(LOST),
        revision: Revision(reader.var()?),
        maker: fields.given(MAKER, || reader.var())?.map(OwnerId),
    })
}
