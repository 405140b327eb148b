//! The child's life: load, answer, end.

use std::fs;
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;

use rustix::process::{Resource, Rlimit, Signal, getpgrp, getpid, kill_process_group, setrlimit};

use crate::channels::Channels;
use crate::frame::{self, Answer, Class, Request};
use crate::instance::{Instance, Stop};
use crate::library;
use crate::surroundings::Shared;

/// Requests that are small are read with one call.
const READ_AHEAD: usize = 64 << 10;

/// What a child process does: takes its standard input and output away from under the plugin, loads
/// it, and answers until it is let go.
pub fn main(library: &Path) -> ExitCode {
    let served = Channels::take().and_then(|Channels { requests, line }| {
        serve(library, BufReader::with_capacity(READ_AHEAD, requests), line)
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plugin host: {error}; crore itself starts this, for plugins");
            ExitCode::FAILURE
        }
    }
}

/// Loads a library when it is asked to, and answers requests until they end. Answers go to `line`;
/// from it come cancels, the number of a run each, and its end is the end of this process.
///
/// # Errors
///
/// If whoever asks cannot be understood.
pub fn serve(library: &Path, mut requests: impl Read, line: UnixStream) -> io::Result<()> {
    let Some(Request::Load { memory }) = next(&mut requests)? else {
        return Err(io::Error::other("nobody asks to load a plugin"));
    };
    bound(memory)?;
    let cancels = line.try_clone()?;
    let shared: &'static Shared = Box::leak(Box::new(Shared::new(line)));
    let (name, functions) = match library::load(library) {
        Ok(loaded) => loaded,
        Err(why) => {
            shared.say(&Answer::Unusable(why));
            return Ok(());
        }
    };
    let stop: &'static OnceLock<Stop> = Box::leak(Box::default());
    thread::Builder::new().spawn(move || hear(cancels, shared, stop))?;
    shared.say(&Answer::Loaded(name));
    let context = shared.surroundings();
    let instance = Instance::create(functions, &context);
    if let Some(instance) = &instance {
        _ = stop.set(instance.stop());
    }
    while let Some(request) = next(&mut requests)? {
        let Request::Run { run, max_output, argument } = request else {
            return Err(io::Error::other("a plugin is loaded once"));
        };
        let answer = match &instance {
            None => Answer::Failed(Class::Fatal, "the plugin could not be set up".to_owned()),
            Some(instance) if shared.begin(run) => instance.run(&argument, &context, max_output),
            Some(_) => Answer::Failed(Class::Other, "it was asked to stop".to_owned()),
        };
        shared.end();
        shared.say(&answer);
    }
    if let Some(instance) = instance {
        instance.destroy();
    }
    Ok(())
}

fn next(requests: &mut impl Read) -> io::Result<Option<Request>> {
    let frame = frame::read(requests, Request::max())?;
    frame.map(|frame| Request::decode(frame).map_err(frame::invalid)).transpose()
}

/// Hears cancels. Where the line ends the server is gone, or does not want us any more: everything
/// ends at once, whatever the plugin is doing.
fn hear(mut cancels: UnixStream, shared: &Shared, stop: &OnceLock<Stop>) {
    let mut run = [0; 8];
    while cancels.read_exact(&mut run).is_ok() {
        let tell = || {
            if let Some(stop) = stop.get() {
                stop.tell();
            }
        };
        shared.cancel(u64::from_le_bytes(run), tell);
    }
    // Whoever starts us gives us a process group of our own: what the plugin has started goes too.
    if getpgrp() == getpid() {
        _ = kill_process_group(getpid(), Signal::KILL);
    }
    std::process::exit(1);
}

/// Lets this process have so much more memory than it has now, and no dump of it when it crashes.
fn bound(memory: u64) -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if memory > 0 {
        let most = Some(data()?.saturating_add(memory));
        setrlimit(Resource::Data, Rlimit { current: most, maximum: most })?;
    }
    Ok(())
}

/// How much private memory this process has asked for, as the kernel counts it.
fn data() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| io::Error::other("`/proc/self/status` says no `VmData`"))
}
