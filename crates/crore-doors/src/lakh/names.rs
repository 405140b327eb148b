//! The metadata `job_names`: the jobs that a call is about.

use std::collections::BTreeSet;

use crore_core::{Job, Name, Spec};
use tonic::Status;
use tonic::metadata::MetadataMap;

const KEY: &str = "job_names";

/// Job names as sent: separated by `;`, not trimmed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JobNames(BTreeSet<String>);

impl JobNames {
    pub(super) fn of(metadata: &MetadataMap) -> Result<Self, Status> {
        let value = metadata.get(KEY).ok_or_else(|| {
            Status::invalid_argument(format!("missing `{KEY}` field in metadata map"))
        })?;
        let value = value
            .to_str()
            .map_err(|_| Status::invalid_argument(format!("invalid ASCII in `{KEY}` field")))?;
        Ok(Self(value.split(';').map(ToOwned::to_owned).collect()))
    }

    /// Whether the name is in the list.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The name by which a worker knows a job that it was given: its queue, or its kind if it comes from the queue of
    /// another door.
    pub(super) fn name_of<'a>(&self, job: &'a Job) -> &'a Name {
        let Spec { queue, kind, .. } = &*job.spec;
        if self.contains(queue.as_str()) { queue } else { kind }
    }

    /// The queues of these jobs. A string that is not a valid job name has no queue.
    pub(super) fn queues(&self) -> Vec<Name> {
        self.0.iter().filter_map(|name| Name::new("job_names", name).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use tonic::metadata::MetadataValue;

    use super::*;

    fn names(value: &[u8]) -> Result<JobNames, Status> {
        let mut metadata = MetadataMap::new().into_headers();
        metadata.insert(KEY, http::HeaderValue::from_bytes(value).expect("a header"));
        JobNames::of(&MetadataMap::from_headers(metadata))
    }

    fn parsed(value: &str) -> Vec<String> {
        names(value.as_bytes()).expect("good names").0.into_iter().collect()
    }

    #[test]
    fn names_are_split_at_semicolons_and_not_trimmed() {
        assert_eq!(parsed("mail"), ["mail"]);
        assert_eq!(parsed("mail;sms; a b "), [" a b ", "mail", "sms"]);
        assert_eq!(parsed(""), [""]);
        assert_eq!(parsed("mail;"), ["", "mail"]);
        let queues = names(b"mail;;mail").expect("valid names").queues();
        assert_eq!(queues, [Name::new("queue", "mail").expect("a valid name")]);
    }

    #[test]
    fn missing_or_non_ascii_names_give_the_errors_of_lakh() {
        let missing = JobNames::of(&MetadataMap::new()).expect_err("missing");
        assert_eq!(missing.code(), tonic::Code::InvalidArgument);
        assert_eq!(missing.message(), "missing `job_names` field in metadata map");
        let strange = names("grüße".as_bytes()).expect_err("not ASCII");
        assert_eq!(strange.code(), tonic::Code::InvalidArgument);
        assert_eq!(strange.message(), "invalid ASCII in `job_names` field");
        let mut metadata = MetadataMap::new();
        metadata.insert(KEY, MetadataValue::from_static("mail"));
        assert!(JobNames::of(&metadata).expect("valid names").contains("mail"));
    }
}
