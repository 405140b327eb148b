//! gRPC messages, as far as they are read without a server.
//!
//! ```text
//! input = name of the message, line feed, message
//! ```

use std::fmt::Debug;

use crore_core::Invalid;
use crore_wire::grpc::jobworkerp::{data, service};
use crore_wire::grpc::{ReceivedHandlers, lakh, v1};
use prost::Message;

use crate::memory::MemoryBound;
use crate::properties::check_invalid;

/// An empty job takes two bytes of the message; in memory it is held as a message and as a job of the engine.
const MEMORY: MemoryBound = MemoryBound { base: 64 << 10, per_byte: 2048 };

pub(crate) fn run(input: &[u8]) {
    let Some(end) = input.iter().position(|byte| *byte == b'\n') else { return };
    let (name, message) = (&input[..end], &input[end + 1..]);
    MEMORY.check(message.len(), || read(name, message));
}

fn read(name: &[u8], message: &[u8]) {
    match name {
        b"NewJob" => check::<v1::NewJob, _>(message, read_job),
        b"PushRequest" => check::<v1::PushRequest, _>(message, |push| {
            push.jobs.into_iter().try_for_each(read_job)
        }),
        b"Report" => check::<v1::Report, _>(message, |report| report.read().map(drop)),
        b"FinishRequest" => check::<v1::FinishRequest, _>(message, |finish| {
            finish.jobs.into_iter().try_for_each(|report| report.read().map(drop))
        }),
        b"ServerSays" => check::<v1::ServerSays, _>(message, |message| {
            ReceivedHandlers::default().read(message).map(drop)
        }),
        b"WorkerSays" => plain::<v1::WorkerSays>(message),
        b"FetchRequest" => plain::<v1::FetchRequest>(message),
        b"RenewRequest" => plain::<v1::RenewRequest>(message),
        b"ActRequest" => plain::<v1::ActRequest>(message),
        b"ChangeRequest" => plain::<v1::ChangeRequest>(message),
        b"ListRequest" => plain::<v1::ListRequest>(message),
        b"Schedule" => plain::<v1::Schedule>(message),
        b"Limit" => plain::<v1::Limit>(message),
        b"Handler" => plain::<v1::Handler>(message),
        b"lakh.Job" => plain::<lakh::Job>(message),
        b"lakh.JobResult" => plain::<lakh::JobResult>(message),
        b"CreateWorkerRequest" => plain::<service::CreateWorkerRequest>(message),
        b"JobRequest" => plain::<service::JobRequest>(message),
        b"Worker" => plain::<data::Worker>(message),
        b"JobResult" => plain::<data::JobResult>(message),
        _ => {}
    }
}

fn read_job(job: v1::NewJob) -> Result<(), Invalid> {
    let job = job.read()?;
    let printed = v1::NewJob::of(&job);
    let again = printed.clone().read().expect("a printed job can be read");
    assert_eq!(v1::NewJob::of(&again), printed);
    Ok(())
}

fn plain<T: Message + Default + Clone + PartialEq + Debug>(bytes: &[u8]) {
    check::<T, _>(bytes, |_| Ok(()));
}

/// Decodes and converts a message, which must be the same after encoding and decoding it again.
fn check<T, F>(bytes: &[u8], convert: F)
where
    T: Message + Default + Clone + PartialEq + Debug,
    F: FnOnce(T) -> Result<(), Invalid>,
{
    let Ok(message) = T::decode(bytes) else { return };
    let again = T::decode(&*message.encode_to_vec()).expect("an encoded message can be decoded");
    // NaN is not equal to itself.
    assert!(again == message || message != message.clone());
    if let Err(invalid) = convert(message) {
        check_invalid(&invalid, None);
    }
}
