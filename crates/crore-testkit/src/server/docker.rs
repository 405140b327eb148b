//! A Docker engine without a network, and one image.
//!
//! It needs root, and leaves its containers to processes that outlive it. So it runs in process and
//! mount namespaces of its own: whatever is in them goes with the engine, however that ends.

use std::path::Path;

use super::package::Package;
use super::port::Bus;
use super::process::{Launch, Process, Stop};
use super::{ask, command};
use crate::Error;

/// TERM goes to the whole group: the engine ends itself, and the one who waits for it ends with it. It starts with a copy
/// of every mount there is, and lets those go that others make and cut off.
const SCRIPT: &str = r#"
shift
trap '' TERM
exec unshare --mount --pid --fork --kill-child=KILL --mount-proc /bin/sh -c '
    for at in $(cut -d " " -f 2 /proc/self/mounts); do
        case "$at" in */crore-mounts-*) umount -l "$at";; esac
    done
    exec "$@"
' engine "$@" \
    --host "unix://$PWD/docker.sock" --data-root "$PWD/data" --exec-root "$PWD/exec" \
    --pidfile "$PWD/docker.pid"
"#;
/// It touches nothing of the machine's network, and works on any file system.
const OPTIONS: [&str; 8] = [
    "--iptables=false",
    "--ip6tables=false",
    "--bridge=none",
    "--storage-driver=vfs",
    "--shutdown-timeout=1",
    "--default-ulimit=nofile=1024:1024",
    "--exec-opt=native.cgroupdriver=cgroupfs",
    "--log-level=warn",
];
const SOCKET: &str = "docker.sock";

/// All that busybox can do, under its names, as an image.
const IMPORT: &str = r#"
mkdir -p root/bin root/tmp && cp "$1" root/bin/busybox || exit
for name in $(root/bin/busybox --list); do ln -s busybox "root/bin/$name" 2>&-; done
tar -C root -c . | "$2" --host "unix://$PWD/docker.sock" import - "$3"
"#;

/// A Docker engine.
#[derive(Debug)]
pub struct Docker {
    process: Process,
}

impl Docker {
    /// The one image that it has: busybox, with a shell and the usual small programs.
    pub const IMAGE: &'static str = "crore-busybox:latest";

    /// Starts one.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if it is not installed (a panic where `CI=true`), [`Error::Unable`] where
    /// this machine has no namespaces for it, [`Error::Failed`] if it does not come up.
    pub fn start() -> Result<Self, Error> {
        Package::Docker.require()?;
        Package::UtilLinux.require()?;
        let busybox = Package::Busybox.need("busybox")?;
        let namespaces = ["--mount", "--pid", "--fork", "--mount-proc", "true"];
        ask(command("unshare").args(namespaces))
            .map_err(|why| Error::Unable(format!("an engine needs namespaces: {why}")))?;
        let program = Package::Docker.need("dockerd")?.display().to_string();
        let options = OPTIONS.map(str::to_owned);
        let launch = Launch {
            name: "docker",
            script: SCRIPT,
            args: [program].into_iter().chain(options).collect(),
            stop: Stop::Term,
            bus: Bus::None,
            below: Some(&std::env::temp_dir()),
            socket: Some(SOCKET),
        };
        let docker = Self { process: Process::start(&launch, probe)? };
        docker.import(&busybox).map_err(Error::Failed)?;
        Ok(docker)
    }

    fn import(&self, busybox: &Path) -> Result<(), String> {
        let docker = Package::Docker.need("docker").map_err(|error| error.to_string())?;
        let mut shell = command("/bin/sh");
        shell.args(["-c", IMPORT, "import"]).arg(busybox).arg(docker).arg(Self::IMAGE);
        ask(shell.current_dir(self.process.dir())).map(drop)
    }

    /// Where it listens: `unix:///…/docker.sock`.
    pub fn address(&self) -> String {
        address(&self.process)
    }

    /// Runs one command of `docker` and gives what it printed.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with what it said.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        cli(&self.process, words).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &Process {
        &self.process
    }
}

fn address(process: &Process) -> String {
    format!("unix://{}", process.dir().join(SOCKET).display())
}

fn cli(process: &Process, words: &[&str]) -> Result<String, String> {
    let client = Package::Docker.need("docker").map_err(|error| error.to_string())?;
    ask(command(client).args(["--host", &address(process)]).args(words))
}

/// The socket lies in its own directory: nobody else can answer there.
fn probe(process: &Process) -> Result<(), String> {
    cli(process, &["version"]).map(drop)
}
