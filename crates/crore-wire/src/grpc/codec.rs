//! gRPC codec that bounds the memory of decoded messages.
//!
//! An empty job takes two bytes on the wire and several hundred in memory, so a message of a few MiB could take
//! gigabytes. Before decoding, the codec adds up the memory of all repeated fields of a request, without looking at
//! values, and refuses a message above the maximum.

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

/// Maximum memory of all repeated fields of one message, excluding their strings and bytes. Every message within the
/// other limits stays below it.
const MAX_MEMORY: usize = 32 << 20;

/// A repeated field, or one that contains repeated fields.
#[derive(Debug)]
struct RepeatedField {
    tag: u64,
    name: &'static str,
    /// Memory of one element.
    bytes: usize,
    nested: &'static [Self],
}

const fn field(
    tag: u64,
    name: &'static str,
    bytes: usize,
    nested: &'static [RepeatedField],
) -> RepeatedField {
    RepeatedField { tag, name, bytes, nested }
}

const TEXT: usize = size_of::<String>();
/// Name, value and map overhead.
const LABEL: usize = 3 * TEXT;
const HELD: usize = size_of::<v1::Held>();

/// Size of a field that is refused: a follow-up for a missed deadline inside another one. Without it the depth of a
/// message would have no bound.
const REFUSED: usize = usize::MAX;

const AFTER: RepeatedField = field(19, "after", size_of::<v1::After>(), &[]);
const LABELS: RepeatedField = field(20, "labels", LABEL, &[]);
const ON_EXPIRED: u64 = 24;
const FOLLOW_UP: &[RepeatedField] = &[AFTER, LABELS, field(ON_EXPIRED, "on_expired", REFUSED, &[])];
const NEW_JOB: &[RepeatedField] =
    &[AFTER, LABELS, field(ON_EXPIRED, "on_expired", size_of::<v1::NewJob>(), FOLLOW_UP)];
const REPORT: &[RepeatedField] = &[
    field(8, "on_done", size_of::<v1::NewJob>(), NEW_JOB),
    field(9, "on_dead", size_of::<v1::NewJob>(), NEW_JOB),
];
const HELLO: &[RepeatedField] = &[
    field(1, "queues", TEXT, &[]),
    field(2, "kinds", TEXT, &[]),
    field(8, "held", HELD, &[]),
    field(10, "runners", TEXT, &[]),
    field(26, "versions", LABEL, &[]),
];

const PUSH: &[RepeatedField] = &[field(1, "jobs", size_of::<v1::NewJob>(), NEW_JOB)];
const WORKER_MESSAGE: &[RepeatedField] = &[
    field(1, "hello", size_of::<v1::Hello>(), HELLO),
    field(2, "finish", size_of::<v1::Report>(), REPORT),
    field(3, "notes", size_of::<v1::Note>(), &[]),
];
const FETCH: &[RepeatedField] = &[
    field(1, "queues", TEXT, &[]),
    field(2, "kinds", TEXT, &[]),
    field(22, "versions", LABEL, &[]),
];
const RENEW: &[RepeatedField] = &[field(1, "jobs", HELD, &[])];
const FINISH: &[RepeatedField] = &[field(1, "jobs", size_of::<v1::Report>(), REPORT)];
const ACT: &[RepeatedField] = &[field(5, "labels", LABEL, &[])];
const QUEUE_SHARE: &[RepeatedField] = &[field(2, "weights", LABEL, &[])];
const CHANGE_QUEUE: &[RepeatedField] =
    &[field(8, "fair", size_of::<v1::QueueShare>(), QUEUE_SHARE), field(10, "index", TEXT, &[])];
const LAKH: &[RepeatedField] = &[field(3, "args", TEXT, &[])];
const CREATE: &[RepeatedField] = &[field(11, "next_workers", size_of::<data::WorkerId>(), &[])];
const UPDATE: &[RepeatedField] = &[field(2, "data", size_of::<data::WorkerData>(), CREATE)];

