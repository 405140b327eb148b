//! Who a worker is, and what it wants.

use std::sync::Arc;

use crore::fetch::Fetch;
use crore_api::params::names;
use crore_core::{Code, Invalid, Span};
use crore_wire::grpc::v1;

use super::super::work::wanted;

/// The most jobs that one worker runs at a time.
const MOST_SLOTS: u32 = 10_000;
/// The longest incarnation.
const INCARNATION_BYTES: usize = 64;
/// So much of a version is shown.
const VERSION_CHARS: usize = 64;
/// The most sorts of runners that one worker brings.
const MOST_RUNNERS: usize = 100;
/// How long a look for jobs lasts: it is begun anew then.
const LOOK: Span = Span::from_secs(3600);

/// A worker that has introduced itself.
#[derive(Debug)]
pub(super) struct Hello {
    pub(super) incarnation: Arc<str>,
    /// What it wants, one at a time.
    pub(super) ask: Fetch,
    pub(super) slots: usize,
    /// The deliveries that it says it has.
    pub(super) held: Vec<v1::Held>,
    /// The version of its program, for people.
    pub(super) version: String,
}

/// So many slots, if that can be.
pub(super) fn slots(n: u32) -> Result<usize, Invalid> {
    if n == 0 || n > MOST_SLOTS {
        let why = format!("`{n}` lies outside 1 to {MOST_SLOTS}");
        return Err(Invalid::new(Code::CountRange, "slots", why));
    }
    Ok(n as usize)
}

impl Hello {
    pub(super) fn read(said: v1::Hello) -> Result<Self, Invalid> {
        let wrong = |code, why: String| Err(Invalid::new(code, "incarnation", why));
        match said.incarnation.len() {
            0 => return wrong(Code::KeyEmpty, "has to be said: a random text".to_owned()),
            n if n > INCARNATION_BYTES => {
                let why = format!("{n} bytes, at most {INCARNATION_BYTES} are allowed");
                return wrong(Code::KeyTooLong, why);
            }
            _ => {}
        }
        let slots = slots(said.slots)?;
        if said.held.len() > MOST_SLOTS as usize {
            let why = format!("{} at once, at most {MOST_SLOTS} are allowed", said.held.len());
            return Err(Invalid::new(Code::CountRange, "held", why));
        }
        let worker = if said.name.is_empty() { &said.incarnation } else { &said.name };
        let ask =
            wanted(&said.queues, &said.kinds, said.strict, worker).map_err(|mut invalid| {
                if invalid.field == "worker" {
                    invalid.field = "name".to_owned();
                }
                invalid
            })?;
        if said.runs_handlers && !said.kinds.is_empty() {
            let why = "has to be empty where `runs_handlers` is said";
            return Err(Invalid::new(Code::Malformed, "kinds", why));
        }
        if said.runners.len() > MOST_RUNNERS {
            let why = format!("{} at once, at most {MOST_RUNNERS} are allowed", said.runners.len());
            return Err(Invalid::new(Code::CountRange, "runners", why));
        }
        let runners = said.runs_handlers.then(|| names("runners", &said.runners)).transpose()?;
        let ask = Fetch { wait: LOOK, handled: runners, ..ask };
        let version = said.version.chars().take(VERSION_CHARS).collect();
        Ok(Self { incarnation: said.incarnation.into(), ask, slots, held: said.held, version })
    }
}
