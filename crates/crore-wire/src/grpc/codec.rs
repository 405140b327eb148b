//! Messages from their bytes, and no larger than those: one that would take far more memory than it has bytes is
//! refused before any of it is read.
//!
//! An empty job takes two bytes on the wire and some hundred in memory, so a message of a few MiB could take
//! gigabytes. What is repeated in a request is counted first, as what it takes; that is a walk over its fields, which
//! looks at no values.

use std::any::TypeId;
use std::marker::PhantomData;

use bytes::Buf;
use crore_core::Code;
use prost::Message;
use tonic::Status;
use tonic::codec::{self, BufferSettings, DecodeBuf, Decoder};
use tonic_prost::{ProstDecoder, ProstEncoder};

use super::jobworkerp::{data, service};
use super::{RpcStatus, lakh, v1};

/// How much everything that is repeated in one message may take, its texts and bytes aside: more than any message that
/// is not refused anyway.
const MOST_BYTES: usize = 32 << 20;

/// Something that is repeated, or that has such things in it.
#[derive(Debug)]
struct Field {
    tag: u64,
    name: &'static str,
    /// How much each takes.
    bytes: usize,
    of: &'static [Self],
}

const fn field(tag: u64, name: &'static str, bytes: usize, of: &'static [Field]) -> Field {
    Field { tag, name, bytes, of }
}

const TEXT: usize = size_of::<String>();
/// A name and a value, and their share of the tree.
const LABEL: usize = 3 * TEXT;
const HELD: usize = size_of::<v1::Held>();

const NEW_JOB: &[Field] =
    &[field(19, "after", size_of::<v1::After>(), &[]), field(20, "labels", LABEL, &[])];
const REPORT: &[Field] = &[
    field(8, "on_done", size_of::<v1::NewJob>(), NEW_JOB),
    field(9, "on_dead", size_of::<v1::NewJob>(), NEW_JOB),
];
const HELLO: &[Field] = &[
    field(1, "queues", TEXT, &[]),
    field(2, "kinds", TEXT, &[]),
    field(8, "held", HELD, &[]),
    field(10, "runners", TEXT, &[]),
];

const PUSH: &[Field] = &[field(1, "jobs", size_of::<v1::NewJob>(), NEW_JOB)];
const SAYS: &[Field] = &[
    field(1, "hello", size_of::<v1::Hello>(), HELLO),
    field(2, "finish", size_of::<v1::Report>(), REPORT),
    field(3, "notes", size_of::<v1::Note>(), &[]),
];
const FETCH: &[Field] = &[field(1, "queues", TEXT, &[]), field(2, "kinds", TEXT, &[])];
const RENEW: &[Field] = &[field(1, "jobs", HELD, &[])];
const FINISH: &[Field] = &[field(1, "jobs", size_of::<v1::Report>(), REPORT)];
const ACT: &[Field] = &[field(5, "labels", LABEL, &[])];
const LAKH: &[Field] = &[field(3, "args", TEXT, &[])];
const CREATE: &[Field] = &[field(11, "next_workers", size_of::<data::WorkerId>(), &[])];
const UPDATE: &[Field] = &[field(2, "data", size_of::<data::WorkerData>(), CREATE)];

/// What is repeated in a request; nothing, in any other message.
fn repeated<U: 'static>() -> &'static [Field] {
    let shapes: [(TypeId, &'static [Field]); 9] = [
        (TypeId::of::<v1::PushRequest>(), PUSH),
        (TypeId::of::<v1::WorkerSays>(), SAYS),
        (TypeId::of::<v1::FetchRequest>(), FETCH),
        (TypeId::of::<v1::RenewRequest>(), RENEW),
        (TypeId::of::<v1::FinishRequest>(), FINISH),
        (TypeId::of::<v1::ActRequest>(), ACT),
        (TypeId::of::<lakh::Job>(), LAKH),
        (TypeId::of::<service::CreateWorkerRequest>(), CREATE),
        (TypeId::of::<data::Worker>(), UPDATE),
    ];
    let shape = shapes.iter().find(|(id, _)| *id == TypeId::of::<U>());
    shape.map_or(&[], |(_, shape)| shape)
}

/// The codec of all our services.
#[derive(Debug)]
pub struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Bounded<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        Bounded(ProstDecoder::new(buffers()), repeated::<U>())
    }
}

/// Thousands of workers have a stream and nothing to say: their buffers are small until there is.
fn buffers() -> BufferSettings {
    BufferSettings::new(1 << 10, 32 << 10)
}

