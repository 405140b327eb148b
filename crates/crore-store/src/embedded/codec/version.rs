//! Encoding of a required version: its smallest version, and the smallest above it.

use crore_core::version::{Version, VersionRequirement};

use super::{ByteReader, Damaged, Put};

pub(crate) fn put_version(requirement: &VersionRequirement, out: &mut Vec<u8>) {
    put_parts(requirement.least(), out);
    out.put_option(requirement.below(), |out, below| put_parts(below, out));
}

fn put_parts(version: Version, out: &mut Vec<u8>) {
    version.parts().iter().for_each(|part| out.put_var(u64::from(*part)));
}

pub(crate) fn get_version(reader: &mut ByteReader<'_>) -> Result<VersionRequirement, Damaged> {
    let least = get_parts(reader)?;
    let below = reader.option(get_parts)?;
    VersionRequirement::between(least, below).ok_or(Damaged("empty range of versions"))
}

fn get_parts(reader: &mut ByteReader<'_>) -> Result<Version, Damaged> {
    let parts = [reader.var32()?, reader.var32()?, reader.var32()?];
    Version::new(parts).ok_or(Damaged("version out of range"))
}
