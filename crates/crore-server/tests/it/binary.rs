//! Starts the binary and calls it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crore_testkit::eventually;
use serde_json::Value;
use tempfile::TempDir;

/// Timeout: longer than anything here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// The binary with a clean environment.
pub(crate) fn crore(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crore"));
    command.env_clear().current_dir(dir).args(arguments).stdin(Stdio::null());
    command
}

/// Runs a command to its end.
pub(crate) fn run(dir: &Path, arguments: &[&str]) -> FinishedCommand {
    FinishedCommand::of(crore(dir, arguments).output().expect("it runs"))
}

/// Output and exit code of a command.
#[derive(Debug)]
pub(crate) struct FinishedCommand {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) code: Option<i32>,
}

impl FinishedCommand {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }

    /// Its standard output; panics unless it succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }
}

/// A server that runs until it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    said: Arc<Mutex<String>>,
    wrote: Arc<Mutex<String>>,
}

/// Collects the output of a program.
fn follow(stream: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let copy = Arc::clone(&text);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let mut text = copy.lock().expect("no panic");
            text.push_str(&line);
            text.push('\n');
        }
    });
    text
}

impl Server {
    /// `crore serve` on a free port.
    pub(crate) fn start(dir: &Path, more: &[&str]) -> Self {
        Self::start_with(dir, "serve", more)
    }

    pub(crate) fn start_with(dir: &Path, command: &str, more: &[&str]) -> Self {
        let arguments = [&[command, "--listen", "127.0.0.1:0"], more].concat();
        Self::spawn(crore(dir, &arguments))
    }

    /// `crore serve` on an address that was used before.
    pub(crate) fn start_at(dir: &Path, address: SocketAddr) -> Self {
        Self::spawn(crore(dir, &["serve", "--listen", &address.to_string()]))
    }

    /// `crore serve`, started through a program that executes it.
    pub(crate) fn start_through(dir: &Path, program: &[&str], more: &[&str]) -> Self {
        let serve = [env!("CARGO_BIN_EXE_crore"), "serve", "--listen", "127.0.0.1:0"];
        let (first, rest) = program.split_first().expect("a program");
        let mut command = Command::new(first);
        command.args(rest).args(serve).args(more).current_dir(dir).stdin(Stdio::null());
        Self::spawn(command)
    }

    /// Starts a command, and waits until it listens.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        let said = follow(child.stdout.take().expect("piped"));
        let wrote = follow(child.stderr.take().expect("piped"));
        let address = eventually(LONG, || {
            let text = said.lock().expect("no panic").clone();
            let line = text.lines().find(|line| line.contains("listens on http"));
            let address = line.and_then(|line| line.rsplit("://").next()?.parse().ok());
            let ended = child.try_wait().expect("a child").is_some();
            assert!(!ended || address.is_some(), "{text}{}", wrote.lock().expect("no panic"));
            address
        });
        Self { child, address, said, wrote }
    }

    /// Its standard output.
    pub(crate) fn stdout(&self) -> String {
        self.said.lock().expect("no panic").clone()
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        self.wrote.lock().expect("no panic").clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually(LONG, || self.child.try_wait().expect("a child"))
    }

    /// Waits until its log contains a text.
    #[track_caller]
    pub(crate) fn wait_for_log(&self, what: &str) {
        eventually(LONG, || match self.log() {
            text if text.contains(what) => Ok(()),
            text => Err(text),
        });
    }

    /// Stops it, and waits for a successful exit.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.log());
    }

    /// Stops it without waiting for running jobs.
    pub(crate) fn stop_soon(mut self) {
        self.signal("TERM");
        self.wait_for_log("shutting down");
        self.signal("TERM");
        self.wait();
    }

    /// A call over plain HTTP: status and body.
    pub(crate) fn call(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        call(self.address, method, path, body).expect("an answer")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, Some(body));
        assert!(matches!(status, 200..=299), "{path}: {status} {answer}");
        answer
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, answer) = self.call("GET", path, None);
        assert_eq!(status, 200, "{path}: {answer}");
        answer
    }

    /// Runs a command against this server.
    pub(crate) fn run(&self, arguments: &[&str]) -> FinishedCommand {
        FinishedCommand::of(self.command(arguments).output().expect("it runs"))
    }

    /// Runs a command against this server, with standard input.
    pub(crate) fn run_on(&self, arguments: &[&str], input: &str) -> FinishedCommand {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let stdin: ChildStdin = child.stdin.take().expect("piped");
        let input = input.to_owned();
        let writer = thread::spawn(move || (&stdin).write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("it runs");
        writer.join().expect("no panic").expect("read");
        FinishedCommand::of(output)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = crore(Path::new("/"), arguments);
        command.env("CRORE_SERVER", self.url());
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that is killed when it is dropped.
pub(crate) struct KilledChild(Child);

impl KilledChild {
    /// A command of the binary against a server, in the background.
    pub(crate) fn start(server: &Server, arguments: &[&str]) -> Self {
        Self(server.command(arguments).spawn().expect("started"))
    }
}

impl Drop for KilledChild {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A request on a connection of its own.
pub(crate) fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> std::io::Result<(u16, Value)> {
    let body = body.map(ToString::to_string).unwrap_or_default();
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LONG * 3))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let body = if body.is_empty() { Value::Null } else { serde_json::from_str(body)? };
    Ok((status.unwrap_or(0), body))
}

/// The permissions of a file or a directory.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).expect("it exists").mode() & 0o777
}

/// A directory for a test.
pub(crate) fn dir() -> TempDir {
    tempfile::tempdir().expect("a directory")
}