/// The repeated fields of a request; empty for any other message.
fn repeated<U: 'static>() -> &'static [RepeatedField] {
    let shapes: [(TypeId, &'static [RepeatedField]); 10] = [
        (TypeId::of::<v1::PushRequest>(), PUSH),
        (TypeId::of::<v1::WorkerSays>(), WORKER_MESSAGE),
        (TypeId::of::<v1::FetchRequest>(), FETCH),
        (TypeId::of::<v1::RenewRequest>(), RENEW),
        (TypeId::of::<v1::FinishRequest>(), FINISH),
        (TypeId::of::<v1::ActRequest>(), ACT),
        (TypeId::of::<v1::ChangeQueueRequest>(), CHANGE_QUEUE),
        (TypeId::of::<lakh::Job>(), LAKH),
        (TypeId::of::<service::CreateWorkerRequest>(), CREATE),
        (TypeId::of::<data::Worker>(), UPDATE),
    ];
    let shape = shapes.iter().find(|(id, _)| *id == TypeId::of::<U>());
    shape.map_or(&[], |(_, shape)| shape)
}

/// The codec of all services.
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
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::new(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(ProstDecoder::new(buffers()), repeated::<U>())
    }
}

/// Small initial buffers: thousands of idle workers each have a stream.
fn buffers() -> BufferSettings {
    BufferSettings::new(1 << 10, 32 << 10)
}

