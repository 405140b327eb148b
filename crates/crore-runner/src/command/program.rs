//! Looks up programs and checks that they may run.
//!
//! A program is an absolute path or a bare name. A name is looked up on the host's `PATH`, never in a
//! directory that the handler chooses, and the operator's patterns are matched with the path that was found.
//! A handler cannot run `./ls`.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crore_core::code::excerpt;
use crore_core::{Code, Invalid};

use super::environment;
use crate::pattern::Patterns;
use crate::runner::RunFailure;

/// Checks what can be checked without the file system.
pub(super) fn check(program: &str, allowed: &Patterns) -> Result<(), Invalid> {
    if !program.contains('/') {
        return Ok(());
    }
    check_absolute("settings.program", program)?;
    if allowed.allows(program) { Ok(()) } else { Err(forbidden(program)) }
}

/// Checks the working directory of a program.
pub(super) fn check_dir(dir: &str, allowed: &Patterns) -> Result<(), Invalid> {
    check_absolute("settings.dir", dir)?;
    if allowed.allows(dir) { Ok(()) } else { Err(forbidden_dir(dir)) }
}

fn forbidden_dir(dir: &str) -> Invalid {
    let message = format!(
        "directory `{}` is not allowed; allow it in `runners.dirs` in the configuration",
        excerpt(dir)
    );
    Invalid::new(Code::RunnerForbidden, "settings.dir", message)
}

/// Requires an absolute path without `..`, so that the path that matches a pattern is the path that is used.
fn check_absolute(field: &str, path: &str) -> Result<(), Invalid> {
    let wanders = Path::new(path).components().any(|part| part == Component::ParentDir);
    if path.starts_with('/') && !wanders {
        return Ok(());
    }
    let what =
        if field == "settings.program" { "a name or an absolute path" } else { "an absolute path" };
    let message = format!("`{}` is not {what} without `..`", excerpt(path));
    Err(Invalid::new(Code::Malformed, field, message))
}

fn forbidden(found: &str) -> Invalid {
    let message = format!(
        "program `{}` is not allowed; allow it in `runners.programs` in the configuration",
        excerpt(found)
    );
    Invalid::new(Code::RunnerForbidden, "settings.program", message)
}

/// Finds the program's file on this host. Its path without symbolic links, or the name as written, must be
/// allowed.
pub(super) fn find(program: &str, allowed: &Patterns) -> Result<PathBuf, RunFailure> {
    let is_name = !program.contains('/');
    let found = if is_name { on_path(program)? } else { PathBuf::from(program) };
    if allowed.is_empty() || is_name && allowed.allows(program) {
        return Ok(found);
    }
    // A missing file is reported when it is started.
    let resolved = fs::canonicalize(&found).unwrap_or_else(|_| found.clone());
    match allowed.allows_file("", &found, &resolved) {
        true => Ok(found),
        false => {
            Err(RunFailure::fatal(forbidden(&resolved.to_string_lossy()))
                .with("reason", "forbidden"))
        }
    }
}

/// The working directory on this host without symbolic links, which must be allowed.
pub(super) fn find_dir(dir: &str, allowed: &Patterns) -> Result<PathBuf, RunFailure> {
    let resolved = fs::canonicalize(dir).ok().filter(|dir| dir.is_dir()).ok_or_else(|| {
        let message = format!("settings.dir: `{dir}` is not a directory on the host");
        RunFailure::fatal(message).with("reason", "not-found")
    })?;
    match allowed.allows_file("", Path::new(dir), &resolved) {
        true => Ok(resolved),
        false => Err(RunFailure::fatal(forbidden_dir(&resolved.to_string_lossy()))
            .with("reason", "forbidden")),
    }
}

fn on_path(name: &str) -> Result<PathBuf, RunFailure> {
    let path = environment::path();
    let mut places =
        env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
    places.find(|place| is_executable(place)).ok_or_else(|| {
        let message = format!("program `{}` is not on the `PATH` of the host", excerpt(name));
        RunFailure::fatal(message).with("reason", "not-found")
    })
}

fn is_executable(path: &Path) -> bool {
    probe(path).is_ok()
}

/// Checks that a file exists and is executable by any user.
pub(super) fn probe(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let may_be = found.is_file() && found.permissions().mode() & 0o111 != 0;
    if may_be { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn patterns(texts: &[&str]) -> Patterns {
        texts.iter().map(|text| text.parse().expect("a pattern")).collect()
    }

    #[test]
    fn a_program_name_is_resolved_on_the_path_and_matched_by_name_or_path() {
        let found = find("sh", &Patterns::default()).expect("there is a shell");
        let found = found.to_str().expect("a text");
        assert!(found.starts_with('/') && found.ends_with("/sh"), "{found}");
        for allowed in [found, "sh", "*/sh"] {
            assert!(find("sh", &patterns(&[allowed])).is_ok(), "{allowed}");
        }
        let failure = find("sh", &patterns(&["/opt/*", "bash"])).expect_err("not allowed");
        let resolved = fs::canonicalize(found).expect("there is a shell");
        let refusal = format!("program `{}` is not allowed", resolved.display());
        assert!(failure.error.contains(&refusal), "{failure}");
        assert_eq!(failure.detail["reason"], "forbidden");
    }

    #[test]
    fn a_path_is_not_allowed_by_the_pattern_of_a_name() {
        assert!(find("/bin/sh", &patterns(&["sh"])).is_err());
    }

    #[test]
    fn a_link_out_of_the_allowed_directories_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        for place in [&inside, &outside] {
            fs::create_dir(place).expect("made");
        }
        symlink("/bin/sh", inside.join("sh")).expect("linked");
        symlink(&outside, inside.join("dir")).expect("linked");
        let allowed = patterns(&[&format!("{}/*", inside.display())]);
        let program = inside.join("sh");
        let program = program.to_str().expect("a text");
        let failure = find(program, &allowed).expect_err("it leads elsewhere");
        assert_eq!(failure.detail["reason"], "forbidden");
        assert!(find(program, &patterns(&[program])).is_ok(), "the link itself is named");
        let place = inside.join("dir");
        let place = place.to_str().expect("a text");
        let failure = find_dir(place, &allowed).expect_err("it leads elsewhere");
        assert!(failure.error.contains("`runners.dirs`"), "{failure}");
        let outside = outside.canonicalize().expect("it is there");
        assert_eq!(find_dir(place, &Patterns::default()).expect("allowed"), outside);
        assert!(find_dir("/no/such", &Patterns::default()).is_err());
    }

    #[test]
    fn a_program_not_on_the_path_is_reported() {
        let failure = find("no-such-program", &Patterns::default()).expect_err("it does not exist");
        assert_eq!(failure.error, "program `no-such-program` is not on the `PATH` of the host");
    }
}
