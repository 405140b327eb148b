//! Converts enumerations and field names between messages and core types.

use crore_core::code::excerpt;
use crore_core::{Code, Invalid, event, job, unique};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::v1;

/// The text of an enumeration value, as in JSON.
pub fn enum_text(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

/// Parses the text of an enumeration value.
pub fn parse_enum_text<T: DeserializeOwned>(field: &str, text: &str) -> Result<T, Invalid> {
    let value = serde_json::Value::String(excerpt(text));
    serde_json::from_value(value)
        .map_err(|error| Invalid::new(Code::Malformed, field, error.to_string()))
}

/// Names of fields in the core types and in the messages, where they differ.
const FIELDS: &[(&str, &str)] = &[
    ("lease", "lease_ms"),
    ("timeout", "timeout_ms"),
    // Either of `due_ms` and `delay_ms`.
    ("due", "when"),
    ("start-within", "start_within_ms"),
    ("deadline", "deadline_ms"),
    ("keep", "keep_result_ms"),
    ("event-keep", "keep_ms"),
    ("from", "from_ms"),
    ("unique.window", "unique.window_ms"),
    ("retry.max-interval", "retry.max_interval_ms"),
    ("retry.backoff.every", "retry.base_ms"),
    ("retry.backoff.step", "retry.base_ms"),
    ("retry.backoff.base", "retry.base_ms"),
    ("retry.backoff.factor", "retry.factor"),
];

/// The name of a core field in the messages: `jobs[3].lease` becomes `jobs[3].lease_ms`.
pub fn message_field(of_rules: &str) -> String {
    let ends = |(ours, _): &&(&str, &str)| {
        of_rules.strip_suffix(ours).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    match FIELDS.iter().find(ends) {
        Some((ours, theirs)) => {
            let outer = of_rules.strip_suffix(ours).unwrap_or_default().replace('-', "_");
            format!("{outer}{theirs}")
        }
        None => of_rules.replace('-', "_"),
    }
}

/// Converts enumerations; 0 (unspecified) is the default `usual`.
macro_rules! convert_enums {
    ($($name:ident = $core:path, $field:literal, usual $usual:ident { $($word:ident = $means:ident,)+ })+) => {$(
        impl v1::$name {
            /// Converts the number of a variant to the core type.
            pub fn read(number: i32) -> Result<$core, Invalid> {
                use $core as Core;
                match Self::try_from(number) {
                    Ok(Self::Unspecified) => Ok(Core::$usual),
                    $(Ok(Self::$word) => Ok(Core::$means),)+
                    Err(_) => {
                        let why = format!("unknown value `{number}`");
                        Err(Invalid::new(Code::Malformed, $field, why))
                    }
                }
            }
        }

        impl From<$core> for v1::$name {
            fn from(word: $core) -> Self {
                use $core as Core;
                match word { $(Core::$means => Self::$word,)+ }
            }
        }
    )+};
}

convert_enums! {
    Encoding = crore_core::Encoding, "encoding", usual Json {
        Json = Json,
        Msgpack = Msgpack,
        Protobuf = Protobuf,
        Text = Text,
        Bytes = Bytes,
    }
    Hold = unique::UniqueHold, "hold", usual UntilEnd {
        UntilStart = UntilStart,
        UntilSuccess = UntilSuccess,
        UntilEnd = UntilEnd,
        Window = Window,
    }
    Retain = job::JobRetention, "retain", usual AsQueue {
        AsQueue = AsQueue,
        Nothing = Nothing,
    }
    OnTimeout = event::OnEventTimeout, "wait_for.on_timeout", usual Cancel {
        Run = Run,
        Cancel = Cancel,
        Dead = Dead,
    }
    Needs = job::DependencyCondition, "needs", usual Success {
        End = End,
        Success = Success,
    }
}

impl From<job::State> for v1::State {
    fn from(state: job::State) -> Self {
        match state {
            job::State::Waiting => Self::Waiting,
            job::State::Scheduled => Self::Scheduled,
            job::State::Ready => Self::Ready,
            job::State::Running => Self::Running,
            job::State::Done => Self::Done,
            job::State::Dead => Self::Dead,
            job::State::Cancelled => Self::Cancelled,
        }
    }
}

impl v1::State {
    /// Converts the number of a state; 0 (unspecified) is `None`.
    pub fn read(number: i32) -> Result<Option<job::State>, Invalid> {
        Ok(Some(match Self::try_from(number) {
            Ok(Self::Unspecified) => return Ok(None),
            Ok(Self::Waiting) => job::State::Waiting,
            Ok(Self::Scheduled) => job::State::Scheduled,
            Ok(Self::Ready) => job::State::Ready,
            Ok(Self::Running) => job::State::Running,
            Ok(Self::Done) => job::State::Done,
            Ok(Self::Dead) => job::State::Dead,
            Ok(Self::Cancelled) => job::State::Cancelled,
            Err(_) => {
                let why = format!("unknown value `{number}`");
                return Err(Invalid::new(Code::Malformed, "state", why));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::enums::Missed;

    #[test]
    fn field_names_are_mapped_at_every_level() {
        assert_eq!(message_field("lease"), "lease_ms");
        assert_eq!(message_field("jobs[3].lease"), "jobs[3].lease_ms");
        assert_eq!(message_field("on_done[0].retry.backoff.step"), "on_done[0].retry.base_ms");
        assert_eq!(message_field("jobs[0].unique.window"), "jobs[0].unique.window_ms");
        assert_eq!(message_field("jobs[0].client-id"), "jobs[0].client_id");
        assert_eq!(message_field("jobs[0].on-expired.lease"), "jobs[0].on_expired.lease_ms");
        assert_eq!(message_field("start-within"), "start_within_ms");
        for same in ["release", "jobs[0].kind", "retry.jitter", "due_ms", ""] {
            assert_eq!(message_field(same), same);
        }
    }

    #[test]
    fn enums_round_trip_and_unknown_numbers_are_refused_with_their_field() {
        for encoding in crore_core::Encoding::ALL {
            assert_eq!(v1::Encoding::read(v1::Encoding::from(encoding) as i32), Ok(encoding));
        }
        assert_eq!(v1::Encoding::read(0), Ok(crore_core::Encoding::Json));
        assert_eq!(v1::Encoding::read(77).unwrap_err().field, "encoding");
        assert_eq!(v1::Hold::read(-1).unwrap_err().field, "hold");
        assert_eq!(v1::State::read(9).unwrap_err().field, "state");
        assert_eq!(v1::State::read(0), Ok(None));
        assert_eq!(parse_enum_text("missed", &enum_text(&Missed::All)), Ok(Missed::All));
        let why = parse_enum_text::<Missed>("missed", "never").unwrap_err();
        assert!(why.field == "missed" && why.message.contains("`never`"), "{why:?}");
        for state in job::State::ALL {
            assert_eq!(v1::State::read(v1::State::from(state) as i32), Ok(Some(state)));
        }
    }
}
