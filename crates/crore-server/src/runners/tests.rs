use crore_runner::{Cpus, PositiveCount};

use super::*;
use crate::config::{self, ConfigSource, RawConfig, SettingValue};

fn parsed(keys: &[(&str, &str)]) -> Result<Config, String> {
    let mut raw = RawConfig::default();
    for (key, value) in keys {
        let key = format!("runners.{key}");
        raw.put(&key, SettingValue::One((*value).to_owned()), ConfigSource::Flag("--set"));
    }
    config::parse(&mut raw).map_err(|faults| faults.to_string())
}

#[test]
fn the_default_state_directory_is_in_the_data_directory() {
    let config = parsed(&[]).expect("the defaults");
    let data = Path::new("data");
    let expected = Options { state: Some(data.join("hosts")), ..Options::default() };
    assert_eq!(options(&config, Some(data)), expected);
    let plugin = plugins(&config, data).expect("a working directory");
    assert_eq!((plugin.options, plugin.env.len()), (Options::default(), 0));
}

#[test]
fn configured_values_reach_the_runners() {
    let config = parsed(&[
        ("max-output", "2MiB"),
        ("max-grace", "3s"),
        ("container-memory", "64MiB"),
        ("container-cpus", "1.5"),
        ("container-pids", "7"),
        ("state", "/var/lib/crore/hosts"),
        ("command-memory", "1GiB"),
        ("command-cpu-seconds", "60"),
        ("command-open-files", "100"),
        ("command-processes", "200"),
        ("command-file-size", "0B"),
        ("plugin-memory", "1GiB"),
        ("plugin-grace", "2s"),
        ("plugin-start", "1m"),
        ("plugin-env", "A=b=c,PATH,CRORE_NO_SUCH,EMPTY="),
    ]);
    let config = config.expect("all valid");
    let expected = Options {
        max_output: Size(2 << 20),
        max_grace: Span::from_secs(3),
        container_memory: Some(Size(64 << 20)),
        container_cpus: Some(Cpus(1.5)),
        container_pids: Some(PositiveCount(7)),
        state: Some("/var/lib/crore/hosts".into()),
        command_memory: Some(Size(1 << 30)),
        command_cpu_seconds: Some(PositiveCount(60)),
        command_open_files: Some(PositiveCount(100)),
        command_processes: Some(PositiveCount(200)),
        command_file_size: Some(Size(0)),
        plugin_memory: Some(Size(1 << 30)),
        plugin_grace: Span::from_secs(2),
        plugin_start: Span::from_secs(60),
        plugin_env: config.runners.options.plugin_env.clone(),
        ..Options::default()
    };
    assert_eq!(options(&config, None), expected);
    let plugin = plugins(&config, Path::new("/")).expect("a working directory");
    assert_eq!(plugin.options, expected);
    let path = environment::read("PATH").expect("there is always a PATH");
    let env = [("A", "b=c"), ("EMPTY", ""), ("PATH", &path)];
    let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(plugin.env, env.into_iter().collect());
}

#[test]
fn invalid_values_are_reported_with_their_key() {
    let cases = [
        ("max-output", "0B", "cannot be zero"),
        ("max-grace", "0s", "cannot be zero"),
        ("container-memory", "5MiB", "6MiB"),
        ("container-memory", "much", "expected a size such as"),
        ("container-cpus", "0", "such as `2` or `0.5`"),
        ("container-cpus", "two", "such as `2` or `0.5`"),
        ("container-cpus", "NaN", "such as `2` or `0.5`"),
        ("container-pids", "0", "at least 1"),
        ("container-pids", "1.5", "at least 1"),
        ("command-memory", "0B", "cannot be zero"),
        ("command-open-files", "-1", "at least 1"),
        ("plugin-memory", "0B", "cannot be zero"),
        ("plugin-grace", "0s", "cannot be zero"),
        ("plugin-start", "soon", "such as `30s`"),
        ("plugin-env", "A=b,A=c", "`A` is given twice"),
        ("plugin-env", "=b", "`=b` is neither NAME=VALUE nor the name"),
        ("plugin-env", "A B", "`A B` is neither"),
        ("state", "", "cannot be empty"),
    ];
    for (key, value, why) in cases {
        let told = parsed(&[(key, value)]).expect_err("it cannot be");
        let line = format!("--set: runners.{key} = `{value}`: ");
        assert!(told.contains(&line) && told.contains(why), "{key} {value}: {told}");
    }
}

#[test]
fn a_server_without_runners_enforces_no_caps() {
    let config = parsed(&[]).expect("the defaults");
    let front = validators(Outbound::new(config.outbound.clone()));
    let much = serde_json::json!({ "max_output": "1GiB", "grace": "1h" });
    for (runner, key, value) in [("command", "program", "ls"), ("docker", "image", "busybox")] {
        let mut settings = much.as_object().expect("an object").clone();
        settings.insert(key.to_owned(), value.into());
        let runner = Name::new("runner", runner).expect("a name");
        let handler = crore_core::Handler::new(runner, settings);
        front.check(&handler).expect("decided elsewhere");
        let here =
            build(&config, Outbound::new(config.outbound.clone()), None).expect("all runners");
        let here = Runners::clone(&here).allow("command").allow("docker");
        let told = here.check(&handler).expect_err("too much").to_string();
        assert!(told.contains("`runners.max-"), "{told}");
    }
}
