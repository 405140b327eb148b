//! `crore-testservers`, the binary.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crore_testkit::{DebianPackage, eventually, or_skip};

use crate::cleanup::ServerTraces;

fn tool() -> Command {
    Command::new(env!("CARGO_BIN_EXE_crore-testservers"))
}

fn run(args: &[&str]) -> Output {
    tool().args(args).output().expect("the tool runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8").trim().to_owned()
}

#[test]
fn the_commands_exit_code_is_the_tools() {
    assert_eq!(run(&["--", "sh", "-c", "exit 7"]).status.code(), Some(7));
    assert_eq!(run(&["--", "true"]).status.code(), Some(0));
    assert_eq!(run(&["--", "sh", "-c", "kill -TERM $$"]).status.code(), Some(128 + 15));
    assert_eq!(run(&["--", "no-such-command"]).status.code(), Some(127));
}

#[test]
fn invalid_arguments_print_the_usage() {
    for wrong in [&[][..], &["--postgres"], &["--oracle", "--", "true"], &["true"]] {
        let output = run(wrong);
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("usage:"), "{wrong:?}");
    }
}

#[test]
fn installing_an_installed_package_does_nothing() {
    if or_skip(DebianPackage::Postgres.require()).is_none() {
        return;
    }
    let output = run(&["--install", "--postgres"]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
}

#[test]
fn the_command_finds_every_server_through_its_variable() {
    for package in [DebianPackage::Postgres, DebianPackage::MariaDb, DebianPackage::Redis] {
        if or_skip(package.require()).is_none() {
            return;
        }
    }
    let script = r#"
        psql -XAtd "$CRORE_TEST_POSTGRES" -c 'SHOW data_directory' &&
        redis-cli -u "$CRORE_TEST_REDIS" PING &&
        echo "$CRORE_TEST_MARIADB" | sed -n 's|^mysql://root@\(.*\):\(.*\)/test$|\1 \2|p' | {
            read -r host port
            mariadb --no-defaults -N --protocol=tcp -h "$host" -P "$port" -u root -e 'SELECT 42'
        } &&
        for node in $(echo "$CRORE_TEST_REDIS_CLUSTER" | tr , ' '); do
            redis-cli -u "redis://$node" CLUSTER INFO | grep cluster_state:ok
        done
    "#;
    let all = ["--postgres", "--mariadb", "--redis", "--redis-cluster", "--", "sh", "-c", script];
    let output = run(&all);
    let stdout = stdout(&output);
    let lines: Vec<_> = stdout.lines().map(str::trim).collect();
    let ok = "cluster_state:ok";
    assert!(output.status.success(), "{output:?}");
    assert_eq!(lines[1..], ["PONG", "42", ok, ok, ok], "{output:?}");
    assert!(!PathBuf::from(lines[0]).exists(), "the tool ends after its servers");
}

#[test]
fn killing_the_tool_ends_its_servers_and_its_command() {
    if or_skip(DebianPackage::Redis.require()).is_none() {
        return;
    }
    let script = r#"redis-cli -u "$CRORE_TEST_REDIS" INFO server | sed -n 's/^process_id://p'
        redis-cli -u "$CRORE_TEST_REDIS" CONFIG GET dir | tail -1; echo $$; exec sleep 600"#;
    let mut killed = tool()
        .args(["--redis", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the tool runs");
    let lines = BufReader::new(killed.stdout.take().expect("piped")).lines();
    let lines: Vec<_> = lines.take(3).map(|line| line.expect("a line").trim().to_owned()).collect();
    let server =
        ServerTraces::new(lines[0].parse().expect("a process id"), PathBuf::from(&lines[1]));
    killed.kill().expect("it runs");
    killed.wait().expect("it was started");
    server.assert_gone_soon();
    let command = PathBuf::from("/proc").join(&lines[2]).join("exe");
    eventually(Duration::from_secs(15), || !command.exists());
}
