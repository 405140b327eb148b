//! The jobs: 250 bytes that begin with a number, by which each is accounted for.

/// The length of every job.
pub(crate) const BYTES: usize = 250;

/// Jobs per batch.
pub(crate) const BATCH: usize = 500;

/// Concurrent jobs of a worker process.
pub(crate) const SLOTS: usize = 100;

const DIGITS: usize = 12;

/// The job with this number.
pub(crate) fn with(number: u64) -> Vec<u8> {
    let mut bytes = format!("{number:0DIGITS$}").into_bytes();
    bytes.resize(BYTES, b'x');
    bytes
}

/// The number of a job; `None` if the job is not from this benchmark.
pub(crate) fn number(bytes: &[u8]) -> Option<u64> {
    let (digits, rest) = bytes.split_at_checked(DIGITS)?;
    let ours = rest.len() == BYTES - DIGITS;
    str::from_utf8(digits).ok().filter(|_| ours)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_its_length_and_contains_its_number() {
        for n in [0, 7, 999_999_999_999] {
            assert_eq!((with(n).len(), number(&with(n))), (BYTES, Some(n)));
        }
    }

    #[test]
    fn truncated_and_foreign_jobs_have_no_number() {
        assert_eq!(number(&with(7)[..BYTES - 1]), None);
        assert_eq!(number(b""), None);
        assert_eq!(number(&[b'x'; BYTES]), None);
    }
}
