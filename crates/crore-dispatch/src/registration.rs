//! Registration of a push worker, stored in the registry so that it survives a restart.

use crore::store::registry::RegistryValue;
use crore_core::{Code, Invalid, Name};
use crore_outbound::Target;
use serde::{Deserialize, Serialize};

/// A push worker, as it registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Name of the worker; several workers may share it.
    pub name: String,
    /// URL at which the worker is called.
    pub target: Target,
    /// Maximum jobs that it takes at once.
    pub max_jobs: u32,
}

/// Maximum jobs that one worker takes at once.
const MAX_JOBS: u32 = 10_000;

/// Checks the terms of a registration. Stored registrations are checked in the same way, because other calls can write
/// to the registry, too.
pub fn check_terms(name: &str, max_jobs: u32) -> Result<(), Invalid> {
    Name::new("name", name)?;
    if (1..=MAX_JOBS).contains(&max_jobs) {
        return Ok(());
    }
    let message = format!("`{max_jobs}` is out of range: 1 to {MAX_JOBS}");
    Err(Invalid::new(Code::CountRange, "max_jobs", message))
}

#[derive(Serialize, Deserialize)]
struct RegistrationRecord {
    /// Name of the protocol.
    door: String,
    name: String,
    url: String,
    max_jobs: u32,
}

impl Registration {
    /// The text that the registry keeps.
    pub(crate) fn to_text(&self, protocol: &str) -> Result<String, Invalid> {
        let Self { name, target, max_jobs } = self;
        let (door, name, url) = (protocol.to_owned(), name.clone(), target.to_string());
        serde_json::to_string(&RegistrationRecord { door, name, url, max_jobs: *max_jobs })
            .map_err(|error| Invalid::new(Code::PayloadMalformed, "worker", error.to_string()))
    }

    /// Reads an entry of the registry; `None` for workers that are not of this protocol.
    pub(crate) fn from_value(value: &RegistryValue, protocol: &str) -> Option<Self> {
        match value {
            RegistryValue::Worker(text) => Self::from_text(text, protocol),
            _ => None,
        }
    }

    fn from_text(text: &str, protocol: &str) -> Option<Self> {
        let record: RegistrationRecord = serde_json::from_str(text).ok()?;
        let RegistrationRecord { door, name, url, max_jobs } = record;
        check_terms(&name, max_jobs).ok()?;
        let target = Target::parse("url", &url).ok()?;
        (door == protocol).then_some(Self { name, target, max_jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registration_reads_back_from_its_text() {
        let target = Target::parse("url", "https://worker:8443/jobs").expect("good");
        let worker = Registration { name: "w \"1\"".to_owned(), target, max_jobs: 4 };
        let text = worker.to_text("plain").expect("text");
        assert_eq!(Registration::from_text(&text, "plain"), Some(worker));
        assert_eq!(Registration::from_text(&text, "other"), None);
        assert_eq!(Registration::from_text("{}", "plain"), None);
        assert_eq!(Registration::from_text("a worker", "plain"), None);
    }

    #[test]
    fn a_record_that_no_registration_could_have_written_is_ignored() {
        let record = |name: &str, url: &str, max_jobs: u32| {
            let text = serde_json::json!({ "door": "plain", "name": name, "url": url, "max_jobs": max_jobs });
            Registration::from_text(&text.to_string(), "plain")
        };
        let url = "http://worker:8080";
        assert!(record("w", url, 1).is_some() && record("w", url, MAX_JOBS).is_some());
        let long = "x".repeat(1000);
        let bad = [("", url, 1), (&long, url, 1), ("w", url, 0), ("w", url, MAX_JOBS + 1)];
        for (name, url, max_jobs) in bad.into_iter().chain([("w", "http://worker:22", 1)]) {
            assert_eq!(record(name, url, max_jobs), None, "{name} {url} {max_jobs}");
        }
    }

    /// Registrations written by earlier versions can still be read.
    #[test]
    fn the_stored_text_keeps_its_form() {
        let text =
            r#"{"door":"lightjq","name":"mailer","url":"http://10.0.0.7:8080","max_jobs":4}"#;
        let worker = Registration::from_text(text, "lightjq").expect("read");
        assert_eq!((worker.name.as_str(), worker.max_jobs), ("mailer", 4));
        assert_eq!(worker.to_text("lightjq").expect("text"), text);
    }
}
