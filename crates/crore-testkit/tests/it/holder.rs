//! A process of its own that holds servers and can be killed: this very test binary, told by a
//! variable to run one test that starts servers, says so, and waits.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crore_testkit::{Package, Redis, eventually, or_skip, shared};

use crate::gone::Traces;

const ROLE: &str = "CRORE_TESTKIT_HOLDER";

/// The holder's side; does nothing in an ordinary run.
#[test]
fn a_holder_starts_servers_and_waits_for_the_end_of_its_input() {
    match env::var_os(ROLE).as_deref().and_then(|role| role.to_str()) {
        Some("redis") => {
            let redis = Redis::start().expect("redis starts");
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
    // Either end of the input will do.
    _ = io::stdin().lock().read_line(&mut String::new());
}

struct Holder {
    child: Child,
    held: Traces,
    /// Kept open, because the harness of the holder goes on to report.
    _output: BufReader<ChildStdout>,
}

impl Holder {
    /// Starts a holder in a process group of its own and waits until it has its server.
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
        let mut said = output.by_ref().lines().map_while(Result::ok);
        let said = said.find(|line| line.starts_with("held ")).expect("the holder says what");
        let mut words = said.split(' ').skip(1);
        let pid = words.next().and_then(|pid| pid.parse().ok()).expect("a process id");
        let held = Traces::new(pid, PathBuf::from(words.next().expect("a directory")));
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
fn a_server_goes_when_its_owner_is_killed() {
    if or_skip(Package::Redis.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("redis");
    holder.child.kill().expect("it runs");
    holder.child.wait().expect("it was started");
    holder.held.assert_gone_soon();
}

#[test]
fn a_server_goes_when_its_owners_whole_group_is_killed() {
    if or_skip(Package::Redis.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("redis");
    holder.kill_group();
    holder.held.assert_gone_soon();
}

#[test]
fn a_server_goes_when_its_supervisor_is_killed() {
    let Some(redis) = or_skip(Redis::start()) else { return };
    let stat = fs::read_to_string(format!("/proc/{}/status", redis.process().pid()));
    let stat = stat.expect("it runs");
    let supervisor = stat.lines().find_map(|line| line.strip_prefix("PPid:\t")).expect("a parent");
    let kill = Command::new("kill").args(["-KILL", supervisor]).status();
    assert!(kill.expect("kill runs").success());
    eventually(Duration::from_secs(15), || !redis.process().is_running());
    // Only the directory is left then, and nobody who would remove it.
    let dir = redis.process().dir().to_owned();
    drop(redis);
    fs::remove_dir_all(dir).expect("it is there");
}

#[test]
fn a_shared_server_goes_when_the_process_ends_although_statics_are_not_dropped() {
    if or_skip(Package::Postgres.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("shared-postgres");
    drop(holder.child.stdin.take());
    assert!(holder.child.wait().expect("it was started").success());
    holder.held.assert_gone_soon();
}

#[test]
fn a_shared_server_goes_when_the_process_is_killed() {
    if or_skip(Package::Postgres.require()).is_none() {
        return;
    }
    let mut holder = Holder::start("shared-postgres");
    holder.kill_group();
    holder.held.assert_gone_soon();
}
