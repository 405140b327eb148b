//! References to secrets in settings: `env:NAME` is a variable of the host's environment,
//! `file:/path` the content of a file on the host.
//!
//! Handlers are stored, listed and copied, so a password in their settings would be visible to
//! every reader. A reference is not: the host that runs a job resolves it at that time.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Component, Path};
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::pattern::Patterns;
use crate::runner::RunFailure;

/// The references that may be resolved in this process; any, until it is set.
static ALLOWED: OnceLock<Patterns> = OnceLock::new();

/// Maximum size of a secret file in bytes; certificate chains are far smaller.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// A string of a handler's settings: a value, or a reference to one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretRef(String);

/// The source of a value.
enum SecretSource<'a> {
    Literal,
    Environment(&'a str),
    File(&'a str),
}

impl SecretRef {
    /// From the text in the settings: `env:NAME`, `file:/path`, or the value itself.
    pub fn new(written: impl Into<String>) -> Self {
        Self(written.into())
    }

    /// Restricts the references that are resolved in this process. Without this, a caller that may
    /// define handlers could send every variable and file of the host to any address. Only the
    /// first call has an effect.
    pub fn allow_only(patterns: Patterns) {
        let _ = ALLOWED.set(patterns);
    }

    /// Whether the value is stored elsewhere.
    pub fn is_reference(&self) -> bool {
        !matches!(self.source(), SecretSource::Literal)
    }

    /// Resolves the value, without one line ending at the end of a file. An error names the
    /// reference, never any content.
    pub fn resolve(&self) -> Result<String, RunFailure> {
        let found = match self.source() {
            SecretSource::Literal => Ok(self.0.clone()),
            _ if !self.is_allowed() => {
                Err("is not allowed; allow it in `runners.secrets`".to_owned())
            }
            SecretSource::Environment(name) => from_environment(name).map_err(str::to_owned),
            SecretSource::File(path) => from_file(path, ALLOWED.get()),
        };
        found.map_err(|problem| {
            RunFailure::fatal(format!("the secret `{}` {problem}", self.0)).with("reason", "secret")
        })
    }

    /// [`resolve`](Self::resolve) off the async threads: a file may be on a disk that hangs.
    pub async fn resolve_off_thread(&self) -> Result<String, RunFailure> {
        if !self.is_reference() {
            return self.resolve();
        }
        let secret = self.clone();
        let found = spawn_blocking(move || secret.resolve()).await;
        found.unwrap_or_else(|error| {
            Err(RunFailure::temporary(format!("reading a secret failed: {error}")))
        })
    }

    fn is_allowed(&self) -> bool {
        // A pattern covers the files below a directory, so `..` must not lead out of it.
        let leaves_directory =
            |path: &str| Path::new(path).components().any(|part| part == Component::ParentDir);
        ALLOWED.get().is_none_or(|allowed| !leaves_directory(&self.0) && allowed.allows(&self.0))
    }

    fn source(&self) -> SecretSource<'_> {
        if let Some(name) = self.0.strip_prefix("env:")
            && is_variable(name)
        {
            return SecretSource::Environment(name);
        }
        match self.0.strip_prefix("file:") {
            Some(path) if path.starts_with('/') => SecretSource::File(path),
            _ => SecretSource::Literal,
        }
    }
}

