//! Opaque cursors for paging through lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crore::search::SearchPosition;
use crore::store::views::Cursor;
use crore_core::{Code, Invalid, JobId, Name, Time};

/// A cursor is valid only for the filter with the text `about`.
fn check(about: &str, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(about.as_bytes()), bytes)
}

/// Encodes the position where a page ended: a part of the search, and the last job in it, if any.
pub(crate) fn encode(position: SearchPosition, about: &str) -> String {
    let mut bytes = vec![position.term];
    bytes.extend(position.part.to_be_bytes());
    if let Some(Cursor { priority, at, id }) = position.after {
        bytes.extend(priority.to_be_bytes());
        bytes.extend(at.as_millis().to_be_bytes());
        bytes.extend(id.0.to_be_bytes());
    }
    bytes.extend(check(about, &bytes).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

fn wrong() -> Invalid {
    let message =
        "not a cursor of this list; use `next` of the previous page, with the same filter";
    Invalid::new(Code::CursorInvalid, "cursor", message)
}

/// Encodes the last name of a page.
pub(crate) fn encode_name(name: &Name) -> String {
    let mut bytes = name.as_str().as_bytes().to_vec();
    bytes.extend(crc32c::crc32c(&bytes).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes the last name of the previous page.
pub(crate) fn decode_name(text: &str) -> Result<Name, Invalid> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
    let (name, check) = bytes.split_last_chunk::<4>().ok_or_else(wrong)?;
    if crc32c::crc32c(name) != u32::from_be_bytes(*check) {
        return Err(wrong());
    }
    let name = std::str::from_utf8(name).map_err(|_| wrong())?;
    Name::new("cursor", name).map_err(|_| wrong())
}

/// Decodes the position of a cursor.
pub(crate) fn decode(text: &str, about: &str) -> Result<SearchPosition, Invalid> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
    let (bytes, sum) = bytes.split_last_chunk::<4>().ok_or_else(wrong)?;
    if check(about, bytes) != u32::from_be_bytes(*sum) {
        return Err(wrong());
    }
    let (term, bytes) = bytes.split_first().ok_or_else(wrong)?;
    let (part, bytes) = bytes.split_first_chunk::<2>().ok_or_else(wrong)?;
    let (term, part) = (*term, u16::from_be_bytes(*part));
    if bytes.is_empty() {
        return Ok(SearchPosition { term, part, after: None });
    }
    let (priority, bytes) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
    let (at, bytes) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
    let id: &[u8; 8] = bytes.try_into().map_err(|_| wrong())?;
    let id = JobId::new(u64::from_be_bytes(*id)).ok_or_else(wrong)?;
    let (priority, at) = (i32::from_be_bytes(*priority), i64::from_be_bytes(*at));
    let after = Some(Cursor { priority, at: Time::from_millis(at), id });
    Ok(SearchPosition { term, part, after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_own_list() {
        let about = "state:ready queue:mail";
        let after = Some(Cursor { priority: -5, at: Time::from_millis(7), id: JobId(9) });
        let position = SearchPosition { term: 7, part: 258, after };
        let text = encode(position, about);
        assert_eq!(decode(&text, about), Ok(position));
        let start = SearchPosition { term: 0, part: 3, after: None };
        assert_eq!(decode(&encode(start, about), about), Ok(start));
        assert!(decode(&text, "state:ready kind:mail").is_err());
        for n in 0..text.len() {
            let mut torn = text.clone();
            torn.truncate(n);
            assert!(decode(&torn, about).is_err(), "{torn}");
        }
    }
}
