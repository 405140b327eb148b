//! The part of AMQP 0-9-1 that a producer and a consumer need: frames, arguments, and one channel.

use crate::connection::PeerConnection;
use crate::peer::PeerFault;

type AmqpMethod = (u16, u16);

const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;

const START_OK: AmqpMethod = (10, 11);
const TUNE_OK: AmqpMethod = (10, 31);
const OPEN: AmqpMethod = (10, 40);
const CHANNEL_OPEN: AmqpMethod = (20, 10);

/// A received frame.
#[derive(Debug)]
pub(crate) enum AmqpFrame {
    Method { method: AmqpMethod, args: AmqpArgs },
    Header,
    Body(Vec<u8>),
}

impl AmqpFrame {
    /// The arguments of a method.
    pub(crate) fn args(&self) -> AmqpReader<'_> {
        match self {
            Self::Method { args, .. } => args.read(),
            Self::Header | Self::Body(_) => AmqpReader(&[]),
        }
    }
}

/// A connection with one channel.
#[derive(Debug)]
pub(crate) struct Amqp {
    pub(crate) connection: PeerConnection,
}

impl Amqp {
    pub(crate) fn open(port: u16) -> Result<Self, PeerFault> {
        let mut amqp = Self { connection: PeerConnection::open(port)? };
        amqp.connection.output.extend_from_slice(b"AMQP\0\0\x09\x01");
        amqp.connection.send()?;
        amqp.frame()?;
        let login = AmqpArgs::new().table(&[]).text("PLAIN").bytes(b"\0guest\0guest").text("en_US");
        amqp.put_method_on(0, START_OK, &login);
        amqp.connection.send()?;
        let tune = amqp.frame()?;
        let mut tune = tune.args();
        let (channels, size) = (tune.short()?, tune.long()?);
        // Without heartbeats.
        amqp.put_method_on(0, TUNE_OK, &AmqpArgs::new().short(channels).long(size).short(0));
        amqp.put_method_on(0, OPEN, &AmqpArgs::new().text("/").text("").byte(0));
        amqp.connection.send()?;
        amqp.wait_for_answer(OPEN)?;
        amqp.call(CHANNEL_OPEN, &AmqpArgs::new().text(""))?;
        Ok(amqp)
    }

    /// Appends a method to the output buffer.
    pub(crate) fn put_method(&mut self, method: AmqpMethod, args: &AmqpArgs) {
        self.put_method_on(1, method, args);
    }

    fn put_method_on(&mut self, channel: u16, (class, method): AmqpMethod, args: &AmqpArgs) {
        let payload = [&class.to_be_bytes(), &method.to_be_bytes(), &*args.0].concat();
        self.put_frame(METHOD, channel, &payload);
    }

    /// Appends the content of a persistent message; a publish method precedes it.
    pub(crate) fn put_message(&mut self, class: u16, body: &[u8]) {
        const HAS_DELIVERY_MODE: u16 = 1 << 12;
        const PERSISTENT: u8 = 2;
        let header = AmqpArgs::new().short(class).short(0).longlong(body.len() as u64);
        self.put_frame(HEADER, 1, &header.short(HAS_DELIVERY_MODE).byte(PERSISTENT).0);
        self.put_frame(BODY, 1, body);
    }

