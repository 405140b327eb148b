//! What the keys of runners may be.

use crore_core::settings::{Given, Setting, Shape};
use std::collections::BTreeMap;

use crore_core::Name;

use crate::config::fault::did_you_mean;

/// The most jobs of one channel at a time.
const MOST: u32 = 10_000;

/// The runners that reach the machine, and so need leave.
const NEED_LEAVE: [&str; 3] = ["command", "docker", "plugin"];

/// The runners that reach nothing that `outbound` does not allow.
const NEED_NONE: [&str; 3] = ["http", "grpc", "slack"];

/// Runners that reach the machine and may be used all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allowed(pub(super) Vec<String>);

impl Setting for Allowed {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let names = given.words()?;
        for name in &names {
            match *name {
                known if NEED_LEAVE.contains(&known) => {}
                free if NEED_NONE.contains(&free) => {
                    return Err(format!("the runner `{free}` needs no leave: leave it out"));
                }
                unknown => {
                    let hint = did_you_mean(unknown, &NEED_LEAVE.map(str::to_owned));
                    let known = NEED_LEAVE.join(", ");
                    return Err(format!(
                        "`{unknown}` is no runner that needs leave, as {known} do{hint}"
                    ));
                }
            }
        }
        Ok(Self(names.into_iter().map(str::to_owned).collect()))
    }
}

/// Queues whose jobs are run, and how many of each at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Channels(pub(super) BTreeMap<Name, u32>);

impl Setting for Channels {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let channel = |text: &str| {
            let (name, n) =
                text.rsplit_once('=').ok_or_else(|| format!("`{text}` is no NAME=N"))?;
            let name = Name::new("channel", name).map_err(|invalid| invalid.message)?;
            let n = n.parse().ok().filter(|n| (1..=MOST).contains(n));
            let n = n.ok_or_else(|| format!("`{text}`: a number from 1 to {MOST} is wanted"))?;
            Ok((name, n))
        };
        given.words()?.into_iter().map(channel).collect::<Result<_, String>>().map(Self)
    }
}

/// How many of something, which is at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) u32);

impl Setting for Count {
    const SHAPE: Shape = Shape::Number;

    fn read(given: &Given) -> Result<Self, String> {
        let n = given.one()?.replace('_', "").parse().ok().filter(|n| *n > 0);
        n.map(Self).ok_or_else(|| "this is no whole number from 1 on".to_owned())
    }
}

/// A number of processors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Cpus(pub(crate) f64);

impl Setting for Cpus {
    const SHAPE: Shape = Shape::Decimal;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()?.parse() {
            Ok(cpus) if (0.001..=1e6).contains(&cpus) => Ok(Self(cpus)),
            _ => Err("write a number of processors, as in `2` or `0.5`".to_owned()),
        }
    }
}

/// Variables of an environment, each with its value, or to be as it is in the environment of crore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Variables(pub(crate) BTreeMap<String, Option<String>>);

impl Setting for Variables {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &Given) -> Result<Self, String> {
        let mut all = BTreeMap::new();
        for text in given.words()? {
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (text, None),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(is_name) || text.contains('\0') {
                return Err(format!("`{text}` is neither NAME=VALUE nor the name of a variable"));
            }
            if all.insert(name.to_owned(), value).is_some() {
                return Err(format!("`{name}` is said twice"));
            }
        }
        Ok(Self(all))
    }
}
