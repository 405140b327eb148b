//! Decoding of values from untrusted bytes.

use crore_core::{Name, Span, Time};

use super::Damaged;

/// Bytes and a read position. After an error the position is unspecified.
#[derive(Debug, Clone)]
pub(crate) struct ByteReader<'a> {
    rest: &'a [u8],
}

const CUT: Damaged = Damaged("truncated data");

impl<'a> ByteReader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes left.
    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Damaged> {
        let (&byte, rest) = self.rest.split_first().ok_or(CUT)?;
        self.rest = rest;
        Ok(byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damaged> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Damaged> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(CUT)?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A LEB128 number. Only the shortest form is valid.
    #[inline]
    pub(crate) fn var(&mut self) -> Result<u64, Damaged> {
        match self.u8()? {
            byte @ 0..0x80 => Ok(u64::from(byte)),
            byte => self.long_var(u64::from(byte & 0x7f)),
        }
    }

    fn long_var(&mut self, first: u64) -> Result<u64, Damaged> {
        let mut number = first;
        let mut shift = 7;
        let mut bytes = self.rest.iter();
        for &byte in &mut bytes {
            if shift == 63 && byte > 1 {
                return Err(Damaged("number with more than 64 bits"));
            }
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            match byte {
                0 => return Err(Damaged("number not in its shortest form")),
                1..0x80 => {
                    self.rest = bytes.as_slice();
                    return Ok(number);
                }
                _ => {}
            }
        }
        Err(CUT)
    }

    /// A number of at most 32 bits.
    pub(crate) fn var32(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.var()?).map_err(|_| Damaged("number with more than 32 bits"))
    }

    /// A zigzag number.
    #[inline]
    pub(crate) fn zig(&mut self) -> Result<i64, Damaged> {
        let number = self.var()?;
        Ok((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// A zigzag number of at most 32 bits.
    pub(crate) fn zig32(&mut self) -> Result<i32, Damaged> {
        i32::try_from(self.zig()?).map_err(|_| Damaged("number with more than 32 bits"))
    }

    pub(crate) fn span(&mut self) -> Result<Span, Damaged> {
        self.var().map(Span::from_millis)
    }

    /// A time relative to `base`.
    pub(crate) fn time(&mut self, base: Time) -> Result<Time, Damaged> {
        let millis = self.zig()?.checked_add(base.as_millis());
        millis
            .filter(|millis| (0..=Time::MAX.as_millis()).contains(millis))
            .map(Time::from_millis)
            .ok_or(Damaged("time out of range"))
    }

    #[inline]
    pub(crate) fn bytes(&mut self, n: usize) -> Result<&'a [u8], Damaged> {
        let (bytes, rest) = self.rest.split_at_checked(n).ok_or(CUT)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// A length and that many bytes.
    #[inline]
    pub(crate) fn chunk(&mut self) -> Result<&'a [u8], Damaged> {
        let n = usize::try_from(self.var()?).map_err(|_| CUT)?;
        self.bytes(n)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.chunk()?).map_err(|_| Damaged("text is not UTF-8"))
    }

    pub(crate) fn name(&mut self) -> Result<Name, Damaged> {
        Name::new("name", self.text()?).map_err(|_| Damaged("invalid name"))
    }

    /// An optional value: 0, or 1 and the value.
    pub(crate) fn option<T>(
        &mut self,
        get: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        match self.u8()? {
            0 => Ok(None),
            1 => get(self).map(Some),
            _ => Err(Damaged("invalid tag of an optional value")),
        }
    }

    /// A count and that many values of at least `least` bytes each. A count that the remaining
    /// bytes cannot fill is refused before anything is allocated.
    pub(crate) fn list<T>(
        &mut self,
        least: usize,
        mut get: impl FnMut(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Vec<T>, Damaged> {
        let n = self.count(least)?;
        let mut list = Vec::with_capacity(n);
        for _ in 0..n {
            list.push(get(self)?);
        }
        Ok(list)
    }

    /// A count of values of at least `least` bytes each.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, Damaged> {
        let n = usize::try_from(self.var()?).map_err(|_| CUT)?;
        match n.checked_mul(least) {
            Some(bytes) if bytes <= self.rest.len() => Ok(n),
            _ => Err(CUT),
        }
    }
}
