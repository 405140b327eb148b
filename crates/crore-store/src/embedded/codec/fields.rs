//! Presence bits of the fields of a record.

use super::{ByteReader, Damaged, Put};

/// A bit per field that differs from its usual value. Frequent fields use low bits: the first
/// seven cost one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PresenceBits(u64);

impl PresenceBits {
    pub(super) const NONE: Self = Self(0);

    /// Sets `bit` if `given`.
    #[inline]
    pub(super) const fn with(self, bit: u64, given: bool) -> Self {
        if given { Self(self.0 | bit) } else { self }
    }

    #[inline]
    pub(super) const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Reads a field's value if its bit is set.
    #[inline]
    pub(super) fn given<T>(
        self,
        bit: u64,
        get: impl FnOnce() -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        if self.has(bit) { get().map(Some) } else { Ok(None) }
    }

    /// Writes `version`, then the bits.
    #[inline]
    pub(super) fn put(self, version: u8, out: &mut Vec<u8>) {
        out.put_u8(version);
        out.put_var(self.0);
    }

    /// Reads the bits of an encoding in `version`. Refuses unknown bits: their values could not be
    /// skipped.
    #[inline]
    pub(super) fn read(
        reader: &mut ByteReader<'_>,
        version: u8,
        known: u64,
    ) -> Result<Self, Damaged> {
        if reader.u8()? != version {
            return Err(Damaged("unknown version"));
        }
        match reader.var()? {
            bits if bits & !known == 0 => Ok(Self(bits)),
            _ => Err(Damaged("unknown field")),
        }
    }
}
