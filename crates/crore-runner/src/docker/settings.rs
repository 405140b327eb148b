//! Settings of the docker runner.

use std::collections::BTreeMap;

use crore_core::code::excerpt;
use crore_core::{Code, Invalid, Span};
use crore_wire::units::{Period, Size};
use serde::Deserialize;
use serde_json::Value;

use super::limits::ContainerLimits;
use super::registry::RegistryLogin;
use crate::options::{Capability, Options};
use crate::output::{Stderr, Success, grace, max_output};
use crate::secret::SecretRef;

/// The settings of a handler with the docker runner.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContainerSettings {
    /// Required unless the payload names the image.
    #[serde(default)]
    pub(super) image: Option<String>,
    #[serde(default)]
    pub(super) pull: PullPolicy,
    /// Platform of a multi-platform image, such as `linux/amd64`.
    #[serde(default)]
    pub(super) platform: Option<String>,
    /// The login for pulls.
    #[serde(default)]
    pub(super) registry: Option<RegistryLogin>,
    #[serde(default)]
    pub(super) cmd: Vec<String>,
    #[serde(default)]
    pub(super) entrypoint: Option<Vec<String>>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, SecretRef>,
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
    /// The three limits above, with the operator's limits as defaults.
    #[serde(skip)]
    pub(super) limits: ContainerLimits,
    /// Capabilities that the operator grants.
    #[serde(skip)]
    pub(super) capabilities: Vec<Capability>,
    #[serde(default)]
    pub(super) read_only: bool,
    #[serde(default)]
    pub(super) success: Success,
    #[serde(default)]
    pub(super) payload: ContainerInput,
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
pub(super) enum PullPolicy {
    #[default]
    Missing,
    Always,
    Never,
}

/// How a container gets the payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ContainerInput {
    #[default]
    Stdin,
    /// A JSON array of strings that are appended to `cmd`.
    Args,
    /// A JSON object in the format of the engine's create request.
    Config,
    None,
}

/// Limits of a container for which neither its handler nor the operator sets one: a runaway job must not exhaust the
/// machine.
const DEFAULT_MEMORY: Size = Size(2 << 30);
const DEFAULT_PIDS: u32 = 1024;

fn none() -> String {
    "none".to_owned()
}

fn one_mebibyte() -> Size {
    Size(1 << 20)
}

fn five_seconds() -> Period {
    Period(Span::from_secs(5))
}

impl ContainerSettings {
    /// Reads and checks settings.
    pub(super) fn read(settings: &Value, options: &Options) -> Result<Self, Invalid> {
        let mut read: Self = crate::read(settings)?;
        read.max_output = max_output(settings, read.max_output, options.max_output)?;
        read.grace = grace(settings, read.grace, options.max_grace)?;
        match &read.image {
            Some(image) => check_image(image, options)
                .map_err(|(code, message)| Invalid::new(code, "settings.image", message))?,
            None if read.payload == ContainerInput::Config => {}
            None => {
                return malformed(
                    "image",
                    "missing; required unless `payload` is `config`".to_owned(),
                );
            }
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if read.platform.as_deref().is_some_and(|one| one.is_empty() || !one.chars().all(is_part)) {
            return malformed(
                "platform",
                "not a platform; write for example `linux/amd64`".to_owned(),
            );
        }
        for name in read.env.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("`{}` is not a variable name", excerpt(name));
                return malformed(&format!("env.{name}"), message);
            }
        }
        if let Some(registry) = &mut read.registry {
            registry.resolve_address(read.image.as_deref())?;
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
        // With `:` or `/`, engines join the network of another container, or one given by a path.
        if network == "host" || network.is_empty() || self.network.contains([':', '/']) {
            let message = format!("network `{network}` is not allowed");
            return forbidden("network", message);
        }
        if !options.container_network {
            let message = format!(
                "network `{network}` is not allowed; \
                 allow it with `runners.container-network = true` in the configuration"
            );
            return forbidden("network", message);
        }
        Ok(())
    }

