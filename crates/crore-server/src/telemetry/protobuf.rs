//! As much of protobuf as a message needs to be written.

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Message(Vec<u8>);

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number as u8 & 0x7f) | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    pub(super) fn number(mut self, field: u64, number: u64) -> Self {
        self.key(field, VARINT);
        self.varint(number);
        self
    }

    pub(super) fn fixed64(mut self, field: u64, number: u64) -> Self {
        self.key(field, FIXED64);
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(super) fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.key(field, LENGTH);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    pub(super) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    pub(super) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    /// The same field for each of some messages, or for none.
    pub(super) fn messages(self, field: u64, messages: impl IntoIterator<Item = Self>) -> Self {
        messages.into_iter().fold(self, |whole, message| whole.message(field, &message))
    }

    pub(super) fn done(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_the_format_says() {
        let inner = Message::default().text(2, "testing");
        let bytes = Message::default().number(1, 150).message(3, &inner).fixed64(4, 1).done();
        // The examples of the format's own description.
        let expected = b"\x08\x96\x01\x1a\x09\x12\x07testing\x21\x01\0\0\0\0\0\0\0";
        assert_eq!(bytes, expected);
    }
}
