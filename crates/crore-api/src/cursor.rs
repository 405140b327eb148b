//! Opaque cursors for paging through lists.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crore::store::views::Cursor;
use crore_core::{Code, Invalid, JobId, Name, State, Time};

/// The filter of a list. A cursor is valid only for the same filter.
#[derive(Debug)]
pub(crate) struct ListFilter<'a> {
    pub(crate) state: Option<State>,
    pub(crate) queue: &'a Option<Name>,
    pub(crate) kind: &'a Option<Name>,
}

impl ListFilter<'_> {
    fn check(&self, bytes: &[u8]) -> u32 {
        let Self { state, queue, kind } = self;
        let about = format!("{state:?} {queue:?} {kind:?}");
        crc32c::crc32c_append(crc32c::crc32c(about.as_bytes()), bytes)
    }
}

/// Encodes the position where a page ended: a state, and the last job in it, if any.
pub(crate) fn encode(state: State, after: Option<Cursor>, about: &ListFilter<'_>) -> String {
    let mut bytes = vec![State::ALL.iter().position(|one| *one == state).unwrap_or(0) as u8];
    if let Some(Cursor { priority, at, id }) = after {
        bytes.extend(priority.to_be_bytes());
        bytes.extend(at.as_millis().to_be_bytes());
        bytes.extend(id.0.to_be_bytes());
    }
    bytes.extend(about.check(&bytes).to_be_bytes());
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
pub(crate) fn decode(
    text: &str,
    about: &ListFilter<'_>,
) -> Result<(State, Option<Cursor>), Invalid> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| wrong())?;
    let (bytes, check) = bytes.split_last_chunk::<4>().ok_or_else(wrong)?;
    if about.check(bytes) != u32::from_be_bytes(*check) {
        return Err(wrong());
    }
    let (state, bytes) = bytes.split_first().ok_or_else(wrong)?;
    let state = State::ALL.get(usize::from(*state)).copied().ok_or_else(wrong)?;
    if bytes.is_empty() {
        return Ok((state, None));
    }
    let (priority, bytes) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
    let (at, bytes) = bytes.split_first_chunk::<8>().ok_or_else(wrong)?;
    let id: &[u8; 8] = bytes.try_into().map_err(|_| wrong())?;
    let id = JobId::new(u64::from_be_bytes(*id)).ok_or_else(wrong)?;
    let (priority, at) = (i32::from_be_bytes(*priority), i64::from_be_bytes(*at));
    Ok((state, Some(Cursor { priority, at: Time::from_millis(at), id })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_valid_only_for_its_own_list() {
        let queue = Some(Name::new("queue", "mail").expect("a valid name"));
        let about = ListFilter { state: Some(State::Ready), queue: &queue, kind: &None };
        let position = Cursor { priority: -5, at: Time::from_millis(7), id: JobId(9) };
        let text = encode(State::Ready, Some(position), &about);
        assert_eq!(decode(&text, &about), Ok((State::Ready, Some(position))));
        assert_eq!(decode(&encode(State::Dead, None, &about), &about), Ok((State::Dead, None)));
        let other = ListFilter { kind: &queue, ..about };
        assert!(decode(&text, &other).is_err());
        for n in 0..text.len() {
            let mut torn = text.clone();
            torn.truncate(n);
            let about = ListFilter { state: Some(State::Ready), queue: &queue, kind: &None };
            assert!(decode(&torn, &about).is_err(), "{torn}");
        }
    }
}
