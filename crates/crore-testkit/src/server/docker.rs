//! A Docker engine without a network, and one image.
//!
//! The engine needs root, and its containers are processes that outlive it. It therefore runs in its own PID
//! and mount namespaces: everything in them ends with the engine, however that ends.

use std::path::Path;

use super::package::DebianPackage;
use super::port::ExtraPorts;
use super::process::{ServerSpec, StopSignal, SupervisedServer};
use super::{command, run_client};
use crate::Error;

/// TERM goes to the whole process group: the engine shuts down on it, and the waiting `unshare` ignores it and ends
/// with the engine. A mount namespace starts with a copy of every mount, so the script releases the test mounts,
/// which other tests cut off.
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
/// The engine leaves the machine's network alone, and works on any file system.
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

/// Imports busybox with all its applets as an image.
const IMPORT: &str = r#"
mkdir -p root/bin root/tmp && cp "$1" root/bin/busybox || exit
for name in $(root/bin/busybox --list); do ln -s busybox "root/bin/$name" 2>&-; done
tar -C root -c . | "$2" --host "unix://$PWD/docker.sock" import - "$3"
"#;

/// A Docker engine.
#[derive(Debug)]
pub struct DockerServer {
    process: SupervisedServer,
}

impl DockerServer {
    /// Its only image: busybox, with a shell and the usual small programs.
    pub const IMAGE: &'static str = "crore-busybox:latest";

    /// Starts an engine.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if it is not installed (a panic with `CI=true`), [`Error::Unable`] where this
    /// machine has no namespaces for it, [`Error::Failed`] if it does not start.
    pub fn start() -> Result<Self, Error> {
        DebianPackage::Docker.require()?;
        DebianPackage::UtilLinux.require()?;
        let busybox = DebianPackage::Busybox.require_program("busybox")?;
        let namespaces = ["--mount", "--pid", "--fork", "--mount-proc", "true"];
        run_client(command("unshare").args(namespaces))
            .map_err(|why| Error::Unable(format!("an engine needs namespaces: {why}")))?;
        let program = DebianPackage::Docker.require_program("dockerd")?.display().to_string();
        let options = OPTIONS.map(str::to_owned);
        let launch = ServerSpec {
            name: "docker",
            script: SCRIPT,
            args: [program].into_iter().chain(options).collect(),
            stop: StopSignal::Term,
            bus: ExtraPorts::None,
            below: Some(&std::env::temp_dir()),
            socket: Some(SOCKET),
        };
        let docker = Self { process: SupervisedServer::start(&launch, probe)? };
        docker.import(&busybox).map_err(Error::Failed)?;
        Ok(docker)
    }

    fn import(&self, busybox: &Path) -> Result<(), String> {
        let docker =
            DebianPackage::Docker.require_program("docker").map_err(|error| error.to_string())?;
        let mut shell = command("/bin/sh");
        shell.args(["-c", IMPORT, "import"]).arg(busybox).arg(docker).arg(Self::IMAGE);
        run_client(shell.current_dir(self.process.dir())).map(drop)
    }

    /// Its address: `unix:///…/docker.sock`.
    pub fn address(&self) -> String {
        address(&self.process)
    }

    /// Runs one `docker` command and returns its output.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with its error output.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        cli(&self.process, words).map_err(Error::Failed)
    }

    /// The server process.
    pub fn process(&self) -> &SupervisedServer {
        &self.process
    }
}

fn address(process: &SupervisedServer) -> String {
    format!("unix://{}", process.dir().join(SOCKET).display())
}

fn cli(process: &SupervisedServer, words: &[&str]) -> Result<String, String> {
    let client =
        DebianPackage::Docker.require_program("docker").map_err(|error| error.to_string())?;
    run_client(command(client).args(["--host", &address(process)]).args(words))
}

/// The socket is in the engine's own directory: no other process can answer there.
fn probe(process: &SupervisedServer) -> Result<(), String> {
    cli(process, &["version"]).map(drop)
}
