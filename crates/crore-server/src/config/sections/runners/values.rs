//! What the keys of the server's own runners may be.

use std::collections::BTreeMap;

use crore_core::Name;
use crore_core::settings::{Given, Setting, Shape};

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
