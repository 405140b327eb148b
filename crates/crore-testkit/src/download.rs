//! Packages from the registries of other languages, each set installed once for all runs in the user's cache.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, environment};

/// The directory of an installed set of packages. `make` installs it the first time, when the packages
/// change, or when its `program` does not run.
///
/// # Errors
///
/// [`Error::Unable`] with the last line of output of the failed command.
///
/// # Panics
///
/// If the installation fails and `CI=true`: there, a test that silently does not run is a failure.
pub(crate) fn installed(
    name: &str,
    wanted: &str,
    program: &str,
    make: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let made = install_once(&cache(), name, wanted, program, make);
    if environment::is_ci() { never_missing(made) } else { made }
}

fn install_once(
    cache: &Path,
    name: &str,
    wanted: &str,
    program: &str,
    make: impl FnOnce(&Path) -> Result<(), Error>,
) -> Result<PathBuf, Error> {
    let home = cache.join(name);
    let failed = |error: io::Error| Error::io(home.display(), &error);
    fs::create_dir_all(cache).map_err(failed)?;
    // Tests run concurrently; one of them installs.
    let lock = File::create(cache.join(format!("{name}.lock"))).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mark = home.join("made-of");
    if fs::read_to_string(&mark).is_ok_and(|made| made == wanted)
        && run(Command::new(home.join(program)).arg("--version")).is_ok()
    {
        return Ok(home);
    }
    eprintln!("testkit: downloading {wanted}");
    make(&home)?;
    fs::write(&mark, wanted).map_err(failed)?;
    Ok(home)
}

/// Runs a command that must succeed.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let shown = format!("{command:?}").replace('"', "");
    let unable = |why: String| Error::Unable(format!("`{shown}`: {why}"));
    let ran = command.stdin(Stdio::null()).output().map_err(|error| unable(error.to_string()))?;
    if ran.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&ran.stderr);
    Err(unable(stderr.trim().lines().last().unwrap_or("it failed").to_owned()))
}

/// Outside any checkout, so that a fresh checkout need not download again.
fn cache() -> PathBuf {
    let own = environment::read(environment::CACHE).map(PathBuf::from);
    let users = || environment::read("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || environment::read("HOME").map(|home| Path::new(&home).join(".cache"));
    let users = || users().or_else(home).unwrap_or_else(std::env::temp_dir);
    own.unwrap_or_else(|| users().join("crore-testkit"))
}

fn never_missing(made: Result<PathBuf, Error>) -> Result<PathBuf, Error> {
    made.map_err(|error| panic!("nothing may be skipped where CI=true: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_is_named_with_its_last_line() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo the last words >&2; exit 3"]);
        let Err(Error::Unable(why)) = run(&mut command) else { panic!("it went well") };
        assert!(why.starts_with("`sh -c") && why.ends_with(": the last words"), "{why}");
        assert!(matches!(run(&mut Command::new("no-such-program")), Err(Error::Unable(_))));
    }

    #[test]
    fn an_installation_is_repeated_when_other_packages_are_requested() {
        let cache = std::env::temp_dir().join(crate::unique_name("made"));
        let make = |wanted: &str| {
            let mut n = 0;
            let home = install_once(&cache, "it", wanted, "program", |home| {
                n += 1;
                fs::create_dir_all(home).map_err(|error| Error::io("made", &error))?;
                run(Command::new("cp").arg("/bin/true").arg(home.join("program")))
            });
            assert_eq!(home, Ok(cache.join("it")));
            n
        };
        assert_eq!((make("a==1"), make("a==1"), make("a==2"), make("a==2")), (1, 0, 1, 0));
        fs::remove_file(cache.join("it/program")).expect("removed");
        assert_eq!(make("a==2"), 1, "a program that does not run is installed again");
        fs::remove_dir_all(&cache).expect("removed");
    }

    #[test]
    #[should_panic(expected = "nothing may be skipped where CI=true")]
    fn a_missing_requirement_is_a_failure_where_skipping_is_forbidden() {
        _ = never_missing(Err(Error::Unable("no network".into())));
    }
}
