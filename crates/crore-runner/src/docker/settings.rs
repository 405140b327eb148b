//! What a handler says about a container.

use std::collections::BTreeMap;

use crore_core::code::excerpt;
use crore_core::{Code, Invalid, Span};
use crore_wire::words::{Period, Size};
use serde::Deserialize;
use serde_json::Value;

use super::limits::Limits;
use super::registry::Registry;
use crate::options::Options;
use crate::output::{Stderr, Success, grace, max_output};
use crate::secret::Secret;

/// The settings of a handler whose jobs are containers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    /// Has to be there unless the payload names one.
    #[serde(default)]
    pub(super) image: Option<String>,
    #[serde(default)]
    pub(super) pull: Pull,
    /// Of which of its variants, where an image has several: `linux/amd64`.
    #[serde(default)]
    pub(super) platform: Option<String>,
    /// Who pulls it.
    #[serde(default)]
    pub(super) registry: Option<Registry>,
    #[serde(default)]
    pub(super) cmd: Vec<String>,
    #[serde(default)]
    pub(super) entrypoint: Option<Vec<String>>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Secret>,
    #[serde(default)]
    pub(super) user: Option<String>,
    #[serde(default)]
    pub(super) dir: Option<String>,
    #[serde(default = "none")]
    pub(super) network: String,
    #[serde(default)]
    memory: Option<Size>,
    #[serde(default)]
    cpus: Option<f64>,
    #[serde(default)]
    pids: Option<u32>,
    /// The three above, or what the operator says.
    #[serde(skip)]
    pub(super) limits: Limits,
    #[serde(default)]
    pub(super) read_only: bool,
    #[serde(default)]
    pub(super) success: Success,
    #[serde(default)]
    pub(super) payload: Give,
    #[serde(default)]
    pub(super) stderr: Stderr,
    #[serde(default = "one_mebibyte")]
    pub(super) max_output: Size,
    #[serde(default = "five_seconds")]
    pub(super) grace: Period,
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Pull {
    #[default]
    Missing,
    Always,
    Never,
}

/// How a container is given the payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Give {
    #[default]
    Stdin,
    /// It is a JSON array of strings, and each is added to `cmd`.
    Args,
    /// It is a JSON object that says what to run, as the engine's own API writes it.
    Config,
    None,
}

fn none() -> String {
    "none".to_owned()
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

fn five_seconds() -> Period {
    Period(Span::from_secs(5))
}

impl Settings {
    /// Reads and checks them.
    pub(super) fn read(settings: &Value, options: &Options) -> Result<Self, Invalid> {
        let mut read: Self = crate::read(settings)?;
        read.max_output = max_output(settings, read.max_output, options.max_output)?;
        read.grace = grace(settings, read.grace, options.max_grace)?;
        match &read.image {
            Some(image) => check_image(image, options)
                .map_err(|(code, message)| Invalid::new(code, "settings.image", message))?,
            None if read.payload == Give::Config => {}
            None => return malformed("image", "it is missing".to_owned()),
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if read.platform.as_deref().is_some_and(|one| one.is_empty() || !one.chars().all(is_part)) {
            return malformed("platform", "it is none such as `linux/amd64`".to_owned());
        }
        for name in read.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("`{}` is no name of a variable", excerpt(name));
                return malformed(&format!("env.{name}"), message);
            }
        }
        if let Some(registry) = &mut read.registry {
            registry.settle(read.image.as_deref())?;
        }
        read.check_network(options)?;
        read.check_limits(options)?;
        Ok(read)
    }

    fn check_network(&self, options: &Options) -> Result<(), Invalid> {
        let network = excerpt(&self.network);
        if network == "none" {
            return Ok(());
        }
        // A name has neither: with them engines are asked for the network of others, or of a path.
        if network == "host" || network.is_empty() || self.network.contains([':', '/']) {
            let message = format!("`{network}` is no network that a container may have here");
            return forbidden("network", message);
        }
        if !options.container_network {
            let message = format!(
                "the network `{network}` is not allowed here; \
                 `runners.container-network = true` in the configuration allows it"
            );
            return forbidden("network", message);
        }
        Ok(())
    }

    fn check_limits(&mut self, options: &Options) -> Result<(), Invalid> {
        let most = options.container_limits();
        if self.cpus.is_some_and(|cpus| !(0.001..=1e6).contains(&cpus)) {
            return malformed("cpus", "it is no number of processors".to_owned());
        }
        // None means all that there is, to an engine.
        if self.memory == Some(Size(0)) {
            return malformed("memory", "it is no amount of memory".to_owned());
        }
        if self.pids == Some(0) {
            return malformed("pids", "it is no number of processes".to_owned());
        }
        self.limits = Limits {
            memory: within("memory", self.memory, most.memory)?,
            cpus: within("cpus", self.cpus, most.cpus)?,
            pids: within("pids", self.pids, most.pids)?,
        };
        Ok(())
    }
}

/// Whether an image may be run: an empty name, one that reads as an option of something, and one
/// that the operator does not name may not.
pub(super) fn check_image(image: &str, options: &Options) -> Result<(), (Code, String)> {
    let shown = excerpt(image);
    let is_name = image.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c));
    if image.is_empty() || !is_name {
        return Err((Code::Malformed, format!("`{shown}` is no name of an image")));
    }
    if !options.images.allows(image) {
        let message = format!(
            "the image `{shown}` is not allowed here; \
             `runners.images` in the configuration names those that are"
        );
        return Err((Code::RunnerForbidden, message));
    }
    Ok(())
}

