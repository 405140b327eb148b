//! The UUID of a job, computed from the identity of its store and its number, so that no mapping is stored.
//!
//! It is a UUID of version 8 (RFC 9562, "custom"). The 63-bit number comes first, so that UUIDs sort in push order.
//! The last 58 bits are a checksum of the store's identity and the number, so that the UUIDs of two stores differ, and
//! a mistyped UUID names no job:
//!
//! ```text
//! bits   0..48   the number >> 16          bits  64..66   10
//! bits  48..52   1000 (version 8)          bits  66..70   the number's last 4 bits
//! bits  52..64   the number >> 4, 12 bits  bits  70..128  the checksum
//! ```

use crore::store::StoreId;
use crore_core::JobId;

const CHECKSUM: u64 = (1 << 58) - 1;
/// Length of a UUID in the usual form.
const LENGTH: usize = 36;

/// The UUID of a job, in the usual form.
pub fn of_job(store: StoreId, id: JobId) -> String {
    let number = id.0;
    let high = (number >> 16) << 16 | 0x8 << 12 | (number >> 4 & 0xfff);
    let low = 0b10 << 62 | (number & 0xf) << 58 | checksum(store, number);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    let (d, e) = (low >> 48, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

/// The job of this store that a UUID names; `None`: it names no job of this store.
pub fn job_of(store: StoreId, uuid: &str) -> Option<JobId> {
    if uuid.len() != LENGTH {
        return None;
    }
    let digits: String = uuid.chars().filter(|char| *char != '-').collect();
    let bits = u128::from_str_radix(&digits, 16).ok()?;
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    let number = (high >> 16) << 16 | (high & 0xfff) << 4 | (low >> 58 & 0xf);
    let id = JobId::new(number)?;
    // Only the canonical form is accepted.
    (of_job(store, id) == uuid.to_ascii_lowercase()).then_some(id)
}

const fn checksum(store: StoreId, number: u64) -> u64 {
    let (high, low) = ((store.0 >> 64) as u64, store.0 as u64);
    mix(mix(number ^ high) ^ low) & CHECKSUM
}

/// The last step of SplitMix64: every bit of the input affects every bit of the output.
const fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STORE: StoreId = StoreId(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);

    #[test]
    fn a_uuid_has_the_form_and_the_version_of_one() {
        for number in [1, 0xffff, 1 << 40, i64::MAX as u64] {
            let text = of_job(STORE, JobId(number));
            let parts: Vec<usize> = text.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{text}");
            assert_eq!(text.get(14..15), Some("8"), "{text}");
            assert!(["8", "9", "a", "b"].map(Some).contains(&text.get(19..20)), "{text}");
        }
    }

    #[test]
    fn foreign_uuids_name_no_job() {
        let good = of_job(STORE, JobId(7));
        assert_eq!(job_of(STORE, &good.to_uppercase()), Some(JobId(7)));
        let (short, long, plain) =
            (good.replacen('0', "", 1), format!("{good}0"), good.replace('-', ""));
        for bad in ["", "7", "g", &short, &long, &plain, &"-".repeat(36), &"ü".repeat(18)] {
            assert_eq!(job_of(STORE, bad), None, "{bad}");
        }
        assert_eq!(job_of(STORE, "00000000-0000-4000-8000-000000000000"), None);
    }

    proptest! {
        #[test]
        fn uuids_round_trip_and_a_flipped_bit_is_detected(
            store in any::<u128>(),
            number in 1..=i64::MAX as u64,
            bit in 0..128_u32,
        ) {
            let store = StoreId(store);
            let text = of_job(store, JobId(number));
            prop_assert_eq!(job_of(store, &text), Some(JobId(number)));
            let bits = u128::from_str_radix(&text.replace('-', ""), 16).expect("hex") ^ 1 << bit;
            let mut flipped = format!("{bits:032x}");
            for at in [8, 13, 18, 23] {
                flipped.insert(at, '-');
            }
            prop_assert_eq!(job_of(store, &flipped), None, "{} {}", text, flipped);
        }

        #[test]
        fn a_uuid_of_one_store_names_no_job_of_another(
            store in any::<u128>(),
            other in any::<u128>(),
            number in 1..=i64::MAX as u64,
        ) {
            prop_assume!(store != other);
            let text = of_job(StoreId(store), JobId(number));
            prop_assert_eq!(job_of(StoreId(other), &text), None);
        }

        #[test]
        fn uuids_sort_as_jobs_were_pushed(a in 1..=i64::MAX as u64, b in 1..=i64::MAX as u64) {
            prop_assert_eq!(a.cmp(&b), of_job(STORE, JobId(a)).cmp(&of_job(STORE, JobId(b))));
        }
    }
}
