//! Values of settings that may stand elsewhere: `env:NAME` is a variable of the host's environment,
//! `file:/path` is what a file of the host holds.
//!
//! A handler is stored, listed and copied, so that a password in its settings would be read by all
//! who may see it. A reference is not: it is looked up when a job is run, by the host that runs it.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::pattern::Patterns;
use crate::runner::Failure;

/// What may be looked up in this process; anything, until somebody says otherwise.
static ALLOWED: OnceLock<Patterns> = OnceLock::new();

/// The largest file that holds a secret, in bytes: a certificate with its whole chain is far smaller.
const MAX_FILE: u64 = 64 * 1024;

/// A string of a handler's settings that is a value, or refers to one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

/// Where a value stands.
enum Place<'a> {
    Here,
    Environment(&'a str),
    File(&'a str),
}

impl Secret {
    /// What settings say: `env:NAME`, `file:/path`, or the value itself.
    pub fn new(written: impl Into<String>) -> Self {
        Self(written.into())
    }

    /// From now on only references that one of these matches are looked up in this process: whoever may define
    /// handlers could otherwise have anything that the host can read sent anywhere. Only the first who says it is heard.
    pub fn allow_only(patterns: Patterns) {
        let _ = ALLOWED.set(patterns);
    }

    /// Whether the value stands elsewhere.
    pub fn is_reference(&self) -> bool {
        !matches!(self.place(), Place::Here)
    }

    /// The value, looked up now. One end of line at the end of a file is not part of it. A failure
    /// says what is missing, and nothing of what is there.
    pub fn resolve(&self) -> Result<String, Failure> {
        let found = match self.place() {
            Place::Here => Ok(self.0.clone()),
            _ if !self.is_allowed() => {
                Err("may not be looked up here; `runners.secrets` says what may".to_owned())
            }
            Place::Environment(name) => from_environment(name).map_err(str::to_owned),
            Place::File(path) => from_file(path),
        };
        found.map_err(|problem| {
            Failure::fatal(format!("the secret `{}` {problem}", self.0)).with("reason", "secret")
        })
    }

    /// The same where nothing may block: a file may lie on a disk that does not answer. Whoever waits no longer drops it.
    pub async fn look_up(&self) -> Result<String, Failure> {
        if !self.is_reference() {
            return self.resolve();
        }
        let secret = self.clone();
        let found = spawn_blocking(move || secret.resolve()).await;
        found.unwrap_or_else(|error| Err(Failure::again(format!("a secret was not read: {error}"))))
    }

    fn is_allowed(&self) -> bool {
        // A pattern means the files below a directory, and nothing that is reached through it.
        let steps_out =
            |path: &str| Path::new(path).components().any(|part| part == Component::ParentDir);
        ALLOWED.get().is_none_or(|allowed| !steps_out(&self.0) && allowed.allows(&self.0))
    }

    fn place(&self) -> Place<'_> {
        if let Some(name) = self.0.strip_prefix("env:")
            && is_variable(name)
        {
            return Place::Environment(name);
        }
        match self.0.strip_prefix("file:") {
            Some(path) if path.starts_with('/') => Place::File(path),
            _ => Place::Here,
        }
    }
}

/// A reference is told; a value never is.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_reference() { &self.0 } else { "***" })
    }
}

/// Whether a text can be the name of a variable, so that `env: production` stays a text.
fn is_variable(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_start) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[expect(
    clippy::disallowed_methods,
    reason = "a handler's settings name the variable, not this code"
)]
fn from_environment(name: &str) -> Result<String, &'static str> {
    std::env::var(name).map_err(|error| match error {
        std::env::VarError::NotPresent => "is not in the environment of the host",
        std::env::VarError::NotUnicode(_) => "is not UTF-8",
    })
}

fn from_file(path: &str) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {}", error.kind());
    // A pipe that nobody writes to would be waited for.
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, how, Mode::empty());
    let file = File::from(opened.map_err(|errno| unreadable(errno.into()))?);
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is no file".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("has more than {MAX_FILE} bytes"));
    }
    let mut text = String::from_utf8(bytes).map_err(|_| "is not UTF-8")?;
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_exactly_a_reference_is_looked_up() {
        for text in ["", "env:", "env: A", "env:A B", "env:1A", "ENV:A", "file:a", "file://"] {
            let secret = Secret::new(text);
            let expected = text == "file://";
            assert_eq!(secret.is_reference(), expected, "`{text}`");
            if !expected {
                assert_eq!(secret.resolve().expect("a value of its own"), text);
            }
        }
    }

    #[test]
    fn a_variable_of_the_host_is_found() {
        let path = Secret::new("env:PATH").resolve().expect("there is always a PATH");
        assert!(path.contains('/'), "{path}");
    }

    #[test]
    fn a_file_is_read_without_its_last_end_of_line() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("secret");
        let secret = Secret::new(format!("file:{}", file.display()));
        for (written, read) in [("a\nb\n", "a\nb"), ("a\r\n", "a"), ("a", "a"), ("\n\n", "\n")] {
            std::fs::write(&file, written).expect("written");
            assert_eq!(secret.resolve().expect("read"), read);
        }
    }

    #[test]
    fn what_cannot_be_looked_up_is_told_without_what_is_there() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            format!("file:{}", path.display())
        };
        let cases = [
            ("env:CRORE_NO_SUCH".to_owned(), "is not in the environment of the host"),
            ("file:/no/such".to_owned(), "cannot be read: entity not found"),
            (format!("file:{}", dir.path().display()), "is no file"),
            (file("bytes", b"hush\xff"), "is not UTF-8"),
            (file("large", &vec![b'x'; 65_537]), "has more than 65536 bytes"),
        ];
        for (written, problem) in cases {
            let failure = Secret::new(&*written).resolve().expect_err("nothing to be found");
            assert_eq!(failure.error, format!("the secret `{written}` {problem}"));
            assert_eq!(failure.class, crate::Class::Fatal);
        }
    }

    #[test]
    fn a_pipe_is_no_file_and_is_not_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        let secret = Secret::new(format!("file:{}", path.display()));
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || tell.send(secret.resolve()));
        let told = told.recv_timeout(std::time::Duration::from_secs(10)).expect("at once");
        let failure = told.expect_err("no secret");
        assert!(failure.error.ends_with("is no file"), "{failure}");
    }

    #[test]
    fn what_is_not_allowed_is_not_looked_up_and_nothing_is_reached_through_what_is() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("open")).expect("made");
        for name in ["closed", "open/a"] {
            std::fs::write(dir.path().join(name), "x").expect("written");
        }
        let file = |name: &str| format!("file:{}/{name}", dir.path().display());
        Secret::allow_only([file("open/*").parse().expect("a pattern")].into_iter().collect());
        assert_eq!(Secret::new(file("open/a")).resolve().expect("allowed"), "x");
        for hidden in [file("closed"), file("open/../closed"), "env:PATH".to_owned()] {
            let failure = Secret::new(&*hidden).resolve().expect_err("not allowed");
            assert!(failure.error.contains("`runners.secrets`"), "{failure}");
        }
        assert_eq!(Secret::new("plain").resolve().expect("it is itself"), "plain");
    }

    #[test]
    fn a_value_is_not_shown() {
        assert_eq!(format!("{:?}", Secret::new("hush")), "***");
        assert_eq!(format!("{:?}", Secret::new("env:TOKEN")), "env:TOKEN");
    }
}