/// What holds of what a handler wants and an operator grants at most.
fn within<T: PartialOrd + std::fmt::Display>(
    field: &str,
    wanted: Option<T>,
    most: Option<T>,
) -> Result<Option<T>, Invalid> {
    match (wanted, most) {
        (Some(wanted), Some(most)) if wanted > most => {
            let message = format!(
                "`{wanted}` is more than `runners.container-{field}` in the configuration, \
                 which is `{most}`"
            );
            forbidden(field, message)
        }
        (wanted, most) => Ok(wanted.or(most)),
    }
}

fn malformed<T>(field: &str, message: String) -> Result<T, Invalid> {
    Err(Invalid::new(Code::Malformed, format!("settings.{field}"), message))
}

fn forbidden<T>(field: &str, message: String) -> Result<T, Invalid> {
    Err(Invalid::new(Code::RunnerForbidden, format!("settings.{field}"), message))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::options::Cpus;

    fn options() -> Options {
        Options {
            images: ["alpine:*"].map(|one| one.parse().expect("a pattern")).into_iter().collect(),
            container_memory: Some(Size(64 << 20)),
            container_cpus: Some(Cpus(2.0)),
            ..Options::default()
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        let with = |more: Value| {
            let mut settings = json!({ "image": "alpine:3" });
            let more = more.as_object().expect("an object").clone();
            settings.as_object_mut().expect("an object").extend(more);
            settings
        };
        let (malformed, forbidden) = (Code::Malformed, Code::RunnerForbidden);
        let cases = [
            (json!({}), "settings.image", malformed),
            (json!({ "image": "" }), "settings.image", malformed),
            (json!({ "image": "alpine:3 --privileged" }), "settings.image", malformed),
            (json!({ "image": "alpine" }), "settings.image", forbidden),
            (json!({ "image": "evil/alpine:3" }), "settings.image", forbidden),
            (with(json!({ "network": "host" })), "settings.network", forbidden),
            (with(json!({ "network": "container:x" })), "settings.network", forbidden),
            (with(json!({ "network": "ns:/proc/1/ns/net" })), "settings.network", forbidden),
            (with(json!({ "memory": "0" })), "settings.memory", Code::Malformed),
            (with(json!({ "network": "bridge" })), "settings.network", forbidden),
            (with(json!({ "memory": "65MiB" })), "settings.memory", forbidden),
            (with(json!({ "cpus": 2.5 })), "settings.cpus", forbidden),
            (with(json!({ "cpus": 0 })), "settings.cpus", malformed),
            (with(json!({ "cpus": -1 })), "settings.cpus", malformed),
            (with(json!({ "pids": 0 })), "settings.pids", malformed),
            (with(json!({ "max_output": "1GiB" })), "settings.max_output", forbidden),
            (with(json!({ "grace": "1h" })), "settings.grace", forbidden),
            (with(json!({ "success": [] })), "settings.success", malformed),
            (with(json!({ "success": [256] })), "settings.success[0]", malformed),
            (with(json!({ "platform": "" })), "settings.platform", malformed),
            (with(json!({ "platform": "linux&amd64" })), "settings.platform", malformed),
            (with(json!({ "pull": "often" })), "settings.pull", malformed),
            (with(json!({ "env": { "A=B": "" } })), "settings.env.A=B", malformed),
            (with(json!({ "privileged": true })), "settings.privileged", Code::FieldUnknown),
            (with(json!({ "registry": { "user": "me" } })), "settings.registry", malformed),
            (
                with(json!({ "registry": { "user": "me", "password": "hush" } })),
                "settings.registry.password",
                malformed,
            ),
        ];
        for (settings, field, code) in cases {
            let read = Settings::read(&settings, &options()).map(drop);
            let invalid = read.expect_err("it is wrong");
            assert_eq!((&*invalid.field, invalid.code), (field, code), "{settings} {invalid}");
        }
    }

    #[test]
    fn where_networks_are_allowed_no_container_has_the_machines_or_anothers() {
        let options = Options { container_network: true, ..options() };
        let is_good = |network: &str| {
            Settings::read(&json!({ "image": "alpine:3", "network": network }), &options).is_ok()
        };
        assert!(is_good("bridge") && is_good("none"));
        for network in ["host", "", "container:x", "ns:/proc/1/ns/net"] {
            assert!(!is_good(network), "{network}");
        }
    }

    #[test]
    fn what_is_usual_is_less_where_the_operator_grants_less() {
        let max_grace = Span::from_secs(2);
        let options = Options { max_output: Size(512 << 10), max_grace, ..Options::default() };
        let said = json!({ "image": "alpine" });
        let read = Settings::read(&said, &options).expect("nothing was asked for");
        assert_eq!((read.max_output, read.grace), (Size(512 << 10), Period(max_grace)));
        let said = json!({ "image": "alpine", "max_output": "1MiB" });
        let told = Settings::read(&said, &options).expect_err("too much").to_string();
        assert!(told.contains("`runners.max-output`") && told.contains("`512KiB`"), "{told}");
    }

    #[test]
    fn what_a_handler_does_not_limit_its_operator_does() {
        let read = |settings| Settings::read(&settings, &options()).expect("right");
        let all = json!({ "image": "alpine:3", "memory": "8MiB", "cpus": 0.5, "pids": 7 });
        let expected = Limits { memory: Some(Size(8 << 20)), cpus: Some(0.5), pids: Some(7) };
        assert_eq!(read(all).limits, expected);
        assert_eq!(read(json!({ "image": "alpine:3" })).limits, options().container_limits());
        let any = read(json!({ "image": "alpine:3", "success": "any" })).success;
        assert!(any.has(255) && !Success::default().has(255));
    }
}
