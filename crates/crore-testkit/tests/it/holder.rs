//! A separate process that holds a server and can be killed. It is this test binary again, running one test; an
//! environment variable selects the server, which the test starts and reports before it waits.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crore_testkit::{DebianPackage, RedisServer, eventually, or_skip, shared};

use crate::cleanup::ServerTraces;

const ROLE: &str = "CRORE_TESTKIT_HOLDER";

/// The holder's side; does nothing in an ordinary run.
#[test]
fn a_holder_starts_servers_and_waits_for_the_end_of_its_input() {
    match env::var_os(ROLE).as_deref().and_then(|role| role.to_str()) {
        Some("redis") => {
            let redis = RedisServer::start().expect("redis starts");
            hold(redis.process().pid(), redis.process().dir());
        }
        Some("shared-postgres") => {
            let url = shared::postgres().expect("postgres starts");
            assert_eq!(shared::postgres().as_ref(), Ok(&url), "there is one for the process");
            let data = psql(&url, "SHOW data_directory");
            let pid = fs::read_to_string(Path::new(&data).join("postmaster.pid"));
            let pid = pid.ok().and_then(|text| text.lines().next()?.parse().ok());
            let dir = Path::new(&data).parent().expect("its directory holds the data");
            hold(pid.expect("a process id"), dir);
        }
        _ => {}
    }
}

fn psql(url: &str, sql: &str) -> String {
    let output = Command::new("psql").args(["-XAtd", url, "-c", sql]).output();
    String::from_utf8(output.expect("psql runs").stdout).expect("UTF-8").trim().to_owned()
}

fn hold(pid: u32, dir: &Path) {
    println!("\nheld {pid} {}", dir.display());
    io::stdout().flush().expect("the output is open");
    // A line and the end of input both end the wait.
    _ = io::stdin().lock().read_line(&mut String::new());
}

struct Holder {
    child: Child,
    held: ServerTraces,
    /// Kept open, because the holder's test harness still prints its report.
    _output: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts a holder in its own process group and waits until its server runs.
    fn start(role: &str) -> Self {
        let mut child = Command::new(env::current_exe().expect("this binary has a path"))
            .args(["--exact", "--nocapture"])
            .arg("holder::a_holder_starts_servers_and_waits_for_the_end_of_its_input")
            .env(ROLE, role)
            .env_remove("CRORE_TEST_POSTGRES")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("the holder starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut lines = output.by_ref().lines().map_while(Result::ok);
        let held = lines.find(|line| line.starts_with("held ")).expect("the holder reports it");
        let mut words = held.split(' ').skip(1);
        let pid = words.next().and_then(|pid| pid.parse().ok()).expect("a process id");
        let held = ServerTraces::new(pid, PathBuf::from(words.next().expect("a directory")));
        Self { child, held, _output: output }
    }

    fn kill_group(&mut self) {
        let group = format!("-{}", self.child.id());
        let kill = Command::new("kill").args(["-KILL", "--", &group]).status();
        assert!(kill.expect("kill runs").success());
        self.child.wait().expect("it was started");
    }
}

#[test]
fn a_server_exits_when_its_owner_is_killed() {
    if or_skip(DebianPackage::Redis.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("redis");
    holder.child.kill().expect("it runs");
    holder.child.wait().expect("it was started");
    holder.held.assert_gone_soon();
}

#[test]
fn a_server_exits_when_the_process_group_of_its_owner_is_killed() {
    if or_skip(DebianPackage::Redis.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("redis");
    holder.kill_group();
    holder.held.assert_gone_soon();
}

#[test]
fn a_server_exits_when_its_supervisor_is_killed() {
    let Some(redis) = or_skip(RedisServer::start()) else { return };
    let stat = fs::read_to_string(format!("/proc/{}/status", redis.process().pid()));
    let stat = stat.expect("it runs");
    let supervisor = stat.lines().find_map(|line| line.strip_prefix("PPid:\t")).expect("a parent");
    let kill = Command::new("kill").args(["-KILL", supervisor]).status();
    assert!(kill.expect("kill runs").success());
    eventually(Duration::from_secs(15), || !redis.process().is_running());
    // Without the supervisor, the directory stays.
    let dir = redis.process().dir().to_owned();
    drop(redis);
    fs::remove_dir_all(dir).expect("it exists");
}

#[test]
fn a_shared_server_exits_with_its_process_although_statics_are_not_dropped() {
    if or_skip(DebianPackage::Postgres.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("shared-postgres");
    drop(holder.child.stdin.take());
    assert!(holder.child.wait().expect("it was started").success());
    holder.held.assert_gone_soon();
}

#[test]
fn a_shared_server_exits_when_its_process_is_killed() {
    if or_skip(DebianPackage::Postgres.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("shared-postgres");
    holder.kill_group();
    holder.held.assert_gone_soon();
}