/// Reads messages that take no more memory than they may.
#[derive(Debug)]
pub struct Bounded<U>(ProstDecoder<U>, &'static [Field]);

impl<U: Message + Default> Decoder for Bounded<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        if !self.1.is_empty() {
            let mut left = MOST_BYTES;
            walk(buffer.chunk(), self.1, &mut left).map_err(Status::from)?;
        }
        self.0.decode(buffer).map_err(|status| unreadable(status.message()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Why a message is not read.
#[derive(Debug, PartialEq, Eq)]
enum Refused {
    /// There is too much of this.
    TooMuch(&'static str),
    /// It has a group, in which anything could be hidden. Nobody speaks those any more.
    Group,
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        let Refused::TooMuch(field) = refused else {
            return unreadable("a group, which is not understood");
        };
        let problem = v1::Problem {
            code: Code::BatchTooLarge.as_str().to_owned(),
            field: field.to_owned(),
            message: "more than one message may have".to_owned(),
        };
        let message = format!("{field}: {}", problem.message);
        said(tonic::Code::ResourceExhausted, message, &problem)
    }
}

/// The status of a call whose bytes are no message: what its caller sent is wrong, and nothing is here.
pub fn unreadable(why: &str) -> Status {
    let message = format!("the message cannot be read: {why}");
    let code = Code::Malformed.as_str().to_owned();
    let problem = v1::Problem { code, field: String::new(), message: message.clone() };
    said(tonic::Code::InvalidArgument, message, &problem)
}

fn said(code: tonic::Code, message: String, problem: &v1::Problem) -> Status {
    let details = RpcStatus::about(code as i32, &message, problem);
    Status::with_details(code, message, details.into())
}

/// Counts what is repeated. What is no message ends it: whoever reads it will say so.
fn walk(mut bytes: &[u8], fields: &[Field], left: &mut usize) -> Result<(), Refused> {
    while let Some(key) = varint(&mut bytes) {
        let length = match key & 7 {
            0 => varint(&mut bytes).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut bytes),
            5 => Some(4),
            3 | 4 => return Err(Refused::Group),
            _ => None,
        };
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else { break };
        let Some((value, rest)) = bytes.split_at_checked(length) else { break };
        bytes = rest;
        if let Some(field) = fields.iter().find(|field| field.tag == key >> 3) {
            *left = left.checked_sub(field.bytes).ok_or(Refused::TooMuch(field.name))?;
            if !field.of.is_empty() {
                walk(value, field.of, left)?;
            }
        }
    }
    Ok(())
}

/// The next number; none: there is none.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(bytes: &[u8], fields: &[Field]) -> Result<(), Refused> {
        walk(bytes, fields, &mut { MOST_BYTES })
    }

    #[test]
    fn what_takes_far_more_memory_than_it_has_bytes_is_refused_by_name() {
        let many = |one: &[u8]| one.repeat((12 << 20) / one.len());
        let inside = |tag: u8, value: Vec<u8>| {
            let mut bytes = vec![tag];
            prost::encoding::encode_varint(value.len() as u64, &mut bytes);
            [bytes, value].concat()
        };
        for (field, bytes, shape) in [
            ("jobs", many(&[0x0a, 0]), PUSH),
            ("after", inside(0x0a, many(&[0x9a, 1, 0])), PUSH),
            ("labels", inside(0x0a, many(&[0xa2, 1, 0])), PUSH),
            ("finish", many(&[0x12, 0]), SAYS),
            ("on_done", inside(0x12, many(&[0x42, 0])), SAYS),
            ("notes", many(&[0x1a, 0]), SAYS),
            ("held", inside(0x0a, many(&[0x42, 0])), SAYS),
            ("runners", inside(0x0a, many(&[0x52, 0])), SAYS),
            ("hello", many(&[0x0a, 0]), SAYS),
            ("queues", many(&[0x0a, 0]), FETCH),
            ("jobs", many(&[0x0a, 0]), RENEW),
            ("jobs", many(&[0x0a, 0]), FINISH),
            ("labels", many(&[0x2a, 0]), ACT),
            ("args", many(&[0x1a, 0]), LAKH),
            ("next_workers", many(&[0x5a, 0]), CREATE),
            ("next_workers", inside(0x12, many(&[0x5a, 0])), UPDATE),
            ("data", many(&[0x12, 0]), UPDATE),
        ] {
            assert_eq!(walked(&bytes, shape), Err(Refused::TooMuch(field)));
            // What comes before it, and is not understood, hides nothing.
            let behind = [&[0x78, 1, 0x7d, 0, 0, 0, 0, 0x79, 0, 0, 0, 0, 0, 0, 0, 0], &*bytes];
            assert_eq!(walked(&behind.concat(), shape), Err(Refused::TooMuch(field)));
        }
        assert_eq!(walked(&[0x7b, 0x7c], PUSH), Err(Refused::Group));
    }

    #[test]
    fn the_largest_message_that_may_come_is_read() {
        let after = vec![v1::After::default(); 1000];
        let labels = (0..32).map(|n| (n.to_string(), String::new())).collect();
        let job = v1::NewJob { kind: "k".to_owned(), after, labels, ..v1::NewJob::default() };
        let jobs = vec![job; 1000];
        let push = v1::PushRequest { jobs, ..v1::PushRequest::default() };
        assert_eq!(walked(&push.encode_to_vec(), PUSH), Ok(()));
        let held = vec![v1::Held { id: u64::MAX, delivery: u64::MAX }; 10_000];
        let hello = Some(v1::Hello { held, ..v1::Hello::default() });
        let finish = vec![v1::Report::default(); 10_000];
        let says = v1::WorkerSays { hello, finish, ..v1::WorkerSays::default() };
        assert_eq!(walked(&says.encode_to_vec(), SAYS), Ok(()));
    }

    #[test]
    fn what_is_no_message_is_left_to_whoever_reads_it() {
        for bytes in [&[0xff; 11][..], &[0x0a, 5, 1], &[0x0a], &[0x0f, 1], &[0x0a, 2, 0x0a, 9]] {
            assert_eq!(walked(bytes, PUSH), Ok(()));
        }
    }
}
