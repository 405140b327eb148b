//! The main loop of the child process.

use std::fs;
use std::io::{self, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::thread;

use rustix::process::{Resource, Rlimit, Signal, getpgrp, getpid, kill_process_group, setrlimit};

use crate::channels::HostChannels;
use crate::frame::{self, HostReply, HostRequest, PluginFailureClass};
use crate::host_context::RunState;
use crate::instance::{CancelHandle, Instance};
use crate::library;

/// Read buffer: small requests arrive in one read.
const READ_AHEAD: usize = 64 << 10;

/// The main function of the child: takes over standard input and output, loads the plugin and serves requests
/// until they end.
pub fn main(library: &Path) -> ExitCode {
    let served = HostChannels::take().and_then(|HostChannels { requests, stream }| {
        serve(library, BufReader::with_capacity(READ_AHEAD, requests), stream)
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("plugin host: {error}; crore starts this program, do not run it by hand");
            ExitCode::FAILURE
        }
    }
}

/// Loads the library on the first request, then serves requests until they end. Sends replies to `stream`, and
/// reads cancellations from it, each the number of a run. When `stream` closes, the process exits.
///
/// # Errors
///
/// If a request is invalid.
pub fn serve(library: &Path, mut requests: impl Read, stream: UnixStream) -> io::Result<()> {
    let Some(HostRequest::Load { memory }) = next(&mut requests)? else {
        return Err(io::Error::other("the first request must load a plugin"));
    };
    limit_memory(memory)?;
    let cancels = stream.try_clone()?;
    let shared: &'static RunState = Box::leak(Box::new(RunState::new(stream)));
    let (name, functions) = match library::load(library) {
        Ok(loaded) => loaded,
        Err(why) => {
            shared.send(&HostReply::Unusable(why));
            return Ok(());
        }
    };
    let handle: &'static OnceLock<CancelHandle> = Box::leak(Box::default());
    thread::Builder::new().spawn(move || read_cancels(cancels, shared, handle))?;
    shared.send(&HostReply::Loaded(name));
    let context = shared.host_context();
    let instance = Instance::create(functions, &context);
    if let Some(instance) = &instance {
        _ = handle.set(instance.cancel_handle());
    }
    while let Some(request) = next(&mut requests)? {
        let HostRequest::Run { run, max_output, argument } = request else {
            return Err(io::Error::other("a plugin can be loaded only once"));
        };
        let reply = match &instance {
            None => HostReply::Failed(
                PluginFailureClass::Fatal,
                "the plugin created no instance: its function `create` returned null".to_owned(),
            ),
            Some(instance) if shared.begin(run) => instance.run(&argument, &context, max_output),
            Some(_) => {
                HostReply::Failed(PluginFailureClass::Other, "stopped on request".to_owned())
            }
        };
        shared.end();
        shared.send(&reply);
    }
    if let Some(instance) = instance {
        instance.destroy();
    }
    Ok(())
}

fn next(requests: &mut impl Read) -> io::Result<Option<HostRequest>> {
    let frame = frame::read(requests, HostRequest::max())?;
    frame.map(|frame| HostRequest::decode(frame).map_err(frame::invalid)).transpose()
}

/// Reads cancellations. When the stream ends, the parent process is gone or has dropped this child: the process
/// exits at once, whatever the plugin is doing.
fn read_cancels(mut cancels: UnixStream, shared: &RunState, handle: &OnceLock<CancelHandle>) {
    let mut run = [0; 8];
    while cancels.read_exact(&mut run).is_ok() {
        let notify = || {
            if let Some(handle) = handle.get() {
                handle.cancel();
            }
        };
        shared.cancel(u64::from_le_bytes(run), notify);
    }
    // The parent starts this process in its own group: processes that the plugin started end as well.
    if getpgrp() == getpid() {
        _ = kill_process_group(getpid(), Signal::KILL);
    }
    std::process::exit(1);
}

/// Limits the memory that this process may still allocate, and disables core dumps.
fn limit_memory(memory: u64) -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    if memory > 0 {
        let most = Some(data_segment_size()?.saturating_add(memory));
        setrlimit(Resource::Data, Rlimit { current: most, maximum: most })?;
    }
    Ok(())
}

/// Size of the data segment as the kernel counts it.
fn data_segment_size() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| io::Error::other("`/proc/self/status` has no `VmData`"))
}
