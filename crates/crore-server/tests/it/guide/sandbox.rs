//! A sandbox for a page: a fresh directory, and namespaces of its own for network, mounts and processes. Its ports
//! cannot conflict with those of another test, and whatever it starts ends with it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crore_testkit::{Error, or_skip};

use super::blocks::Block;
use super::root;
use crate::binary::dir;

/// Timeout of a page, in seconds.
const TIMEOUT: &str = "120";

const UNSHARE: [&str; 10] = [
    "unshare",
    "--user",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--",
];

/// Directories of the system's programs.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Stand-ins for programs, first on the `PATH` of a page.
const SHIMS: [(&str, &str); 3] = [
    ("crore", include_str!("shims/crore.sh")),
    ("cargo", include_str!("shims/cargo.sh")),
    ("curl", include_str!("shims/curl.sh")),
];

/// Runs the blocks of a page, and returns what each printed. Panics if a command fails; skips visibly on a machine
/// without namespaces.
pub(super) fn run(file: &str, blocks: &[&Block]) -> Option<Vec<String>> {
    or_skip(check())?;
    let page = dir();
    let path = |name: &str| page.path().join(name);
    for name in ["bin", "tmp", "checkout"] {
        fs::create_dir(path(name)).expect("created");
    }
    for (name, script) in SHIMS {
        let shim = path("bin").join(name);
        fs::write(&shim, script).expect("written");
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).expect("executable");
    }
    // The commands of a page run in a checkout of the repository.
    for name in ["crates", "docs", "examples", "sdks"] {
        symlink(root().join(name), path("checkout").join(name)).expect("linked");
    }
    fs::write(path("page.sh"), script(file, blocks)).expect("written");
    let output = command(page.path()).output().expect("it runs");
    let read = |name: &str| fs::read_to_string(path(name)).unwrap_or_default();
    let printed: Vec<_> = (0..blocks.len()).map(|n| read(&format!("out-{n}"))).collect();
    let errors = String::from_utf8_lossy(&output.stderr);
    let log = read("server.log");
    assert!(
        output.status.success(),
        "{file}: {}\n{errors}{}\nlog of the server:\n{log}",
        output.status,
        printed.concat()
    );
    Some(printed)
}

/// Whether this machine has what a page needs.
fn check() -> Result<(), Error> {
    let tried = Command::new(UNSHARE[0]).args(&UNSHARE[1..]).args(["ip", "link"]).output();
    match tried {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(Error::Unable(String::from_utf8_lossy(&output.stderr).into_owned())),
        Err(error) => Err(Error::Unable(format!("unshare: {error}"))),
    }
}

fn command(page: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", TIMEOUT]).args(UNSHARE).args(["bash", "../page.sh"]);
    command.env_clear().current_dir(page.join("checkout")).stdin(Stdio::null());
    command.env("PATH", format!("{}:{SEARCH}", page.join("bin").display()));
    command.env("CRORE_BINARY", env!("CARGO_BIN_EXE_crore"));
    command.env("SEARCH", SEARCH).env("PAGE", page);
    command.env("HOME", page).env("TMPDIR", page.join("tmp")).env("LANG", "C.UTF-8");
    command
}

/// The blocks as one script. A page that starts no server before its first command gets one.
fn script(file: &str, blocks: &[&Block]) -> String {
    let mut script = include_str!("shims/setup.sh").to_owned();
    let first = blocks.iter().find(|block| !block.is_config());
    if first.is_some_and(|block| !block.starts_server()) {
        script += "crore serve\n";
    }
    for (n, block) in blocks.iter().enumerate() {
        script += &format!("at={file}:{}\n", block.line);
        let text = match block.is_config() {
            true => format!(
                "cat > ../crore.toml <<'END'\n{}END\ncrore config check --config ../crore.toml\n",
                block.text
            ),
            false => block.text.clone(),
        };
        // Functions and variables of a block are there for the next one.
        script += &format!("{{\n{text}}} > \"$PAGE/out-{n}\" 2>&1\n");
    }
    script
}
