//! A child, as its parent sees it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::child::ChildTask;
use super::message::ChildMessage;
use super::wait::LIMIT;

/// A running child, killed on drop.
#[derive(Debug)]
pub(crate) struct ChildHandle {
    child: Child,
    /// The child exits when this is closed, so it cannot outlive the parent.
    _stdin: ChildStdin,
    ready: Receiver<()>,
    over: Receiver<()>,
    listener: Option<JoinHandle<Vec<ChildMessage>>>,
}

impl ChildHandle {
    pub(crate) fn start(task: &ChildTask) -> Self {
        Self::run(&mut command(), task)
    }

    /// Like [`Self::start`], without privileges, if this process can drop its own.
    #[cfg(test)]
    pub(crate) fn start_as_nobody(task: &ChildTask) -> Self {
        let plain = command();
        let mut nobody = Command::new("setpriv");
        nobody.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        Self::run(nobody.arg(plain.get_program()).args(plain.get_args()), task)
    }

    fn run(command: &mut Command, task: &ChildTask) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child is started");
        let mut leash = child.stdin.take().expect("piped");
        // A child that failed to start is noticed by its silence.
        let _ = leash.write_all(task.line().as_bytes());
        let out = child.stdout.take().expect("piped");
        let (is_ready, ready) = mpsc::sync_channel(1);
        let (is_over, over) = mpsc::sync_channel(1);
        let listener = thread::spawn(move || listen(out, &is_ready, is_over));
        Self { child, _stdin: leash, ready, over, listener: Some(listener) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has opened the store or has ended.
    pub(crate) fn wait_ready(&self) {
        let ready = self.ready.recv_timeout(LIMIT);
        assert_ne!(ready, Err(RecvTimeoutError::Timeout), "a store opens in time");
    }

    /// Lets it work for `span`, or until it ends.
    pub(crate) fn let_work(&self, span: Duration) {
        // Either way the wait is over.
        let _ = self.over.recv_timeout(span);
    }

    /// Kills it and returns all its messages.
    pub(crate) fn kill(mut self) -> Vec<ChildMessage> {
        self.end();
        let listener = self.listener.take().expect("one listener");
        listener.join().expect("a listener listens")
    }

    fn end(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ChildHandle {
    fn drop(&mut self) {
        self.end();
    }
}

fn command() -> Command {
    let this = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(this);
    command.args(if cfg!(test) { TEST } else { EXAMPLE });
    command
}

/// How this program becomes a child: as a test, or by an argument.
const TEST: &[&str] = &["process::tests::child", "--exact", "--ignored", "--nocapture"];
const EXAMPLE: &[&str] = &["child"];

/// Reads until the child is gone. A truncated last line is ignored.
fn listen(out: ChildStdout, ready: &SyncSender<()>, over: SyncSender<()>) -> Vec<ChildMessage> {
    let mut out = BufReader::with_capacity(1 << 16, out);
    let (mut all, mut line) = (Vec::new(), String::new());
    while out.read_line(&mut line).is_ok_and(|n| n > 0) && line.ends_with('\n') {
        let message = ChildMessage::read(line.trim_end_matches('\n'));
        if message == Some(ChildMessage::Ready) {
            // There may be no receiver waiting.
            let _ = ready.try_send(());
        }
        all.extend(message);
        line.clear();
    }
    drop(over);
    all
}
