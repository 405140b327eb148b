//! What every form promises: [`stored`] that it stays as it is, [`damage`] that no bytes break a
//! reader, and here that every value comes back.

mod damage;
mod stored;

use std::fmt::Debug;

use crore_core::group::Group;
use crore_core::{Live, Name, Spec};
use proptest::prelude::*;

use super::*;

type Get<T> = fn(&mut Reader<'_>) -> Result<T, Damaged>;

fn form<T>(value: &T, put: fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

/// The whole of `bytes`, read.
fn whole<'a, T>(
    bytes: &'a [u8],
    get: impl FnOnce(&mut Reader<'a>) -> Result<T, Damaged>,
) -> Result<T, Damaged> {
    let mut reader = Reader::new(bytes);
    let value = get(&mut reader)?;
    if reader.rest().is_empty() { Ok(value) } else { Err(Damaged("something is left over")) }
}

/// `value` comes back from its form, wherever that stands, and from no beginning of it.
fn comes_back<T: PartialEq + Debug>(value: &T, put: fn(&T, &mut Vec<u8>), get: Get<T>) {
    let bytes = form(value, put);
    assert_eq!(whole(&bytes, get).as_ref(), Ok(value));
    for end in 0..bytes.len() {
        assert!(get(&mut Reader::new(&bytes[..end])).is_err(), "cut at {end} of {}", bytes.len());
    }
    let mut among_others = vec![7];
    put(value, &mut among_others);
    among_others.push(9);
    let mut reader = Reader::new(&among_others);
    assert_eq!(reader.u8(), Ok(7));
    assert_eq!(get(&mut reader).as_ref(), Ok(value));
    assert_eq!(reader.rest(), [9]);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a name")
}

proptest! {
    #[test]
    fn every_spec_comes_back(spec in sample::spec()) {
        comes_back(&spec, put_spec, get_spec);
        let bytes = form(&spec, put_spec);
        let head = SpecHead {
            queue: spec.queue.as_str(),
            kind: spec.kind.as_str(),
            priority: spec.priority,
            limits: spec.limits.clone(),
            client_id: spec.client_id.clone(),
        };
        prop_assert_eq!(peek_spec(&mut Reader::new(&bytes)), Ok(head));
        let (queue, kind) = (name("other queue"), name("other kind"));
        let known = get_spec_with(&mut Reader::new(&bytes), queue.clone(), kind.clone());
        prop_assert_eq!(known, Ok(Spec { queue, kind, ..spec }));
    }

    #[test]
    fn every_live_comes_back(live in sample::live()) {
        comes_back(&live, put_live, get_live);
        let head = LiveHead {
            state: live.state,
            broken: live.broken,
            delivery: live.delivery,
            revision: live.revision,
            pushed_at: live.pushed_at,
            due: live.due,
            lease_until: live.lease_until,
            ended_at: live.ended_at,
            result_until: live.result.as_ref().map(|kept| kept.until),
        };
        prop_assert_eq!(peek_live(&mut Reader::new(&form(&live, put_live))), Ok(head));
    }

    #[test]
    fn every_group_comes_back(group in sample::group()) {
        comes_back(&group, put_group, get_group);
    }

    #[test]
    fn every_number_comes_back(number: u64, signed: i64, small: i32) {
        prop_assert_eq!(whole(&form(&number, |n, out| out.put_var(*n)), Reader::var), Ok(number));
        prop_assert_eq!(whole(&form(&signed, |n, out| out.put_zig(*n)), Reader::zig), Ok(signed));
        let bytes = form(&small, |n, out| out.put_zig(i64::from(*n)));
        prop_assert_eq!(whole(&bytes, Reader::zig32), Ok(small));
    }
}