/// Prints a reference, but never a value.
impl fmt::Debug for SecretRef {
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

/// Reads a file. The path of the opened file, without symbolic links, must be allowed: a link below an allowed
/// directory may lead out of it.
fn from_file(path: &str, allowed: Option<&Patterns>) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {}", error.kind());
    // NONBLOCK: opening a pipe without a writer would block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::empty());
    let file = File::from(opened.map_err(|errno| unreadable(errno.into()))?);
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a file".to_owned());
    }
    if let Some(allowed) = allowed {
        let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if !allowed.allows_file("file:", Path::new(path), &opened.map_err(unreadable)?) {
            return Err(
                "is a link to a file that is not allowed; allow it in `runners.secrets`".to_owned()
            );
        }
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("has more than {MAX_FILE_BYTES} bytes"));
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
    fn only_exact_references_are_resolved() {
        for text in ["", "env:", "env: A", "env:A B", "env:1A", "ENV:A", "file:a", "file://"] {
            let secret = SecretRef::new(text);
            let expected = text == "file://";
            assert_eq!(secret.is_reference(), expected, "`{text}`");
            if !expected {
                assert_eq!(secret.resolve().expect("a value of its own"), text);
            }
        }
    }

    #[test]
    fn a_variable_of_the_host_is_found() {
        let path = SecretRef::new("env:PATH").resolve().expect("there is always a PATH");
        assert!(path.contains('/'), "{path}");
    }

    #[test]
    fn a_file_is_read_without_its_final_newline() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("secret");
        let secret = SecretRef::new(format!("file:{}", file.display()));
        for (written, read) in [("a\nb\n", "a\nb"), ("a\r\n", "a"), ("a", "a"), ("\n\n", "\n")] {
            std::fs::write(&file, written).expect("written");
            assert_eq!(secret.resolve().expect("read"), read);
        }
    }

    #[test]
    fn failed_lookup_does_not_reveal_content() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).expect("written");
            format!("file:{}", path.display())
        };
        let cases = [
            ("env:CRORE_NO_SUCH".to_owned(), "is not in the environment of the host"),
            ("file:/no/such".to_owned(), "cannot be read: entity not found"),
            (format!("file:{}", dir.path().display()), "is not a file"),
            (file("bytes", b"hush\xff"), "is not UTF-8"),
            (file("large", &vec![b'x'; 65_537]), "has more than 65536 bytes"),
        ];
        for (written, problem) in cases {
            let failure = SecretRef::new(&*written).resolve().expect_err("nothing to be found");
            assert_eq!(failure.error, format!("the secret `{written}` {problem}"));
            assert_eq!(failure.class, crate::FailureClass::Fatal);
        }
    }

    #[test]
    fn a_pipe_is_refused_as_a_secret_file_without_blocking() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("pipe");
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a pipe");
        let secret = SecretRef::new(format!("file:{}", path.display()));
        let (sender, received) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(secret.resolve()));
        let received = received.recv_timeout(std::time::Duration::from_secs(10)).expect("at once");
        let failure = received.expect_err("no secret");
        assert!(failure.error.ends_with("is not a file"), "{failure}");
    }

    #[test]
    fn disallowed_references_and_parent_paths_are_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("open")).expect("created");
        for name in ["closed", "open/a"] {
            std::fs::write(dir.path().join(name), "x").expect("written");
        }
        let file = |name: &str| format!("file:{}/{name}", dir.path().display());
        SecretRef::allow_only([file("open/*").parse().expect("a pattern")].into_iter().collect());
        assert_eq!(SecretRef::new(file("open/a")).resolve().expect("allowed"), "x");
        for (link, target) in [("open/out", "closed"), ("open/in", "open/a"), ("open/up", "")] {
            let (link, target) = (dir.path().join(link), dir.path().join(target));
            std::os::unix::fs::symlink(target, link).expect("linked");
        }
        assert_eq!(SecretRef::new(file("open/in")).resolve().expect("allowed"), "x");
        let links = [file("open/out"), file("open/up/closed")];
        for hidden in
            [file("closed"), file("open/../closed"), "env:PATH".to_owned()].into_iter().chain(links)
        {
            let failure = SecretRef::new(&*hidden).resolve().expect_err("not allowed");
            assert!(failure.error.contains("`runners.secrets`"), "{failure}");
        }
        assert_eq!(SecretRef::new("plain").resolve().expect("a plain value"), "plain");
    }

    #[test]
    fn a_value_is_not_shown() {
        assert_eq!(format!("{:?}", SecretRef::new("hush")), "***");
        assert_eq!(format!("{:?}", SecretRef::new("env:TOKEN")), "env:TOKEN");
    }
}
