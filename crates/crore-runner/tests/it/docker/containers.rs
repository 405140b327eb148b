//! Input, output and limits of containers.

use crore_core::Encoding;
use crore_runner::{FailureClass, PositiveCount};
use crore_wire::units::Size;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::engine::Engine;
use crate::recorded_run::{RecordedRun, run, task, texts};

#[tokio::test]
async fn a_container_gets_the_payload_and_its_output_is_the_result() {
    let Some(engine) = Engine::start() else { return };
    let shell = async |script: &str, settings: Value| {
        texts(&engine.shell(script, settings).await.expect("it runs")).remove(0)
    };
    assert_eq!(shell("cat; echo; echo to the log >&2", json!({ "stdin": "in" })).await, "in\n");
    let large = "x".repeat(1 << 19);
    assert_eq!(shell("cat", json!({ "stdin": large })).await, large);
    assert_eq!(shell("true", json!({ "stdin": large })).await, "", "the payload is not parsed");
    let both = json!({ "stderr": "result", "payload": "none" });
    assert_eq!(shell("echo a; cat; sleep 0.2; echo b >&2", both).await, "a\nb\n");
    let output = engine.shell(r"printf '\377'", json!({})).await.expect("it runs");
    assert_eq!((output.items[0].encoding, output.items.len()), (Encoding::Bytes, 1));

    let args = json!({ "payload": "args", "cmd": ["echo", "-n"] });
    let runner = engine.runner(args).await;
    let output = run(&*runner, r#"["a b", "$HOME"]"#).await.expect("it runs");
    assert_eq!(texts(&output), ["a b $HOME"]);
    let failure = run(&*runner, "a b").await.expect_err("no JSON");
    assert!(failure.error.starts_with("payload: not a JSON array"), "{failure}");
    engine.assert_nothing_left();
}

#[tokio::test]
async fn lines_are_logged_while_a_container_runs() {
    let Some(engine) = Engine::start() else { return };
    let script = "echo out; echo err >&2; cat > /dev/null; printf end";
    let runner = engine.runner(json!({ "cmd": ["sh", "-c", script] })).await;
    let recorded = RecordedRun::new();
    let output = runner.run(&task(""), &recorded.context).await.expect("it runs");
    assert_eq!(texts(&output), ["out\nend"]);
    let mut lines = recorded.lines();
    lines.sort();
    assert_eq!(lines, ["end", "err", "out"]);
}

#[tokio::test]
async fn exit_codes_decide_and_are_reported_with_the_end_of_stderr() {
    let Some(engine) = Engine::start() else { return };
    let failure = engine.shell("echo so what >&2; exit 3", json!({})).await.expect_err("3");
    assert_eq!((&*failure.error, failure.class), ("exit code 3: so what", FailureClass::Temporary));
    assert_eq!(failure.detail["exit_code"], 3);
    assert_eq!(failure.detail["stderr"], "so what\n");
    let fine = engine.shell("echo; exit 3", json!({ "success": [0, 3] })).await;
    assert_eq!(texts(&fine.expect("3 is fine")), ["\n"]);
    engine.shell("exit 255", json!({ "success": "any" })).await.expect("any value");
    let failure = engine.shell("true", json!({ "success": [1] })).await.expect_err("0 is not");
    assert_eq!(failure.error, "exit code 0");
    let failure = engine.shell("kill -KILL 1; exit 137", json!({})).await.expect_err("killed");
    assert_eq!(failure.error, "exit code 137");
    let runner = engine.runner(json!({ "cmd": ["/no/such/program"] })).await;
    let failure = run(&*runner, "").await.expect_err("nothing to run");
    assert!(failure.error.contains("no such file"), "{failure}");
    assert_eq!(failure.class, FailureClass::Fatal);
    engine.assert_nothing_left();
}

#[tokio::test]
async fn a_container_has_the_configured_settings_and_no_others() {
    let Some(mut engine) = Engine::start() else { return };
    let shell = async |engine: &Engine, script: &str, settings: Value| {
        texts(&engine.shell(script, settings).await.expect("it runs")).remove(0)
    };
    let secret = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(secret.path(), "hush\n").expect("written");
    let secret = format!("file:{}", secret.path().display());
    let env = json!({ "env": { "PLAIN": "a b", "SECRET": &secret, "CRORE_JOB": "mine" } });
    let output = shell(&engine, "env | grep -v PATH= | sort", env).await;
    let expected = "CRORE_ATTEMPT=1 CRORE_JOB=7 CRORE_KIND=kind HOME=/ PLAIN=a b SECRET=hush";
    let mut lines: Vec<_> = output.lines().filter(|line| !line.starts_with("HOSTNAME=")).collect();
    lines.retain(|line| !line.starts_with("SHLVL=") && !line.starts_with("PWD="));
    assert_eq!(lines.join(" "), expected);

    let secretive = json!({ "env": { "SECRET": secret } });
    let failure = engine.shell("echo $SECRET >&2; exit 1", secretive).await.expect_err("it fails");
    assert_eq!((&*failure.error, &failure.detail["stderr"]), ("exit code 1: ***", &json!("***\n")));

    let person = json!({ "user": "1000:1001", "dir": "/tmp" });
    assert_eq!(shell(&engine, "echo $(id -u):$(id -g) $(pwd)", person).await, "1000:1001 /tmp\n");
    let entry = json!({ "entrypoint": ["echo", "entered"] });
    assert_eq!(shell(&engine, "x", entry).await, "entered sh -c x\n");
    assert_eq!(shell(&engine, "ls /sys/class/net", json!({})).await, "lo\n");
    let written = "touch /x 2>&1 || echo refused";
    assert!(shell(&engine, written, json!({ "read_only": true })).await.contains("refused"));
    assert_eq!(shell(&engine, written, json!({})).await, "");
    assert_eq!(
        shell(&engine, "grep NoNewPrivs /proc/self/status", json!({})).await,
        "NoNewPrivs:\t1\n"
    );

    let few = json!({ "pids": 4 });
    let forks = "for i in 1 2 3 4 5 6; do sleep 5 & done";
    let failure = engine.shell(forks, few.clone()).await.expect_err("too many");
    assert!(failure.error.contains("can't fork"), "{failure}");
    engine.options.container_pids = Some(PositiveCount(4));
    let failure = engine.shell(forks, json!({})).await.expect_err("configured by the operator");
    assert!(failure.error.contains("can't fork"), "{failure}");
    engine.assert_nothing_left();
}

#[tokio::test]
async fn a_container_over_its_memory_limit_is_killed() {
    let Some(mut engine) = Engine::start() else { return };
    let hungry = "x=$(yes | head -c 200000000); echo ${#x}";
    let failure =
        engine.shell(hungry, json!({ "memory": "16MiB" })).await.expect_err("it exceeds the limit");
    assert_eq!(failure.error, "killed: memory limit `16MiB` exceeded");
    assert_eq!(
        (&failure.detail["exit_code"], failure.class),
        (&json!(137), FailureClass::Temporary)
    );
    engine.options.container_memory = Some(Size(16 << 20));
    let failure = engine.shell(hungry, json!({})).await.expect_err("configured by the operator");
    assert_eq!(failure.detail["reason"], "memory");
    engine.assert_nothing_left();
}

#[tokio::test]
async fn output_limit_ends_the_container() {
    let Some(engine) = Engine::start() else { return };
    let much = "yes 0123456789abcdef | head -c 52428800";
    let failure = engine.shell(much, json!({})).await.expect_err("too much");
    assert_eq!(failure.error, "output exceeds `settings.max_output`, which is `1MiB`");
    assert_eq!(failure.class, FailureClass::Other);
    let for_ever = engine.shell("yes", json!({})).await.expect_err("too much");
    assert_eq!(for_ever.detail["reason"], "output");
    let output =
        engine.shell(much, json!({ "max_output": "50MiB" })).await.expect("exactly the maximum");
    assert_eq!(output.items[0].bytes.len(), 50 << 20);
    let to_log = format!("{much} >&2; echo done");
    let output = engine.shell(&to_log, json!({})).await.expect("a log may be as long");
    assert_eq!(texts(&output), ["done\n"]);
    engine.assert_nothing_left();
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_concurrent_calls_do_not_mix() {
    let Some(engine) = Engine::start() else { return };
    let runner = engine.runner(json!({ "cmd": ["sh", "-c", "sleep 0.1; cat"] })).await;
    let runs = (0..10).map(|n| {
        let runner = &runner;
        async move { texts(&run(&**runner, n.to_string()).await.expect("it runs")) }
    });
    let outputs = join_all(runs).await.concat();
    assert_eq!(outputs, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    engine.assert_nothing_left();
}

#[tokio::test]
async fn a_payload_may_choose_an_allowed_image_and_command() {
    let Some(mut engine) = Engine::start() else { return };
    let image = crore_testkit::DockerServer::IMAGE;
    engine.options.images = [image.parse().expect("a pattern")].into_iter().collect();
    let settings = json!({ "payload": "config", "env": { "A": "handler" } });
    let runner = engine.runner(settings).await;
    let config = json!({
        "Image": image, "Cmd": ["-c", "echo $A $B $(pwd) $(id -u)"], "Entrypoint": ["sh"],
        "Env": ["A=job", "B=env:HOME"], "WorkingDir": "/tmp", "User": "5",
    });
    let output = run(&*runner, config.to_string()).await.expect("it runs");
    assert_eq!(texts(&output), ["handler env:HOME /tmp 5\n"]);
    let refused = [
        (json!({ "Image": "evil" }), "payload: `Image`: image `evil` is not allowed"),
        (
            json!({ "HostConfig": { "Privileged": true } }),
            "payload: `HostConfig.Privileged` is not",
        ),
    ];
    for (config, start) in refused {
        let failure = run(&*runner, config.to_string()).await.expect_err("refused");
        assert!(failure.error.starts_with(start), "{failure}");
        assert_eq!(failure.class, FailureClass::Fatal);
    }
    let handler = json!({ "payload": "config", "user": "7", "cmd": ["id", "-u"] });
    let runner = engine.runner(handler).await;
    assert_eq!(texts(&run(&*runner, "{}").await.expect("it runs")), ["7\n"]);
    let failure = run(&*runner, r#"{"User": "root"}"#).await.expect_err("refused");
    assert_eq!(failure.error, "payload: `User`: `root` differs from the handler's user, `7`");
    engine.assert_nothing_left();
}
