//! Tests of the encodings: [`stored`] that they never change, [`damage`] that no bytes break a
//! reader, and here that every value survives a round trip.

mod damage;
mod stored;

use std::fmt::Debug;

use crore_core::group::Group;
use crore_core::{IndexKey, Live, Name, Spec};
use proptest::prelude::*;

use super::*;

type DecodeFn<T> = fn(&mut ByteReader<'_>) -> Result<T, Damaged>;

fn encode<T>(value: &T, put: fn(&T, &mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    put(value, &mut out);
    out
}

/// Decodes all of `bytes`.
fn decode_all<'a, T>(
    bytes: &'a [u8],
    get: impl FnOnce(&mut ByteReader<'a>) -> Result<T, Damaged>,
) -> Result<T, Damaged> {
    let mut reader = ByteReader::new(bytes);
    let value = get(&mut reader)?;
    if reader.rest().is_empty() { Ok(value) } else { Err(Damaged("trailing bytes")) }
}

/// Checks that `value` survives a round trip at any position, and that no prefix decodes.
fn assert_round_trip<T: PartialEq + Debug>(value: &T, put: fn(&T, &mut Vec<u8>), get: DecodeFn<T>) {
    let bytes = encode(value, put);
    assert_eq!(decode_all(&bytes, get).as_ref(), Ok(value));
    for end in 0..bytes.len() {
        assert!(
            get(&mut ByteReader::new(&bytes[..end])).is_err(),
            "cut at {end} of {}",
            bytes.len()
        );
    }
    let mut among_others = vec![7];
    put(value, &mut among_others);
    among_others.push(9);
    let mut reader = ByteReader::new(&among_others);
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
    fn every_spec_reads_back(spec in sample::spec_and_follow_up()) {
        assert_round_trip(&spec, put_spec, get_spec);
        let bytes = encode(&spec, put_spec);
        let head = SpecHead {
            queue: spec.queue.as_str(),
            kind: spec.kind.as_str(),
            priority: spec.priority,
            limits: spec.limits.clone(),
            costs: spec.costs.clone(),
            fair: spec.fair.clone(),
            version: spec.worker_version.as_deref().copied(),
            client_id: spec.client_id.as_deref().cloned(),
            keys: IndexKey::of_spec(&spec).collect(),
        };
        prop_assert_eq!(peek_spec(&mut ByteReader::new(&bytes)), Ok(head));
        let (queue, kind) = (name("other queue"), name("other kind"));
        let known = get_spec_with(&mut ByteReader::new(&bytes), queue.clone(), kind.clone());
        prop_assert_eq!(known, Ok(Spec { queue, kind, ..spec }));
    }

    #[test]
    fn every_live_record_reads_back(live in sample::live()) {
        assert_round_trip(&live, put_live, get_live);
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
            deadline: live.deadline,
            error: IndexKey::of_newest_error(&live),
        };
        prop_assert_eq!(peek_live(&mut ByteReader::new(&encode(&live, put_live))), Ok(head));
    }

    #[test]
    fn every_group_reads_back(group in sample::group()) {
        assert_round_trip(&group, put_group, get_group);
    }

    #[test]
    fn every_number_reads_back(number: u64, signed: i64, small: i32) {
        prop_assert_eq!(decode_all(&encode(&number, |n, out| out.put_var(*n)), ByteReader::var), Ok(number));
        prop_assert_eq!(decode_all(&encode(&signed, |n, out| out.put_zig(*n)), ByteReader::zig), Ok(signed));
        let bytes = encode(&small, |n, out| out.put_zig(i64::from(*n)));
        prop_assert_eq!(decode_all(&bytes, ByteReader::zig32), Ok(small));
    }
}
