//! Which fields of a record are written out, as bits.

use super::{Damaged, Put, Reader};

/// One bit per field that has not its usual value. Bits that are often set should be low: the first
/// seven cost one byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fields(u64);

impl Fields {
    pub(super) const NONE: Self = Self(0);

    /// With `bit`, if `given`.
    #[inline]
    pub(super) const fn with(self, bit: u64, given: bool) -> Self {
        if given { Self(self.0 | bit) } else { self }
    }

    #[inline]
    pub(super) const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Reads what stands behind a field's bit, if it is set.
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

    /// Reads the bits of a form in `version`, and refuses those that it does not know: what stands
    /// behind them could not even be skipped.
    #[inline]
    pub(super) fn read(reader: &mut Reader<'_>, version: u8, known: u64) -> Result<Self, Damaged> {
        if reader.u8()? != version {
            return Err(Damaged("its version is unknown"));
        }
        match reader.var()? {
            bits if bits & !known == 0 => Ok(Self(bits)),
            _ => Err(Damaged("it has a field that is unknown")),
        }
    }
}
