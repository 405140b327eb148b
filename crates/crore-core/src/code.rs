//! Stable error codes. A code never changes its meaning and is never used again for another.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// What went wrong, in a word that programs may rely on.
        ///
        /// Not `non_exhaustive`: each door says what a code is in its protocol, and the compiler sees to it
        /// that none is forgotten.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code as it stands in answers, logs and documentation.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// What the code means and what to do about it.
            pub const fn explain(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }
        }
    };
}

codes! {
    /// A name (queue, kind, worker) is empty.
    NameEmpty = "name-empty",
    /// A name is longer than 255 bytes of UTF-8.
    NameTooLong = "name-too-long",
    /// A name contains a control character.
    NameControl = "name-control",
    /// A key (unique key, client id, trace context) is empty.
    KeyEmpty = "key-empty",
    /// A key (unique key, client id, trace context) is longer than the cap.
    KeyTooLong = "key-too-long",
    /// A key (unique key, client id, trace context) contains a control character.
    KeyControl = "key-control",
    /// A unique key begins with `crore.`, as only those of crore itself may.
    KeyReserved = "key-reserved",
    /// A payload or result is larger than the cap.
    PayloadTooLarge = "payload-too-large",
    /// A payload or result is not what its encoding says, or is nested too deep.
    PayloadMalformed = "payload-malformed",
    /// A batch has more jobs, or more bytes, than the cap.
    BatchTooLarge = "batch-too-large",
    /// A batch refers to a job or group that is not an earlier part of it, or a job waits for its own group.
    BatchReference = "batch-reference",
    /// A due time, window or retention lies outside the range that is allowed.
    TimeRange = "time-range",
    /// A lease is shorter or longer than allowed.
    LeaseRange = "lease-range",
    /// A timeout is zero or longer than allowed.
    TimeoutRange = "timeout-range",
    /// A retry policy has a number outside its range.
    RetryRange = "retry-range",
    /// There are too many labels, one is too long or contains a control character, or its name begins with `crore.`, as those do that are the server's own.
    LabelRange = "label-range",
    /// A job waits for more jobs and groups than the cap.
    TooManyDependencies = "too-many-dependencies",
    /// A count argument is zero or above the cap.
    CountRange = "count-range",
    /// A schedule's text is not a schedule; the position says where.
    ScheduleSyntax = "schedule-syntax",
    /// A schedule never fires.
    ScheduleNever = "schedule-never",
    /// A schedule would fire more often than allowed.
    ScheduleTooOften = "schedule-too-often",
    /// A time zone is not in the compiled-in table.
    ZoneUnknown = "zone-unknown",
    /// A limit's text is not a limit; the position says where.
    LimitSyntax = "limit-syntax",
    /// A limit's text is longer than the cap.
    LimitTooLong = "limit-too-long",
    /// A limit's condition is nested deeper than the cap.
    LimitTooDeep = "limit-too-deep",
    /// A limit's number (rate, burst, concurrency) lies outside its range.
    LimitRange = "limit-range",
    /// A body, a parameter or a header cannot be read, or something in it has another type or shape than it should.
    Malformed = "malformed",
    /// A field is not known; look for a typing mistake.
    FieldUnknown = "field-unknown",
    /// A body is larger than the cap.
    BodyTooLarge = "body-too-large",
    /// A request did not arrive in time.
    TooSlow = "too-slow",
    /// The content type of a body is none that is understood here.
    MediaType = "media-type",
    /// None of the content types that the caller accepts can be had.
    NotAcceptable = "not-acceptable",
    /// What is asked for is there, but not by this method.
    MethodNotAllowed = "method-not-allowed",
    /// An idempotency key was used before, for something else.
    KeyReused = "key-reused",
    /// A cursor is not one that a list gave, or is another list's.
    CursorInvalid = "cursor-invalid",
    /// There are too many of this sort at once; try again later.
    TooMany = "too-many",
    /// A URL leads to an address or a port that this server may not call.
    OutboundDenied = "outbound-denied",
    /// A handler names a runner that does not exist; the message lists those that do.
    RunnerUnknown = "runner-unknown",
    /// A handler needs a runner, a program, an image or an address that the operator does not allow; the message says what would allow it.
    RunnerForbidden = "runner-forbidden",
    /// What was waited for has not happened yet; ask again.
    NotYet = "not-yet",
    /// The host that a request is addressed to is not a name of this server; the message says which setting adds one.
    HostUnknown = "host-unknown",
    /// A request was made by a page of another site, and is refused whoever is behind it.
    CrossSite = "cross-site",
    /// A call needs a token that is valid here.
    TokenNeeded = "token-needed",
    /// The caller is known, but does not have the scope that a call needs; the message names it.
    ScopeMissing = "scope-missing",
    /// The thing that was asked for does not exist.
    NotFound = "not-found",
    /// It is there, but not in a state for which this means anything; the message says why.
    Refused = "refused",
    /// The engine is being stopped; ask another one, or later.
    Stopping = "stopping",
    /// The store is full; reports and deletes still work.
    Full = "full",
    /// The store cannot be reached now; try again.
    Unavailable = "unavailable",
    /// What is there is not a store, or one of a version that is not known; open another.
    Foreign = "foreign",
    /// Stored data is damaged; stop and look.
    Corrupt = "corrupt",
    /// A sync failed, so nothing more is promised; restart.
    Poisoned = "poisoned",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An input that was refused: which rule it broke, in which field, and in words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// The stable code.
    pub code: Code,
    /// The field, as a path: `payload`, `retry.max-attempts`, `jobs[3].queue`.
    pub field: String,
    /// One line for people: lower case, no full stop, the offending value in backticks.
    pub message: String,
    /// For texts (limits, schedules): the offset of the offending character, counted in characters.
    pub at: Option<usize>,
}

impl Invalid {
    /// An error about `field`.
    pub fn new(code: Code, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, field: field.into(), message: message.into(), at: None }
    }

    /// The same error, pointing at a character of the field's text.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.at = Some(offset);
        self
    }

    /// The same error, for a field inside `outer`.
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

/// The start of a text that may be long, for use in a message: at most 64 characters, with control
/// characters escaped.
pub fn excerpt(text: &str) -> String {
    let mut short: String = text.chars().take(64).flat_map(char::escape_debug).collect();
    if text.chars().nth(64).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn codes_are_distinct_and_explained() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| code.explain().len() > 10));
    }

    /// The reference page is made from the codes; a test that fails prints what it should be.
    #[test]
    fn the_reference_page_explains_every_code() {
        let rows = Code::ALL.iter().map(|c| format!("| `{c}` | {} |\n", c.explain().trim()));
        let page = format!(
            "# Error codes\n\nEvery error has one of these codes. A code keeps its meaning for ever; \
             the message beside it is for people and may change.\n\n| code | meaning |\n|---|---|\n{}",
            rows.collect::<String>()
        );
        let written = include_str!("../../../docs/reference/errors.md");
        assert!(written == page, "docs/reference/errors.md should be:\n{page}");
    }

    #[test]
    fn excerpts_are_short_and_printable() {
        let long = "x\n".repeat(10_000);
        let short = excerpt(&long);
        assert!(short.chars().count() <= 129 && !short.contains('\n'));
    }
}