    fn put_frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let output = &mut self.connection.output;
        output.push(kind);
        output.extend_from_slice(&channel.to_be_bytes());
        output.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        output.extend_from_slice(payload);
        output.push(END);
    }

    /// Sends a method, and waits for its answer.
    pub(crate) fn call(
        &mut self,
        method: AmqpMethod,
        args: &AmqpArgs,
    ) -> Result<AmqpFrame, PeerFault> {
        self.put_method(method, args);
        self.connection.send()?;
        self.wait_for_answer(method)
    }

    /// The answer to a method is the next method of its class. Anything else in between is dropped: a delivery for a
    /// consumer that is closing.
    fn wait_for_answer(&mut self, (class, method): AmqpMethod) -> Result<AmqpFrame, PeerFault> {
        loop {
            let frame = self.frame()?;
            match frame {
                AmqpFrame::Method { method: received, .. } if received == (class, method + 1) => {
                    return Ok(frame);
                }
                AmqpFrame::Method { method: (10 | 20, _), .. } => {
                    return Err(format!("unexpected frame of rabbitmq: {frame:?}").into());
                }
                AmqpFrame::Method { .. } | AmqpFrame::Header | AmqpFrame::Body(_) => {}
            }
        }
    }

    /// The next frame.
    pub(crate) fn frame(&mut self) -> Result<AmqpFrame, PeerFault> {
        loop {
            let head: [u8; 7] = self.connection.bytes(7)?.try_into()?;
            let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
            let payload = match self.connection.bytes(length + 1)? {
                [payload @ .., END] => payload,
                _ => return Err("a frame without an end marker".into()),
            };
            match head[0] {
                METHOD => {
                    let mut reader = AmqpReader(payload);
                    let method = (reader.short()?, reader.short()?);
                    return Ok(AmqpFrame::Method { method, args: AmqpArgs(reader.0.to_vec()) });
                }
                HEADER => return Ok(AmqpFrame::Header),
                BODY => return Ok(AmqpFrame::Body(payload.to_vec())),
                HEARTBEAT => {}
                other => return Err(format!("unknown frame type {other}").into()),
            }
        }
    }
}

/// The arguments of a method, encoded.
#[derive(Debug)]
pub(crate) struct AmqpArgs(Vec<u8>);

impl AmqpArgs {
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

    /// A short string, at most 255 bytes.
    pub(crate) fn text(self, text: &str) -> Self {
        self.byte(text.len() as u8).add(text.as_bytes())
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        self.long(bytes.len() as u32).add(bytes)
    }

    /// A field table of strings.
    pub(crate) fn table(self, entries: &[(&str, &str)]) -> Self {
        let entries = entries.iter().fold(Self::new(), |table, (name, text)| {
            table.text(name).byte(b'S').bytes(text.as_bytes())
        });
        self.bytes(&entries.0)
    }

    pub(crate) fn read(&self) -> AmqpReader<'_> {
        AmqpReader(&self.0)
    }
}

/// Decodes arguments one after the other.
#[derive(Debug)]
pub(crate) struct AmqpReader<'a>(&'a [u8]);

impl<'a> AmqpReader<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], PeerFault> {
        let (taken, rest) = self.0.split_first_chunk().ok_or("arguments are missing")?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, PeerFault> {
        self.take().map(u8::from_be_bytes)
    }

    pub(crate) fn short(&mut self) -> Result<u16, PeerFault> {
        self.take().map(u16::from_be_bytes)
    }

    pub(crate) fn long(&mut self) -> Result<u32, PeerFault> {
        self.take().map(u32::from_be_bytes)
    }

    pub(crate) fn longlong(&mut self) -> Result<u64, PeerFault> {
        self.take().map(u64::from_be_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a [u8], PeerFault> {
        let length = self.byte()? as usize;
        let (text, rest) = self.0.split_at_checked(length).ok_or("a string is missing")?;
        self.0 = rest;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_as_they_were_written() {
        let args = AmqpArgs::new().byte(1).short(2).long(3).longlong(4).text("five");
        let mut read = args.read();
        assert_eq!((read.byte().unwrap(), read.short().unwrap()), (1, 2));
        assert_eq!((read.long().unwrap(), read.longlong().unwrap()), (3, 4));
        assert_eq!(read.text().unwrap(), b"five");
        assert!(read.byte().is_err());
    }

    #[test]
    fn a_table_encodes_its_length_and_the_type_of_each_value() {
        assert_eq!(AmqpArgs::new().table(&[]).0, [0; 4]);
        assert_eq!(AmqpArgs::new().table(&[("a", "b")]).0, b"\0\0\0\x08\x01aS\0\0\0\x01b");
    }
}
