//! Script arguments as MessagePack, in the subset that Redis's Lua can read.
//!
//! Its reader has no binary strings, so bytes are written as strings, which it does not validate.

/// An argument of a script.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Arg {
    Bool(bool),
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<Self>),
    /// Names and values. An absent one is left out, which is `nil` in Lua.
    Map(Vec<(&'static str, Self)>),
    /// Like `Map`, with external names.
    Table(Vec<(String, Self)>),
}

impl Arg {
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(is) => out.push(if *is { 0xc3 } else { 0xc2 }),
            Self::Int(n) => {
                out.push(0xd3);
                out.extend(n.to_be_bytes());
            }
            Self::Bytes(bytes) => write_text(bytes, out),
            Self::List(items) => {
                write_length(0xdd, items.len(), out);
                items.iter().for_each(|item| item.write(out));
            }
            Self::Map(fields) => {
                write_length(0xdf, fields.len(), out);
                for (name, value) in fields {
                    write_text(name.as_bytes(), out);
                    value.write(out);
                }
            }
            Self::Table(rows) => {
                write_length(0xdf, rows.len(), out);
                for (name, value) in rows {
                    write_text(name.as_bytes(), out);
                    value.write(out);
                }
            }
        }
    }

    pub(super) fn list<T: Into<Self>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

fn write_text(bytes: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(bytes.len()) {
        Ok(short) if short < 32 => out.push(0xa0 | short),
        _ => write_length(0xdb, bytes.len(), out),
    }
    out.extend(bytes);
}

fn write_length(tag: u8, length: usize, out: &mut Vec<u8>) {
    out.push(tag);
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

impl From<i64> for Arg {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

impl From<u64> for Arg {
    fn from(n: u64) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Arg {
    fn from(n: usize) -> Self {
        Self::Int(i64::try_from(n).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Arg {
    fn from(is: bool) -> Self {
        Self::Bool(is)
    }
}

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl From<String> for Arg {
    fn from(text: String) -> Self {
        Self::Bytes(text.into_bytes())
    }
}

impl From<Vec<u8>> for Arg {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// Builds a map argument; fields given with `?` are left out if they are `None`.
macro_rules! map {
    ($($name:literal $(? $maybe:expr)? $(=> $value:expr)?),* $(,)?) => {
        $crate::redis::pack::Arg::Map(
            [$(
                None
                $(.or(Some(($name, $crate::redis::pack::Arg::from($value)))))?
                $(.or($maybe.map(|value| ($name, $crate::redis::pack::Arg::from(value)))))?
            ),*]
            .into_iter()
            .flatten()
            .collect(),
        )
    };
}
pub(super) use map;

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a panic fails the test")]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_valid_messagepack() {
        let arg = map! {
            "a" => 7_i64,
            "none"? None::<i64>,
            "some"? Some("x".repeat(40)),
            "list" => Arg::list([true, false]),
        };
        let read: std::collections::BTreeMap<String, Read> =
            rmp_serde::from_slice(&arg.to_bytes()).expect("a map");
        assert_eq!(read.len(), 3);
        assert_eq!(read.get("a"), Some(&Read::Int(7)));
        assert_eq!(read.get("some"), Some(&Read::Text("x".repeat(40))));
        assert_eq!(read.get("list"), Some(&Read::List(vec![true, false])));
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(untagged)]
    enum Read {
        Int(i64),
        Text(String),
        List(Vec<bool>),
    }
}
