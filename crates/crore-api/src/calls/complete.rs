//! Completion of filters: names and values for the term at the cursor.

mod names;
mod term;

use crore_core::filter::{MAX_FILTER, reason_words};
use crore_core::{Code, Invalid, SearchFilter, State};
use crore_wire::api::complete::{CompleteQuery, Completion, Suggestion};

use crate::{Api, Fault, Grant};
pub(crate) use names::NameCache;
use names::{KnownNames, counted};
use term::{TermAtCursor, quoted};

/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 50;

/// Fields, with the operator that is used most, and what they mean.
const FIELDS: [(&str, &str); 21] = [
    ("state:", "waiting, scheduled, ready, running, done, dead, cancelled"),
    ("queue:", "name of the queue; * stands for any characters"),
    ("kind:", "name of the kind; * stands for any characters"),
    ("payload.", "a field of the payload"),
    ("error~", "the newest error contains a text"),
    ("error=", "the newest error has a fingerprint"),
    ("label:", "has a label, or a label with a value"),
    ("age>", "time since the push"),
    ("worker:", "the worker that ran it last"),
    ("why:", "why it is dead or cancelled"),
    ("pushed>", "when it was pushed"),
    ("due<", "when it is due"),
    ("started>", "when it started"),
    ("ended>", "when it ended"),
    ("attempt>", "number of attempts"),
    ("crashes>", "number of worker crashes"),
    ("priority<", "priority; the smaller is first"),
    ("group:", "id of its group"),
    ("parent:", "id of the job that pushed it"),
    ("replays:", "id of the job that it replays"),
    ("id:", "id of the job"),
];

impl Api {
    /// Suggests how to continue the term at the cursor.
    pub async fn complete(
        &self,
        grant: &Grant,
        which: &CompleteQuery,
    ) -> Result<Completion, Fault> {
        if which.q.len() > MAX_FILTER {
            let message = format!("{} bytes, at most {MAX_FILTER} are allowed", which.q.len());
            return Err(Invalid::new(Code::FilterTooLong, "q", message).into());
        }
        let term = TermAtCursor::of(&which.q, which.at);
        let known = self.known_names().await?;
        let all = match &term.value {
            None => fields(grant, &term, &known),
            Some(value) => self.values(grant, &term.field, value, &known),
        };
        let suggestions = all.into_iter().take(MAX_SUGGESTIONS).collect();
        let problem = SearchFilter::parse("q", &which.q).err().map(|invalid| invalid.message);
        let (from, to) = (term.from, term.to);
        Ok(Completion { from, to, suggestions, problem })
    }

    fn values(
        &self,
        grant: &Grant,
        field: &str,
        typed: &str,
        known: &KnownNames,
    ) -> Vec<Suggestion> {
        let fixed = |all: &[&str]| all.iter().map(|text| plain(text, None)).collect();
        let mut all: Vec<Suggestion> = match field {
            "state" => State::ALL.iter().map(|state| plain(state.word(), None)).collect(),
            "why" => reason_words().map(|word| plain(word, None)).collect(),
            "queue" => known.queues(grant).map(|(name, n)| named(&name, counted(n))).collect(),
            "kind" => known.kinds(grant).map(|(name, n)| named(&name, counted(n))).collect(),
            "worker" if grant.only().is_none() => {
                let workers = self.connected_workers().list().into_iter();
                workers.map(|worker| named(&worker.name, "connected".to_owned())).collect()
            }
            "label" => known.labels(grant).into_iter().map(|text| plain(&text, None)).collect(),
            "error" => self.fingerprints(grant),
            "age" => fixed(&["5m", "1h", "1d", "7d"]),
            "pushed" | "created" | "started" | "ended" => fixed(&["-5m", "-1h", "-1d", "-7d"]),
            "due" => fixed(&["now", "+1h", "+1d"]),
            "attempt" | "crashes" | "priority" => fixed(&["0", "1", "5"]),
            field => match field.strip_prefix("payload.") {
                Some(path) => {
                    known.values(grant, path).into_iter().map(|text| plain(&text, None)).collect()
                }
                None => Vec::new(),
            },
        };
        let typed = typed.trim_start_matches('"').to_lowercase();
        all.retain(|one| contains(&one.text, &typed));
        all.dedup_by(|a, b| a.text == b.text);
        // Those that begin with the text come first.
        all.sort_by_key(|one| !one.text.trim_start_matches('"').to_lowercase().starts_with(&typed));
        all
    }

    /// Fingerprints of the newest errors.
    fn fingerprints(&self, grant: &Grant) -> Vec<Suggestion> {
        let groups = self.list_errors(grant, &Default::default());
        let groups = groups.map(|found| found.groups).unwrap_or_default();
        let shown = |message: &str| message.chars().take(80).collect::<String>();
        groups.iter().map(|one| plain(&one.fingerprint, Some(shown(&one.message)))).collect()
    }
}

/// Fields whose names begin with the typed text.
fn fields(grant: &Grant, term: &TermAtCursor, known: &KnownNames) -> Vec<Suggestion> {
    let typed = term.field.as_str();
    if let Some(path) = typed.strip_prefix("payload.") {
        let paths = known.paths(grant).into_iter().filter(|known| known.starts_with(path));
        return paths.map(|path| plain(&format!("payload.{path}="), None)).collect();
    }
    let matching = FIELDS.iter().filter(|(text, _)| text.starts_with(typed));
    matching.map(|(text, about)| plain(text, Some((*about).to_owned()))).collect()
}

fn contains(text: &str, typed: &str) -> bool {
    text.to_lowercase().contains(typed)
}

fn plain(text: &str, about: Option<String>) -> Suggestion {
    Suggestion { text: text.to_owned(), about }
}

fn named(name: &str, about: String) -> Suggestion {
    Suggestion { text: quoted(name), about: Some(about) }
}
