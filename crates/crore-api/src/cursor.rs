//! Where a list goes on, as a text that means nothing to its reader.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use crore::store::views::Cursor;
use crore_core::{Code, Invalid, JobId, Name, State, Time};

/// What a list is about. A cursor holds for the same list only.
#[derive(Debug)]
pub(crate) struct About<'a> {
    pub(crate) state: Option<State>,
    pub(crate) queue: &'a Option<Name>,
    pub(crate) kind: &'a Option<Name>,
}

impl About<'_> {
    fn check(&self, bytes: &[u8]) -> u32 {
        let Self { state, queue, kind } = self;
        let about = format!("{state:?} {queue:?} {kind:?}");
        crc32c::crc32c_append(crc32c::crc32c(about.as_bytes()), bytes)
    }
}

/// The cursor of the place where a page ended: in a state, after a job or at the start.
pub(crate) fn write(state: State, after: Option<Cursor>, about: &About<'_>) -> String {
    let mut bytes = vec![State::ALL.iter().position(|one| *one == state).unwrap_or(0) as u8];
    if let Some(Cursor { priority, at, id }) = after {
        bytes.extend(priority.to_be_bytes());
        bytes.extend(at.as_millis().to_be_bytes());
        bytes.extend(id.0.to_be_bytes());
    }
    bytes.extend(about.check(&bytes).to_be_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The place that a cursor means.
pub(crate) fn read(text: &str, about: &About<'_>) -> Result<(State, Option<Cursor>), Invalid> {
    let wrong =
        || Invalid::new(Code::CursorInvalid, "cursor", "this list has given no such cursor");
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
    fn a_cursor_is_read_by_its_own_list_alone() {
        let queue = Some(Name::new("queue", "mail").expect("a good name"));
        let about = About { state: Some(State::Ready), queue: &queue, kind: &None };
        let place = Cursor { priority: -5, at: Time::from_millis(7), id: JobId(9) };
        let text = write(State::Ready, Some(place), &about);
        assert_eq!(read(&text, &about), Ok((State::Ready, Some(place))));
        assert_eq!(read(&write(State::Dead, None, &about), &about), Ok((State::Dead, None)));
        let other = About { kind: &queue, ..about };
        assert!(read(&text, &other).is_err());
        for n in 0..text.len() {
            let mut torn = text.clone();
            torn.truncate(n);
            let about = About { state: Some(State::Ready), queue: &queue, kind: &None };
            assert!(read(&torn, &about).is_err(), "{torn}");
        }
    }
}
