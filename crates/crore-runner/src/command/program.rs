//! Which file a program is, and whether it may be run.
//!
//! A program is an absolute path or a bare name. A name is looked up on the `PATH` of the host, never
//! in a directory of the handler's choice, and what is matched with the operator's patterns is what
//! it is found to be: so nobody runs `./ls`.

use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crore_core::code::excerpt;
use crore_core::{Code, Invalid};

use super::environment;
use crate::pattern::Patterns;
use crate::runner::Failure;

/// Checks what can be known without looking at the machine.
pub(super) fn check(program: &str, allowed: &Patterns) -> Result<(), Invalid> {
    if !program.contains('/') {
        return Ok(());
    }
    check_absolute("settings.program", program)?;
    if allowed.allows(program) { Ok(()) } else { Err(forbidden(program)) }
}

/// Checks a directory that a program is to be started in.
pub(super) fn check_dir(dir: &str, allowed: &Patterns) -> Result<(), Invalid> {
    check_absolute("settings.dir", dir)?;
    if allowed.allows(dir) {
        return Ok(());
    }
    let message = format!(
        "the operator does not allow the directory `{}`; `runners.dirs` in the configuration says which",
        excerpt(dir)
    );
    Err(Invalid::new(Code::RunnerForbidden, "settings.dir", message))
}

/// A path that says where it is, and does not wander: what matches a pattern is where it leads.
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
        "the operator does not allow the program `{}`; `runners.programs` in the configuration says which",
        excerpt(found)
    );
    Invalid::new(Code::RunnerForbidden, "settings.program", message)
}

/// The file that is run: found on this host, and allowed by its path or by the name as written.
pub(super) fn find(program: &str, allowed: &Patterns) -> Result<PathBuf, Failure> {
    let is_name = !program.contains('/');
    let found = if is_name { on_path(program)? } else { PathBuf::from(program) };
    let is_allowed = found.to_str().is_some_and(|found| allowed.allows(found))
        || is_name && allowed.allows(program);
    if is_allowed {
        Ok(found)
    } else {
        Err(Failure::fatal(forbidden(&found.to_string_lossy())).with("reason", "forbidden"))
    }
}

fn on_path(name: &str) -> Result<PathBuf, Failure> {
    let path = environment::path();
    let mut places =
        env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join(name));
    places.find(|place| is_executable(place)).ok_or_else(|| {
        let message = format!("the program `{}` is not on the `PATH` of the host", excerpt(name));
        Failure::fatal(message).with("reason", "not-found")
    })
}

fn is_executable(path: &Path) -> bool {
    probe(path).is_ok()
}

/// Whether a file is there and may be executed by somebody.
pub(super) fn probe(path: &Path) -> io::Result<()> {
    let found = fs::metadata(path)?;
    let may_be = found.is_file() && found.permissions().mode() & 0o111 != 0;
    if may_be { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(texts: &[&str]) -> Patterns {
        texts.iter().map(|text| text.parse().expect("a pattern")).collect()
    }

    #[test]
    fn a_name_is_found_on_the_path_of_the_host_and_matched_as_what_it_is() {
        let found = find("sh", &Patterns::default()).expect("there is a shell");
        let found = found.to_str().expect("a text");
        assert!(found.starts_with('/') && found.ends_with("/sh"), "{found}");
        for allowed in [found, "sh", "*/sh"] {
            assert!(find("sh", &patterns(&[allowed])).is_ok(), "{allowed}");
        }
        let failure = find("sh", &patterns(&["/opt/*", "bash"])).expect_err("not allowed");
        assert!(failure.error.contains(&format!("does not allow the program `{found}`")));
        assert_eq!(failure.detail["reason"], "forbidden");
    }

    #[test]
    fn a_path_is_not_allowed_by_the_pattern_of_a_name() {
        assert!(find("/bin/sh", &patterns(&["sh"])).is_err());
    }

    #[test]
    fn what_is_nowhere_on_the_path_is_told() {
        let failure = find("no-such-program", &Patterns::default()).expect_err("not there");
        assert_eq!(failure.error, "the program `no-such-program` is not on the `PATH` of the host");
    }
}