/// Decoder that refuses messages above the memory limit.
#[derive(Debug)]
pub struct BoundedDecoder<U>(ProstDecoder<U>, &'static [RepeatedField]);

impl<U: Message + Default> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        if !self.1.is_empty() {
            let mut left = MAX_MEMORY;
            count_memory(buffer.chunk(), self.1, &mut left).map_err(Status::from)?;
        }
        self.0.decode(buffer).map_err(|status| unreadable(status.message()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        self.0.buffer_settings()
    }
}

/// Why a message is refused.
#[derive(Debug, PartialEq, Eq)]
enum DecodeRefusal {
    /// A repeated field exceeds the memory limit.
    TooMuch(&'static str),
    /// The message has a group, a deprecated wire type whose contents are not counted.
    Group,
    /// A follow-up for a missed deadline has one itself.
    Nested,
}

impl From<DecodeRefusal> for Status {
    fn from(refused: DecodeRefusal) -> Self {
        let field = match refused {
            DecodeRefusal::TooMuch(field) => field,
            DecodeRefusal::Group => return unreadable("groups are not supported"),
            DecodeRefusal::Nested => {
                return unreadable("a follow-up in `on_expired` cannot have one itself");
            }
        };
        let problem = v1::Problem {
            code: Code::BatchTooLarge.as_str().to_owned(),
            field: field.to_owned(),
            message: "too many elements in one message".to_owned(),
        };
        let message = format!("{field}: {}", problem.message);
        status_with_problem(tonic::Code::ResourceExhausted, message, &problem)
    }
}

/// The status for bytes that are not a valid message: `INVALID_ARGUMENT`, because the caller is at fault.
pub fn unreadable(why: &str) -> Status {
    let message = format!("the message cannot be read: {why}");
    let code = Code::Malformed.as_str().to_owned();
    let problem = v1::Problem { code, field: String::new(), message: message.clone() };
    status_with_problem(tonic::Code::InvalidArgument, message, &problem)
}

fn status_with_problem(code: tonic::Code, message: String, problem: &v1::Problem) -> Status {
    let details = RpcStatus::about(code as i32, &message, problem);
    Status::with_details(code, message, details.into())
}

/// Adds up the memory of repeated fields. Stops silently at malformed bytes, which the decoder reports.
fn count_memory(
    mut bytes: &[u8],
    fields: &[RepeatedField],
    left: &mut usize,
) -> Result<(), DecodeRefusal> {
    while let Some(key) = varint(&mut bytes) {
        let length = match key & 7 {
            0 => varint(&mut bytes).map(|_| 0),
            1 => Some(8),
            2 => varint(&mut bytes),
            5 => Some(4),
            3 | 4 => return Err(DecodeRefusal::Group),
            _ => None,
        };
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else { break };
        let Some((value, rest)) = bytes.split_at_checked(length) else { break };
        bytes = rest;
        if let Some(field) = fields.iter().find(|field| field.tag == key >> 3) {
            if field.bytes == REFUSED {
                return Err(DecodeRefusal::Nested);
            }
            *left = left.checked_sub(field.bytes).ok_or(DecodeRefusal::TooMuch(field.name))?;
            if !field.nested.is_empty() {
                count_memory(value, field.nested, left)?;
            }
        }
    }
    Ok(())
}

/// The next varint; `None` at the end or if it is malformed.
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

    fn counted(bytes: &[u8], fields: &[RepeatedField]) -> Result<(), DecodeRefusal> {
        count_memory(bytes, fields, &mut { MAX_MEMORY })
    }

    #[test]
    fn a_message_above_the_memory_limit_is_refused_with_its_field() {
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
            ("finish", many(&[0x12, 0]), WORKER_MESSAGE),
            ("on_done", inside(0x12, many(&[0x42, 0])), WORKER_MESSAGE),
            ("notes", many(&[0x1a, 0]), WORKER_MESSAGE),
            ("held", inside(0x0a, many(&[0x42, 0])), WORKER_MESSAGE),
            ("runners", inside(0x0a, many(&[0x52, 0])), WORKER_MESSAGE),
            ("hello", many(&[0x0a, 0]), WORKER_MESSAGE),
            ("queues", many(&[0x0a, 0]), FETCH),
            ("jobs", many(&[0x0a, 0]), RENEW),
            ("jobs", many(&[0x0a, 0]), FINISH),
            ("labels", many(&[0x2a, 0]), ACT),
            ("args", many(&[0x1a, 0]), LAKH),
            ("next_workers", many(&[0x5a, 0]), CREATE),
            ("next_workers", inside(0x12, many(&[0x5a, 0])), UPDATE),
            ("data", many(&[0x12, 0]), UPDATE),
        ] {
            assert_eq!(counted(&bytes, shape), Err(DecodeRefusal::TooMuch(field)));
            // Unknown fields before it do not hide it.
            let prefixed = [&[0x78, 1, 0x7d, 0, 0, 0, 0, 0x79, 0, 0, 0, 0, 0, 0, 0, 0], &*bytes];
            assert_eq!(counted(&prefixed.concat(), shape), Err(DecodeRefusal::TooMuch(field)));
        }
        assert_eq!(counted(&[0x7b, 0x7c], PUSH), Err(DecodeRefusal::Group));
    }

    #[test]
    fn follow_ups_of_missed_deadlines_are_counted_and_not_nested() {
        let job = |on_expired: Option<v1::NewJob>| v1::NewJob {
            kind: "k".to_owned(),
            on_expired: on_expired.map(Box::new),
            ..v1::NewJob::default()
        };
        let push = |jobs| v1::PushRequest { jobs, ..v1::PushRequest::default() }.encode_to_vec();
        let follow_up = job(Some(job(None)));
        assert_eq!(counted(&push(vec![follow_up.clone()]), PUSH), Ok(()));
        assert_eq!(counted(&push(vec![job(Some(follow_up))]), PUSH), Err(DecodeRefusal::Nested));
        let fat = v1::NewJob { after: vec![v1::After::default(); 1_500_000], ..job(None) };
        let fat = counted(&push(vec![job(Some(fat))]), PUSH);
        assert_eq!(fat, Err(DecodeRefusal::TooMuch("after")));
    }

    #[test]
    fn the_largest_allowed_message_is_decoded() {
        let after = vec![v1::After::default(); 1000];
        let labels = (0..32).map(|n| (n.to_string(), String::new())).collect();
        let job = v1::NewJob { kind: "k".to_owned(), after, labels, ..v1::NewJob::default() };
        let jobs = vec![job; 1000];
        let push = v1::PushRequest { jobs, ..v1::PushRequest::default() };
        assert_eq!(counted(&push.encode_to_vec(), PUSH), Ok(()));
        let held = vec![v1::Held { id: u64::MAX, delivery: u64::MAX }; 10_000];
        let hello = Some(v1::Hello { held, ..v1::Hello::default() });
        let finish = vec![v1::Report::default(); 10_000];
        let message = v1::WorkerSays { hello, finish, ..v1::WorkerSays::default() };
        assert_eq!(counted(&message.encode_to_vec(), WORKER_MESSAGE), Ok(()));
    }

    #[test]
    fn malformed_bytes_are_left_to_the_decoder() {
        for bytes in [&[0xff; 11][..], &[0x0a, 5, 1], &[0x0a], &[0x0f, 1], &[0x0a, 2, 0x0a, 9]] {
            assert_eq!(counted(bytes, PUSH), Ok(()));
        }
    }
}
