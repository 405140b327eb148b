//! What an operator says about runners: the section `runners` of the configuration.

mod values;

use std::path::PathBuf;

use crore_core::settings::section;
use crore_core::{Size, Span};

use crate::pattern::Patterns;
use crate::urls::Urls;
use crate::{command, docker};
pub use values::{Count, Cpus, Variables};

section! {
    /// What an operator allows runners.
    pub struct Options = "runners" {
        //! The default allows any program and any image, but no shell and no network.

        /// The programs that commands may start, by path or name; `*` stands for any characters. Any, if none
        /// is named.
        programs: Patterns = none,
        /// Whether commands may be scripts for a shell.
        shell: bool = "false",
        /// The images that containers may be made of; `*` stands for any characters. Any, if none is named.
        images: Patterns = none,
        /// Where the Docker engine listens: `unix://…`, `tcp://…` or `http://…`; the usual socket, unless told
        /// otherwise.
        docker: Option<String> = none,
        /// Whether containers may have a network.
        container_network: bool = "false",
        /// The directory in which hosts note that they live, each by the lock of a file; several may share it. What a
        /// host leaves that is killed, its containers, is removed by the next one that begins with the same directory.
        /// Unless told otherwise: `hosts` in `store.data`, for a server that keeps its jobs there; for any other and
        /// for `crore worker`, `crore-hosts-UID` among the temporary files.
        state: Option<PathBuf> = none,
        /// The URLs that may be called by http, grpc and slack, as far as `outbound` allows; `*` stands for any
        /// characters. Any, if none is named.
        urls: Urls = none,
        /// What handlers may refer to as secrets of the machine where their jobs run: `["env:SLACK_*",
        /// "file:/etc/crore/secrets/*"]`; `*` stands for any characters.
        secrets: Patterns = "env:CRORE_SECRET_*, file:/run/secrets/*",
        /// The directories in which commands may be started. Any, if none is named.
        dirs: Patterns = none,
        /// The directory of plugins.
        plugins: Option<PathBuf> = none,
        /// How much memory a plugin may have, beside what its process has before it is loaded; as much as there is,
        /// unless told otherwise.
        plugin_memory: Option<Size> = none,
        /// How long a plugin may go on that is asked to stop, unless its handler says less.
        plugin_grace: Span = "5s",
        /// How long a plugin may take to be loaded.
        plugin_start: Span = "10s",
        /// All of the environment of plugins: `["LANG=C.UTF-8", "HOME"]`, where a name alone stands for what it is in
        /// the environment of crore. Nothing, unless told otherwise.
        plugin_env: Variables = none,
        /// The most that a handler may let come out of a command or a container.
        max_output: Size = "64MiB",
        /// The longest that a handler may let a command or a container go on that is asked to stop.
        max_grace: Span = "1m",
        /// How much memory a container may have, without any swap: the most that a handler may say, and what holds if
        /// it says nothing. As much as there is, unless told otherwise.
        container_memory: Option<Size> = none,
        /// How many processors a container may have, in parts too: `1.5`. As for `container-memory`.
        container_cpus: Option<Cpus> = none,
        /// How many processes and threads a container may have. As for `container-memory`.
        container_pids: Option<Count> = none,
        /// How much address space each process of a command may have: the most that a handler may say, and what holds if
        /// it says nothing.
        command_memory: Option<Size> = none,
        /// How many seconds of processor time each process of a command may take. As for `command-memory`.
        command_cpu_seconds: Option<Count> = none,
        /// How many files, pipes and sockets each process of a command may have open. As for `command-memory`.
        command_open_files: Option<Count> = none,
        /// How many processes and threads the user that crore runs as may have, all together, when a command starts
        /// one; the system does not apply it to root. As for `command-memory`.
        command_processes: Option<Count> = none,
        /// How large a file a command may write. As for `command-memory`.
        command_file_size: Option<Size> = none,
    }
}

impl Options {
    /// The most that a handler may set the limits of a command to, and what holds where it sets none.
    pub(crate) fn command_limits(&self) -> command::Limits {
        let count = |count: Count| u64::from(count.0);
        command::Limits {
            cpu_seconds: self.command_cpu_seconds.map(count),
            memory: self.command_memory,
            open_files: self.command_open_files.map(count),
            processes: self.command_processes.map(count),
            file_size: self.command_file_size,
        }
    }

    /// The most that a handler may set the limits of a container to, and what holds where it sets none.
    pub(crate) fn container_limits(&self) -> docker::Limits {
        docker::Limits {
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
        assert_eq!(options.command_limits(), command::Limits::default());
        assert_eq!(options.container_limits(), docker::Limits::default());
    }
}
