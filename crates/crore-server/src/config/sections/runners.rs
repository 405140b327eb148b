mod values;

use crore_core::settings::section;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::available_parallelism;

use crore_core::handler::DEFAULT_QUEUE;
use crore_core::{Name, Size, Span};
use crore_runner::{Patterns, Urls};

use values::{Allowed, Channels, Cpus};
pub(crate) use values::{Count, Variables};

section! {
    /// Runners: what crore runs jobs with by itself, as their handlers say.
    pub(crate) struct Runners = "runners" {
        /// Whether this server runs jobs. If not, hosts elsewhere do: `crore worker`.
        run: bool = "true",
        /// The runners that reach this machine, and may be used all the same: `["command"]`, `docker`, `plugin`.
        allow: Option<Allowed> = none,
        /// The queues whose jobs are run here, and how many of each at a time: `["default=8", "gpu=1"]`. In a
        /// file it may be a section of its own: `[channels]`, `default = 8`, `gpu = 1`. The queue `default` has
        /// one for each processor, unless told otherwise. `crore worker` serves only those that are named, and
        /// `default` if none is.
        channels: Option<Channels> = none,
        /// The programs that commands may start, by path or name; `*` stands for any characters. Any, if none
        /// is named.
        programs: Option<Patterns> = none,
        /// Whether commands may be scripts for a shell.
        shell: bool = "false",
        /// The images that containers may be made of; `*` stands for any characters. Any, if none is named.
        images: Option<Patterns> = none,
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
        urls: Option<Urls> = none,
        /// What handlers may refer to as secrets of the machine where their jobs run: `["env:SLACK_*",
        /// "file:/etc/crore/secrets/*"]`; `*` stands for any characters.
        secrets: Patterns = "env:CRORE_SECRET_*, file:/run/secrets/*",
        /// The directories in which commands may be started. Any, if none is named.
        dirs: Option<Patterns> = none,
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
        plugin_env: Option<Variables> = none,
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

impl Runners {
    /// The runners that reach the machine and may be used.
    pub(crate) fn allowed(&self) -> &[String] {
        self.allow.as_ref().map_or(&[], |Allowed(names)| names)
    }

    /// The queues whose jobs are run by a host elsewhere: those that are named, and the usual one if none is.
    pub(crate) fn named_channels(&self) -> BTreeMap<Name, u32> {
        match &self.channels {
            Some(Channels(all)) if !all.is_empty() => all.clone(),
            _ => self.channels(),
        }
    }

    /// The queues whose jobs are run by a server, and how many of each at a time.
    pub(crate) fn channels(&self) -> BTreeMap<Name, u32> {
        let mut all = self.channels.clone().map(|Channels(all)| all).unwrap_or_default();
        let processors = available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
        if let Ok(usual) = Name::new("channel", DEFAULT_QUEUE) {
            all.entry(usual).or_insert(processors);
        }
        all
    }
}
