//! A push worker as it is kept in the registry, so that a restart does not forget it.

use crore_core::Invalid;
use crore_outbound::Target;
use serde::{Deserialize, Serialize};

/// Which of the workers in the registry are ours.
const DOOR: &str = "lightjq";

/// What a worker said when it registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registered {
    /// Its name, which others may have too.
    pub(crate) name: String,
    /// Where it is called.
    pub(crate) target: Target,
    /// How many jobs it takes at once.
    pub(crate) max_jobs: u32,
}

#[derive(Serialize, Deserialize)]
struct Record {
    door: String,
    name: String,
    url: String,
    max_jobs: u32,
}

impl Registered {
    /// The text that the registry keeps.
    pub(crate) fn to_text(&self) -> Result<String, Invalid> {
        let Self { name, target, max_jobs } = self;
        let (door, name, url) = (DOOR.to_owned(), name.clone(), target.to_string());
        serde_json::to_string(&Record { door, name, url, max_jobs: *max_jobs }).map_err(|error| {
            Invalid::new(crore_core::Code::PayloadMalformed, "worker", error.to_string())
        })
    }

    /// What the registry keeps about one of ours; `None`: it is another door's.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let record: Record = serde_json::from_str(text).ok()?;
        let Record { door, name, url, max_jobs } = record;
        let target = Target::parse("url", &url).ok()?;
        (door == DOOR).then_some(Self { name, target, max_jobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_what_was_said() {
        let target = Target::parse("url", "https://worker:8443/jobs").expect("good");
        let said = Registered { name: "w \"1\"".to_owned(), target, max_jobs: 4 };
        let text = said.to_text().expect("text");
        assert_eq!(Registered::from_text(&text), Some(said));
        let other = text.replace("lightjq", "native");
        assert_eq!(Registered::from_text(&other), None);
        assert_eq!(Registered::from_text("{}"), None);
        assert_eq!(Registered::from_text("a worker"), None);
    }
}
