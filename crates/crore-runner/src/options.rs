//! Options for runners: the section `runners` of the configuration.

mod values;

use std::path::PathBuf;

use crore_core::settings::section;
use crore_core::{Size, Span};

use crate::pattern::Patterns;
use crate::urls::Urls;
use crate::{command, docker};
pub use values::{Capability, Cpus, PositiveCount, Variables};

section! {
    /// Limits and permissions for runners.
    pub struct Options = "runners" {
        //! By default any program and any image is allowed, but no shell and no container network.

        /// Programs that commands may start, by path or name; `*` matches any characters, and
        /// symbolic links are resolved before a path is matched. Default: all.
        programs: Patterns = none,
        /// Whether commands may be shell scripts.
        shell: bool = "false",
        /// Images that containers may be created from; `*` matches any characters. Default: all.
        images: Patterns = none,
        /// Address of the Docker engine: `unix://…`, `tcp://…` or `http://…`. Default:
        /// `unix:///var/run/docker.sock`.
        docker: Option<String> = none,
        /// Whether containers may use a network.
        container_network: bool = "false",
        /// Directory in which each host (a server or `crore worker` that runs handlers) keeps a locked
        /// file; several hosts may share it. When a host starts, it removes the containers that killed
        /// hosts with the same directory have left. Default: `hosts` in `store.data` for a server with
        /// an embedded store; otherwise, and for `crore worker`, `crore-hosts-UID` in the temporary
        /// directory.
        state: Option<PathBuf> = none,
        /// URLs that the http, grpc and slack runners may call, within what `outbound` allows; `*`
        /// matches any characters. Default: all.
        urls: Urls = none,
        /// Secret references that handlers may use on this host, such as `["env:SLACK_*",
        /// "file:/etc/crore/secrets/*"]`; `*` matches any characters. Symbolic links are resolved
        /// before a file is matched. Variables that commands inherit are matched, too.
        secrets: Patterns = "env:CRORE_SECRET_*, file:/run/secrets/*",
        /// Working directories in which commands may start; `*` matches any characters, and
        /// symbolic links are resolved before a path is matched. Default: all.
        dirs: Patterns = none,
        /// Environment variables that commands may have although they can make a program run other
        /// code, such as `["PYTHONPATH", "GIT_*"]`; the guide of the command runner lists them.
        /// Default: none.
        code_variables: Patterns = none,
        /// Directory of plugin libraries.
        plugins: Option<PathBuf> = none,
        /// Memory limit of a plugin, in addition to what its process uses before the library is
        /// loaded. Default: no limit.
        plugin_memory: Option<Size> = none,
        /// Grace period of a plugin that is asked to stop, before it is killed; a handler may shorten it.
        plugin_grace: Span = "5s",
        /// Timeout for loading a plugin.
        plugin_start: Span = "10s",
        /// The whole environment of plugins: `["LANG=C.UTF-8", "HOME"]`. A name without a value is
        /// copied from crore's environment. Default: empty.
        plugin_env: Variables = none,
        /// Maximum output of a command or a container; a handler may set less.
        max_output: Size = "64MiB",
        /// Maximum grace period of a command or a container that is asked to stop; a handler may
        /// set less.
        max_grace: Span = "1m",
        /// Memory limit of a container, without swap. It applies to handlers that set no limit, and
        /// is the maximum for those that do. Default: 2 GiB for handlers that set no limit, and no
        /// maximum.
        container_memory: Option<Size> = none,
        /// CPU limit of a container, such as `1.5`. It applies to handlers that set no limit, and
        /// is the maximum for those that do. Default: no limit.
        container_cpus: Option<Cpus> = none,
        /// Maximum number of processes and threads in a container. It applies to handlers that set
        /// no limit, and is the maximum for those that do. Default: 1024 for handlers that set no
        /// limit, and no maximum.
        container_pids: Option<PositiveCount> = none,
        /// Linux capabilities of containers, such as `["CHOWN", "SETUID", "SETGID"]`; all others
        /// are dropped. Default: none.
        container_capabilities: Vec<Capability> = none,
        /// Address space limit of each process of a command. It applies to handlers that set no
        /// limit, and is the maximum for those that do. Default: no limit.
        command_memory: Option<Size> = none,
        /// CPU time limit of each process of a command, in seconds; applies to handlers as
        /// `command-memory` does.
        command_cpu_seconds: Option<PositiveCount> = none,
        /// Maximum number of open files of each process of a command; applies to handlers as
        /// `command-memory` does.
        command_open_files: Option<PositiveCount> = none,
        /// Maximum number of processes and threads of the user that crore runs as, checked when a
        /// command starts one (`RLIMIT_NPROC`, without effect for root); applies to handlers as
        /// `command-memory` does.
        command_processes: Option<PositiveCount> = none,
        /// Maximum size of a file that a command writes; applies to handlers as `command-memory` does.
        command_file_size: Option<Size> = none,
    }
}

impl Options {
    /// Limits of a command: the defaults for handlers, and their maximum.
    pub(crate) fn command_limits(&self) -> command::CommandLimits {
        let count = |count: PositiveCount| u64::from(count.0);
        command::CommandLimits {
            cpu_seconds: self.command_cpu_seconds.map(count),
            memory: self.command_memory,
            open_files: self.command_open_files.map(count),
            processes: self.command_processes.map(count),
            file_size: self.command_file_size,
        }
    }

    /// Limits of a container: the defaults for handlers, and their maximum.
    pub(crate) fn container_limits(&self) -> docker::ContainerLimits {
        docker::ContainerLimits {
            memory: self.container_memory,
            cpus: self.container_cpus.map(|cpus| cpus.0),
            pids: self.container_pids.map(|pids| pids.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_can_be_read() {
        let options = Options::default();
        assert!(options.programs.is_empty() && !options.secrets.is_empty() && !options.shell);
        assert_eq!(options.command_limits(), command::CommandLimits::default());
        assert_eq!(options.container_limits(), docker::ContainerLimits::default());
    }
}
