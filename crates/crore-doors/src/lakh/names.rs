//! The metadata `job_names`: which jobs a call is about.

use std::collections::BTreeSet;

use crore_core::Name;
use tonic::Status;
use tonic::metadata::MetadataMap;

const KEY: &str = "job_names";

/// The names that a call is about, as they were said: separated by `;`, and not trimmed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Names(BTreeSet<String>);

impl Names {
    pub(super) fn of(metadata: &MetadataMap) -> Result<Self, Status> {
        let said = metadata.get(KEY).ok_or_else(|| {
            Status::invalid_argument(format!("missing `{KEY}` field in metadata map"))
        })?;
        let said = said
            .to_str()
            .map_err(|_| Status::invalid_argument(format!("invalid ASCII in `{KEY}` field")))?;
        Ok(Self(said.split(';').map(ToOwned::to_owned).collect()))
    }

    /// Whether a call is about jobs of this name.
    pub(super) fn have(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The queues of these jobs. What cannot be the name of a job has none.
    pub(super) fn queues(&self) -> Vec<Name> {
        self.0.iter().filter_map(|name| Name::new("job_names", name).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use tonic::metadata::MetadataValue;

    use super::*;

    fn names(said: &[u8]) -> Result<Names, Status> {
        let mut metadata = MetadataMap::new().into_headers();
        metadata.insert(KEY, http::HeaderValue::from_bytes(said).expect("a header"));
        Names::of(&MetadataMap::from_headers(metadata))
    }

    fn have(said: &str) -> Vec<String> {
        names(said.as_bytes()).expect("good names").0.into_iter().collect()
    }

    #[test]
    fn names_are_parted_by_semicolons_and_kept_as_they_are() {
        assert_eq!(have("mail"), ["mail"]);
        assert_eq!(have("mail;sms; a b "), [" a b ", "mail", "sms"]);
        assert_eq!(have(""), [""]);
        assert_eq!(have("mail;"), ["", "mail"]);
        let queues = names(b"mail;;mail").expect("good names").queues();
        assert_eq!(queues, [Name::new("queue", "mail").expect("a good name")]);
    }

    #[test]
    fn what_is_missing_or_not_ascii_is_said_in_the_words_of_lakh() {
        let missing = Names::of(&MetadataMap::new()).expect_err("missing");
        assert_eq!(missing.code(), tonic::Code::InvalidArgument);
        assert_eq!(missing.message(), "missing `job_names` field in metadata map");
        let strange = names("grüße".as_bytes()).expect_err("not ASCII");
        assert_eq!(strange.code(), tonic::Code::InvalidArgument);
        assert_eq!(strange.message(), "invalid ASCII in `job_names` field");
        let mut metadata = MetadataMap::new();
        metadata.insert(KEY, MetadataValue::from_static("mail"));
        assert!(Names::of(&metadata).expect("good names").have("mail"));
    }
}
