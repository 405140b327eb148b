//! The UUID of a job, computed from its number, so that no mapping is stored.
//!
//! It is a UUID of version 8 (RFC 9562, "custom"). The 63-bit number comes first, so that UUIDs sort in push order.
//! The last 58 bits are a checksum of it, so that a mistyped UUID names no job:
//!
//! ```text
//! bits   0..48   the number >> 16          bits  64..66   10
//! bits  48..52   1000 (version 8)          bits  66..70   the number's last 4 bits
//! bits  52..64   the number >> 4, 12 bits  bits  70..128  the checksum
//! ```

use crore_core::JobId;

const CHECKSUM: u64 = (1 << 58) - 1;

/// The UUID of a job, in the usual form.
pub(super) fn uuid(id: JobId) -> String {
    let number = id.0;
    let high = (number >> 16) << 16 | 0x8 << 12 | (number >> 4 & 0xfff);
    let low = 0b10 << 62 | (number & 0xf) << 58 | checksum(number);
    let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xffff);
    let (d, e) = (low >> 48, low & 0xffff_ffff_ffff);
    format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
}

/// The job that a UUID names; `None`: not a UUID of crore.
pub fn job_id(uuid: &str) -> Option<JobId> {
    let digits: String = uuid.chars().filter(|char| *char != '-').collect();
    let bits = u128::from_str_radix(&digits, 16).ok()?;
    let (high, low) = ((bits >> 64) as u64, bits as u64);
    let number = (high >> 16) << 16 | (high & 0xfff) << 4 | (low >> 58 & 0xf);
    let id = JobId::new(number)?;
    // Only the canonical form is accepted.
    (self::uuid(id) == uuid.to_ascii_lowercase()).then_some(id)
}

/// The last step of SplitMix64: every bit of the number affects every bit of the checksum.
const fn checksum(number: u64) -> u64 {
    let mut bits = number ^ 0x6a6f_6262_6572_2d31;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) & CHECKSUM
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_uuid_has_the_form_and_the_version_of_one() {
        for number in [1, 0xffff, 1 << 40, i64::MAX as u64] {
            let text = uuid(JobId(number));
            let parts: Vec<usize> = text.split('-').map(str::len).collect();
            assert_eq!(parts, [8, 4, 4, 4, 12], "{text}");
            assert_eq!(&text[14..15], "8", "{text}");
            assert!(["8", "9", "a", "b"].contains(&&text[19..20]), "{text}");
        }
    }

    #[test]
    fn foreign_uuids_name_no_job() {
        let good = uuid(JobId(7));
        assert_eq!(job_id(&good.to_uppercase()), Some(JobId(7)));
        for bad in ["", "7", "g", &good[1..], &good.replace('-', ""), &format!("{good}0")] {
            assert_eq!(job_id(bad), None, "{bad}");
        }
        assert_eq!(job_id("00000000-0000-4000-8000-000000000000"), None);
    }

    proptest! {
        #[test]
        fn uuids_round_trip_and_a_flipped_bit_is_detected(
            number in 1..=i64::MAX as u64,
            bit in 0..128_u32,
        ) {
            let text = uuid(JobId(number));
            prop_assert_eq!(job_id(&text), Some(JobId(number)));
            let bits = u128::from_str_radix(&text.replace('-', ""), 16).expect("hex") ^ 1 << bit;
            let mut flipped = format!("{bits:032x}");
            for at in [8, 13, 18, 23] {
                flipped.insert(at, '-');
            }
            prop_assert_eq!(job_id(&flipped), None, "{} {}", text, flipped);
        }

        #[test]
        fn uuids_sort_as_jobs_were_pushed(a in 1..=i64::MAX as u64, b in 1..=i64::MAX as u64) {
            prop_assert_eq!(a.cmp(&b), uuid(JobId(a)).cmp(&uuid(JobId(b))));
        }
    }
}
