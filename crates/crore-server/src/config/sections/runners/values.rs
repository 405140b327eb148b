//! Types of the server's own runner keys.

use std::collections::BTreeMap;

use crore_core::Name;
use crore_core::settings::{Setting, SettingValue, Shape};

use crate::config::errors::did_you_mean;

/// Maximum concurrency of one channel.
const MAX_CONCURRENCY: u32 = 10_000;

/// Runners with access to this machine; they must be allowed explicitly.
const RESTRICTED: [&str; 3] = ["command", "docker", "plugin"];

/// Runners without access to this machine; `outbound` restricts what they may call.
const UNRESTRICTED: [&str; 3] = ["http", "grpc", "slack"];

/// Runners with access to this machine that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllowedRunners(pub(super) Vec<String>);

impl Setting for AllowedRunners {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let names = given.words()?;
        for name in &names {
            match *name {
                name if RESTRICTED.contains(&name) => {}
                free if UNRESTRICTED.contains(&free) => {
                    return Err(format!("the runner `{free}` is always allowed; remove it"));
                }
                unknown => {
                    let hint = did_you_mean(unknown, &RESTRICTED.map(str::to_owned));
                    let known = RESTRICTED.join(", ");
                    return Err(format!(
                        "unknown runner `{unknown}`; expected one of {known}{hint}"
                    ));
                }
            }
        }
        Ok(Self(names.into_iter().map(str::to_owned).collect()))
    }
}

/// Queues served by handlers, with the concurrency of each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChannelList(pub(super) BTreeMap<Name, u32>);

impl Setting for ChannelList {
    const SHAPE: Shape = Shape::Texts;

    fn read(given: &SettingValue) -> Result<Self, String> {
        let channel = |text: &str| {
            let (name, n) =
                text.rsplit_once('=').ok_or_else(|| format!("`{text}` is not NAME=N"))?;
            let name = Name::new("channel", name).map_err(|invalid| invalid.message)?;
            let n = n.parse().ok().filter(|n| (1..=MAX_CONCURRENCY).contains(n));
            let n = n.ok_or_else(|| {
                format!("`{text}`: expected a number from 1 to {MAX_CONCURRENCY}")
            })?;
            Ok((name, n))
        };
        given.words()?.into_iter().map(channel).collect::<Result<_, String>>().map(Self)
    }
}
