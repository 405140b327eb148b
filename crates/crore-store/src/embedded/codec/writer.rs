//! Encoding of values into bytes.

use crore_core::{Span, Time};

/// The counterpart of [`super::ByteReader`], method by method. Infallible.
pub(crate) trait Put {
    fn put_u8(&mut self, byte: u8);
    fn put_u32(&mut self, number: u32);
    fn put_u64(&mut self, number: u64);
    /// A LEB128 number.
    fn put_var(&mut self, number: u64);
    /// A zigzag number.
    fn put_zig(&mut self, number: i64);
    fn put_span(&mut self, span: Span);
    /// An instant, relative to `base`.
    fn put_time(&mut self, base: Time, time: Time);
    /// A length and that many bytes.
    fn put_chunk(&mut self, bytes: &[u8]);
    fn put_text(&mut self, text: &str);
    /// 0, or 1 and the value.
    fn put_option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T));
}

impl Put for Vec<u8> {
    #[inline]
    fn put_u8(&mut self, byte: u8) {
        self.push(byte);
    }

    fn put_u32(&mut self, number: u32) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    fn put_u64(&mut self, number: u64) {
        self.extend_from_slice(&number.to_le_bytes());
    }

    #[inline]
    fn put_var(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.push(low_bits(number));
    }

    #[inline]
    fn put_zig(&mut self, number: i64) {
        self.put_var(((number << 1) ^ (number >> 63)).cast_unsigned());
    }

    fn put_span(&mut self, span: Span) {
        self.put_var(span.as_millis());
    }

    fn put_time(&mut self, base: Time, time: Time) {
        self.put_zig(time.as_millis().wrapping_sub(base.as_millis()));
    }

    #[inline]
    fn put_chunk(&mut self, bytes: &[u8]) {
        self.put_var(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn put_text(&mut self, text: &str) {
        self.put_chunk(text.as_bytes());
    }

    fn put_option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.put_u8(u8::from(value.is_some()));
        if let Some(value) = value {
            put(self, value);
        }
    }
}

const fn low_bits(number: u64) -> u8 {
    (number & 0x7f) as u8
}
