//! Registration of a push worker, stored in the registry so that it survives a restart.

use crore::store::registry::RegistryValue;
use crore_core::{Code, Invalid};
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