    fn check_limits(&mut self, options: &Options) -> Result<(), Invalid> {
        let most = options.container_limits();
        if self.cpus.is_some_and(|cpus| !(0.001..=1e6).contains(&cpus)) {
            return malformed("cpus", "not a number of CPUs".to_owned());
        }
        // To an engine, 0 means unlimited.
        if self.memory == Some(Size(0)) {
            return malformed("memory", "must be greater than 0".to_owned());
        }
        if self.pids == Some(0) {
            return malformed("pids", "must be greater than 0".to_owned());
        }
        self.limits = ContainerLimits {
            memory: within("memory", self.memory, most.memory)?.or(Some(DEFAULT_MEMORY)),
            cpus: within("cpus", self.cpus, most.cpus)?,
            pids: within("pids", self.pids, most.pids)?.or(Some(DEFAULT_PIDS)),
        };
        self.capabilities = options.container_capabilities.clone();
        Ok(())
    }
}

/// Checks the name of an image and that the operator allows it. A name must not be empty or look like an
/// option.
pub(super) fn check_image(image: &str, options: &Options) -> Result<(), (Code, String)> {
    let shown = excerpt(image);
    let is_name = image.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@".contains(c));
    if image.is_empty() || !is_name {
        return Err((Code::Malformed, format!("`{shown}` is not an image name")));
    }
    if !options.images.allows(image) {
        let message = format!(
            "image `{shown}` is not allowed; \
             allow it in `runners.images` in the configuration"
        );
        return Err((Code::RunnerForbidden, message));
    }
    Ok(())
}

/// The handler's limit, or the operator's. It must not exceed the operator's.
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
    fn errors_name_the_field() {
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
            let read = ContainerSettings::read(&settings, &options()).map(drop);
            let invalid = read.expect_err("it is invalid");
            assert_eq!((&*invalid.field, invalid.code), (field, code), "{settings} {invalid}");
        }
    }

    #[test]
    fn host_and_foreign_networks_are_always_refused() {
        let options = Options { container_network: true, ..options() };
        let is_good = |network: &str| {
            ContainerSettings::read(&json!({ "image": "alpine:3", "network": network }), &options)
                .is_ok()
        };
        assert!(is_good("bridge") && is_good("none"));
        for network in ["host", "", "container:x", "ns:/proc/1/ns/net"] {
            assert!(!is_good(network), "{network}");
        }
    }

    #[test]
    fn defaults_are_lowered_to_operator_limits() {
        let max_grace = Span::from_secs(2);
        let options = Options { max_output: Size(512 << 10), max_grace, ..Options::default() };
        let said = json!({ "image": "alpine" });
        let read = ContainerSettings::read(&said, &options).expect("nothing was requested");
        assert_eq!((read.max_output, read.grace), (Size(512 << 10), Period(max_grace)));
        let said = json!({ "image": "alpine", "max_output": "1MiB" });
        let told = ContainerSettings::read(&said, &options).expect_err("too much").to_string();
        assert!(told.contains("`runners.max-output`") && told.contains("`512KiB`"), "{told}");
    }

    #[test]
    fn a_container_without_limits_gets_default_ones_and_may_ask_for_more() {
        let read = |settings: Value| {
            ContainerSettings::read(&settings, &Options::default()).expect("right").limits
        };
        let default = ContainerLimits { memory: Some(Size(2 << 30)), cpus: None, pids: Some(1024) };
        assert_eq!(read(json!({ "image": "alpine" })), default);
        let more = read(json!({ "image": "alpine", "memory": "8GiB", "pids": 5000 }));
        assert_eq!((more.memory, more.pids), (Some(Size(8 << 30)), Some(5000)));
    }

    #[test]
    fn operator_limits_are_the_default() {
        let read = |settings| ContainerSettings::read(&settings, &options()).expect("valid");
        let all = json!({ "image": "alpine:3", "memory": "8MiB", "cpus": 0.5, "pids": 7 });
        let expected =
            ContainerLimits { memory: Some(Size(8 << 20)), cpus: Some(0.5), pids: Some(7) };
        assert_eq!(read(all).limits, expected);
        let default = ContainerLimits { pids: Some(DEFAULT_PIDS), ..options().container_limits() };
        assert_eq!(read(json!({ "image": "alpine:3" })).limits, default);
        let any = read(json!({ "image": "alpine:3", "success": "any" })).success;
        assert!(any.has(255) && !Success::default().has(255));
    }
}
