//! As much of AMQP 0-9-1 as a producer and a consumer need: frames, arguments, and one channel.

use crate::line::Line;
use crate::peer::Fault;

type Method = (u16, u16);

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;

const START_OK: Method = (10, 11);
const TUNE_OK: Method = (10, 31);
const OPEN: Method = (10, 40);
const CHANNEL_OPEN: Method = (20, 10);

/// What came.
#[derive(Debug)]
pub(crate) enum Frame {
    Method { method: Method, args: Args },
    Header,
    Body(Vec<u8>),
}

impl Frame {
    /// The arguments of a method.
    pub(crate) fn args(&self) -> Reader<'_> {
        match self {
            Self::Method { args, .. } => args.read(),
            Self::Header | Self::Body(_) => Reader(&[]),
        }
    }
}

/// A connection with one channel.
#[derive(Debug)]
pub(crate) struct Amqp {
    pub(crate) line: Line,
}

impl Amqp {
    pub(crate) fn open(port: u16) -> Result<Self, Fault> {
        let mut amqp = Self { line: Line::open(port)? };
        amqp.line.say.extend_from_slice(b"AMQP\0\0\x09\x01");
        amqp.line.send()?;
        amqp.frame()?;
        let who = Args::new().table(&[]).text("PLAIN").bytes(b"\0guest\0guest").text("en_US");
        amqp.say_on(0, START_OK, &who);
        amqp.line.send()?;
        let tune = amqp.frame()?;
        let mut tune = tune.args();
        let (channels, size) = (tune.short()?, tune.long()?);
        // Without heartbeats.
        amqp.say_on(0, TUNE_OK, &Args::new().short(channels).long(size).short(0));
        amqp.say_on(0, OPEN, &Args::new().text("/").text("").byte(0));
        amqp.line.send()?;
        amqp.answer_to(OPEN)?;
        amqp.call(CHANNEL_OPEN, &Args::new().text(""))?;
        Ok(amqp)
    }

    /// Gathers a method.
    pub(crate) fn say(&mut self, method: Method, args: &Args) {
        self.say_on(1, method, args);
    }

    fn say_on(&mut self, channel: u16, (class, method): Method, args: &Args) {
        let payload = [&class.to_be_bytes(), &method.to_be_bytes(), &*args.0].concat();
        self.put(METHOD, channel, &payload);
    }

    /// Gathers a persistent message, of which a method has said where it goes.
    pub(crate) fn persistent(&mut self, class: u16, body: &[u8]) {
        const HAS_DELIVERY_MODE: u16 = 1 << 12;
        const PERSISTENT: u8 = 2;
        let header = Args::new().short(class).short(0).longlong(body.len() as u64);
        self.put(HEADER, 1, &header.short(HAS_DELIVERY_MODE).byte(PERSISTENT).0);
        self.put(BODY, 1, body);
    }

    fn put(&mut self, sort: u8, channel: u16, payload: &[u8]) {
        let say = &mut self.line.say;
        say.push(sort);
        say.extend_from_slice(&channel.to_be_bytes());
        say.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        say.extend_from_slice(payload);
        say.push(END);
    }

    /// Says a method, and waits for its answer.
    pub(crate) fn call(&mut self, method: Method, args: &Args) -> Result<Frame, Fault> {
        self.say(method, args);
        self.line.send()?;
        self.answer_to(method)
    }

    /// The answer to a method is the next one of its class. What else comes has no number in between: a message
    /// for a consumer that leaves.
    fn answer_to(&mut self, (class, method): Method) -> Result<Frame, Fault> {
        loop {
            let frame = self.frame()?;
            match frame {
                Frame::Method { method: said, .. } if said == (class, method + 1) => {
                    return Ok(frame);
                }
                Frame::Method { method: (10 | 20, _), .. } => {
                    return Err(format!("rabbitmq said {frame:?}").into());
                }
                Frame::Method { .. } | Frame::Header | Frame::Body(_) => {}
            }
        }
    }

    /// The next frame.
    pub(crate) fn frame(&mut self) -> Result<Frame, Fault> {
        loop {
            let head: [u8; 7] = self.line.bytes(7)?.try_into()?;
            let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let payload = match self.line.bytes(length + 1)? {
                [payload @ .., END] => payload,
                _ => return Err("a frame has no end".into()),
            };
            match head[0] {
                METHOD => {
                    let mut reader = Reader(payload);
                    let method = (reader.short()?, reader.short()?);
                    return Ok(Frame::Method { method, args: Args(reader.0.to_vec()) });
                }
                HEADER => return Ok(Frame::Header),
                BODY => return Ok(Frame::Body(payload.to_vec())),
                HEARTBEAT => {}
                other => return Err(format!("a frame of sort {other}").into()),
            }
        }
    }
}

/// The arguments of a method, as bytes.
#[derive(Debug)]
pub(crate) struct Args(Vec<u8>);

impl Args {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    fn add(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn byte(self, n: u8) -> Self {
        self.add(&[n])
    }

    pub(crate) fn short(self, n: u16) -> Self {
        self.add(&n.to_be_bytes())
    }

    pub(crate) fn long(self, n: u32) -> Self {
        self.add(&n.to_be_bytes())
    }

    pub(crate) fn longlong(self, n: u64) -> Self {
        self.add(&n.to_be_bytes())
    }

    /// A text of at most 255 bytes.
    pub(crate) fn text(self, text: &str) -> Self {
        self.byte(text.len() as u8).add(text.as_bytes())
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        self.long(bytes.len() as u32).add(bytes)
    }

    /// Names and their texts.
    pub(crate) fn table(self, entries: &[(&str, &str)]) -> Self {
        let entries = entries.iter().fold(Self::new(), |table, (name, text)| {
            table.text(name).byte(b'S').bytes(text.as_bytes())
        });
        self.bytes(&entries.0)
    }

    pub(crate) fn read(&self) -> Reader<'_> {
        Reader(&self.0)
    }
}

/// Arguments, one after the other.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("arguments are missing")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Fault> {
        self.take().map(u8::from_be_bytes)
    }

    pub(crate) fn short(&mut self) -> Result<u16, Fault> {
        self.take().map(u16::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<u32, Fault> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn longlong(&mut self) -> Result<u64, Fault> {
        self.take().map(u64::from_be_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.byte()? as usize;
        let (text, rest) = self.0.split_at_checked(length).ok_or("a text is missing")?;
        self.0 = rest;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_they_were_written() {
        let args = Args::new().byte(1).short(2).long(3).longlong(4).text("five");
        let mut read = args.read();
        assert_eq!((read.byte().unwrap(), read.short().unwrap()), (1, 2));
        assert_eq!((read.long().unwrap(), read.longlong().unwrap()), (3, 4));
        assert_eq!(read.text().unwrap(), b"five");
        assert!(read.byte().is_err());
    }

    #[test]
    fn a_table_says_its_length_and_the_sort_of_each_value() {
        assert_eq!(Args::new().table(&[]).0, [0; 4]);
        assert_eq!(Args::new().table(&[("a", "b")]).0, b"\0\0\0\x08\x01aS\0\0\0\x01b");
    }
}
