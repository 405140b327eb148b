use super::*;

fn translated(pairs: &[(&str, &str)]) -> Vec<TranslatedVariable> {
    read(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

fn keys_of(pairs: &[(&str, &str)]) -> Vec<String> {
    let all = translated(pairs).into_iter().flat_map(|one| one.keys);
    all.map(|(key, value)| format!("{key} = {value}")).collect()
}

#[test]
fn each_variable_maps_to_crore_keys_and_reports_them() {
    for (name, value, keys) in [
        ("WORKER_DEFAULT_CONCURRENCY", "8", "channels.default = 8"),
        ("JOB_QUEUE_EXPIRE_JOB_RESULT_SECONDS", "3600", "jobworkerp.keep-results = 3600s"),
        ("GRPC_ADDR", "0.0.0.0:9000", "listen.address = 0.0.0.0:9000"),
        ("LOG_LEVEL", "DEBUG", "log.level = debug"),
        ("LOG_FILE_DIR", "log/", "log.dir = log/"),
        ("LOG_USE_JSON", "true", "log.format = json"),
        ("LOG_USE_JSON", "false", "log.format = text"),
        ("PLUGINS_RUNNER_DIR", "./plugins", "runners.plugins = ./plugins"),
        (
            "OTLP_ADDR",
            "http://o:4317",
            "telemetry.endpoint = http://o:4317, telemetry.protocol = otlp",
        ),
        (
            "ZIPKIN_ADDR",
            "http://z:9411",
            "telemetry.endpoint = http://z:9411, telemetry.protocol = zipkin",
        ),
        ("JAEGER_ADDR", "j:6831", "telemetry.endpoint = http://j:4318, telemetry.protocol = otlp"),
        ("WORKER_CHANNELS", "a, b", "channels.a = 1, channels.b = 1"),
        ("SLACK_TITLE", "jobs", "jobworkerp.slack-title = jobs"),
        ("SLACK_CHANNEL", "#jobs", "jobworkerp.slack-channel = #jobs"),
        ("SLACK_NOTIFY_SUCCESS", "true", "jobworkerp.slack-on-success = true"),
        ("SLACK_NOTIFY_FAILURE", "0", "jobworkerp.slack-on-failure = false"),
    ] {
        let all = translated(&[(name, value)]);
        let [one] = all.as_slice() else { panic!("{name}: {all:?}") };
        assert_eq!((one.name, &one.line), (name, &format!("{name}={value}: {keys}")));
        assert_eq!(keys_of(&[(name, value)]).join(", "), keys);
        assert!(!one.is_warning, "{name}");
    }
}

#[test]
fn channels_are_paired_with_their_concurrencies() {
    let both = [("WORKER_CHANNELS", "channel1,channel2"), ("WORKER_CHANNEL_CONCURRENCIES", "4,1")];
    assert_eq!(keys_of(&both), ["channels.channel1 = 4", "channels.channel2 = 1"]);
    assert_eq!(translated(&both)[1].line, "WORKER_CHANNEL_CONCURRENCIES=4,1: see WORKER_CHANNELS");
    let fewer = [("WORKER_CHANNELS", "a,b"), ("WORKER_CHANNEL_CONCURRENCIES", "4")];
    assert_eq!(keys_of(&fewer), ["channels.a = 4", "channels.b = 1"]);
    let more = translated(&[("WORKER_CHANNELS", "a"), ("WORKER_CHANNEL_CONCURRENCIES", "4,5")]);
    assert!(
        more[1].is_warning && more[1].line.ends_with("2 numbers for 1 channels in WORKER_CHANNELS")
    );
}

#[test]
fn secrets_are_references_and_never_stored() {
    let token = translated(&[("SLACK_BOT_TOKEN", "xoxb-1")]);
    assert_eq!(
        token[0].keys,
        [("jobworkerp.slack-token".to_owned(), "env:SLACK_BOT_TOKEN".to_owned())]
    );
    assert_eq!(token[0].line, "SLACK_BOT_TOKEN=***: jobworkerp.slack-token = env:SLACK_BOT_TOKEN");
    for name in ["REDIS_URL", "REDIS_PASSWORD", "MYSQL_PASSWORD"] {
        assert!(!translated(&[(name, "hunter2")])[0].line.contains("hunter2"), "{name}");
    }
}

#[test]
fn unsupported_variables_warn_and_set_nothing() {
    for (name, value, why) in [
        ("STORAGE_TYPE", "redis", "Redis is not supported"),
        ("STORAGE_TYPE", "hybrid", "Redis is not supported"),
        ("STORAGE_TYPE", "oracle", "`rdb`, `redis` or `hybrid`"),
        ("MYSQL_HOST", "db", "MySQL is not supported"),
        ("REDIS_URL", "redis://redis:6379", "Redis is not supported"),
        ("JAEGER_ADDR", "jaeger", "`127.0.0.1:6831`"),
        ("JAEGER_ADDR", "http://j:6831", "`127.0.0.1:6831`"),
        ("WORKER_DEFAULT_CONCURRENCY", "many", "not a number"),
        ("LOG_LEVEL", "loud", "`error`"),
        ("LOG_USE_JSON", "perhaps", "`true` or `false`"),
    ] {
        let all = translated(&[(name, value)]);
        assert!(all[0].is_warning && all[0].line.contains(why), "{all:?}");
        assert!(all[0].keys.is_empty());
    }
    let both = translated(&[("ZIPKIN_ADDR", "http://z"), ("OTLP_ADDR", "http://o")]);
    assert!(!both[0].is_warning && both[1].is_warning, "the first wins");
    let addresses =
        [("JAEGER_ADDR", "j:1"), ("ZIPKIN_ADDR", "http://z"), ("OTLP_ADDR", "http://o")];
    let warnings: Vec<_> = translated(&addresses).iter().map(|one| one.is_warning).collect();
    assert_eq!(warnings, [false, true, true], "the first wins");
}

#[test]
fn ignored_variables_do_not_warn_and_unknown_ones_are_skipped() {
    for name in [
        "STORAGE_RESTORE_AT_STARTUP",
        "JOB_QUEUE_FETCH_INTERVAL",
        "USE_GRPC_WEB",
        "TZ_OFFSET_HOURS",
    ] {
        let all = translated(&[(name, "1")]);
        assert!(!all[0].is_warning && all[0].keys.is_empty(), "{all:?}");
    }
    assert_eq!(translated(&[("STORAGE_TYPE", "rdb")])[0].line, "STORAGE_TYPE=rdb: the default");
    assert!(translated(&[("PATH", "/bin"), ("LOG_LEVEL", ""), ("CRORE_TOKEN", "x")]).is_empty());
}
