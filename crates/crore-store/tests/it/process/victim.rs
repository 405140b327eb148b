//! A child as its parent sees it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::child::Task;
use super::said::Said;
use super::wait::LIMIT;

/// A running child; it is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Victim {
    child: Child,
    /// The child ends when this is closed, so that it cannot outlive us.
    _leash: ChildStdin,
    ready: Receiver<()>,
    over: Receiver<()>,
    listener: Option<JoinHandle<Vec<Said>>>,
}

impl Victim {
    pub(crate) fn start(task: &Task) -> Self {
        Self::run(&mut command(), task)
    }

    /// The same without any rights, if we have all of them and can give them up.
    #[cfg(test)]
    pub(crate) fn start_as_nobody(task: &Task) -> Self {
        let plain = command();
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        Self::run(nobody.arg(plain.get_program()).args(plain.get_args()), task)
    }

    fn run(command: &mut Command, task: &Task) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child is started");
        let mut leash = child.stdin.take().expect("piped");
        // One that did not even start says so by saying nothing.
        let _ = leash.write_all(task.line().as_bytes());
        let out = child.stdout.take().expect("piped");
        let (is_ready, ready) = mpsc::sync_channel(1);
        let (is_over, over) = mpsc::sync_channel(1);
        let listener = thread::spawn(move || listen(out, &is_ready, is_over));
        Self { child, _leash: leash, ready, over, listener: Some(listener) }
    }

    #[cfg(test)]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has opened the store, or has ended.
    pub(crate) fn wait_ready(&self) {
        let ready = self.ready.recv_timeout(LIMIT);
        assert_ne!(ready, Err(RecvTimeoutError::Timeout), "a store opens in time");
    }

    /// Lets it work so long, or until it ends by itself.
    pub(crate) fn let_work(&self, span: Duration) {
        // Either way it is over now.
        let _ = self.over.recv_timeout(span);
    }

    /// Ends it, as nothing can keep it from, and gives all that it said.
    pub(crate) fn kill(mut self) -> Vec<Said> {
        self.end();
        let listener = self.listener.take().expect("one listener");
        listener.join().expect("a listener listens")
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.end();
    }
}

fn command() -> Command {
    let this = std::env::current_exe().expect("a program knows where it is");
    let mut command = Command::new(this);
    command.args(if cfg!(test) { TEST } else { EXAMPLE });
    command
}

/// How this program becomes a child: as a test of its own, or by a word.
const TEST: &[&str] = &["process::tests::child", "--exact", "--ignored", "--nocapture"];
const EXAMPLE: &[&str] = &["child"];

/// Reads until the child is gone. A last line that was cut off is not counted as said.
fn listen(out: ChildStdout, ready: &SyncSender<()>, over: SyncSender<()>) -> Vec<Said> {
    let mut out = BufReader::with_capacity(1 << 16, out);
    let (mut all, mut line) = (Vec::new(), String::new());
    while out.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
        let said = Said::read(line.trim_end_matches('\n'));
        if said == Some(Said::Ready) {
            // Nobody may be waiting for it.
            let _ = ready.try_send(());
        }
        all.extend(said);
        line.clear();
    }
    drop(over);
    all
}
