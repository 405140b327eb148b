//! Stable error codes. The meaning of a code never changes, and a retired code is never reused.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal,)+) => {
        /// A stable, machine-readable error code.
        ///
        /// Not `non_exhaustive`: every door maps each code to its protocol, and the compiler checks that the
        /// mapping is complete.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// Every code, in the order of the reference page.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The code as written in responses, logs and documentation.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The title of the code: the class of the problem, and what to do where that is not obvious.
            pub const fn explain(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+),)+ }
            }
        }
    };
}

codes! {
    /// Empty name (queue, kind or worker)
    NameEmpty = "name-empty",
    /// Name longer than 255 bytes of UTF-8
    NameTooLong = "name-too-long",
    /// Control character in a name
    NameControl = "name-control",
    /// Empty key (unique key, client id or trace context)
    KeyEmpty = "key-empty",
    /// Key too long (unique key, client id or trace context)
    KeyTooLong = "key-too-long",
    /// Control character in a key (unique key, client id or trace context)
    KeyControl = "key-control",
    /// Reserved unique key: the prefix `crore.` belongs to the server
    KeyReserved = "key-reserved",
    /// Payload or result too large
    PayloadTooLarge = "payload-too-large",
    /// Payload or result does not match its encoding, or is nested too deep
    PayloadMalformed = "payload-malformed",
    /// Too many jobs or bytes in one batch
    BatchTooLarge = "batch-too-large",
    /// Invalid reference in a batch: a job may refer only to an earlier job or to a group of the batch, and not to its own group
    BatchReference = "batch-reference",
    /// Due time, deadline, window or retention out of range
    TimeRange = "time-range",
    /// Lease duration out of range
    LeaseRange = "lease-range",
    /// Timeout out of range
    TimeoutRange = "timeout-range",
    /// Retry policy out of range
    RetryRange = "retry-range",
    /// Invalid labels: too many, too long, a control character, or the reserved prefix `crore.`
    LabelRange = "label-range",
    /// Too many dependencies
    TooManyDependencies = "too-many-dependencies",
    /// Number out of range, or too many items in a list
    CountRange = "count-range",
    /// Syntax error in a schedule; `at` is the offset of the error
    ScheduleSyntax = "schedule-syntax",
    /// Schedule never fires
    ScheduleNever = "schedule-never",
    /// Schedule fires too often
    ScheduleTooOften = "schedule-too-often",
    /// Unknown time zone
    ZoneUnknown = "zone-unknown",
    /// Syntax error in a limit; `at` is the offset of the error
    LimitSyntax = "limit-syntax",
    /// Limit text too long
    LimitTooLong = "limit-too-long",
    /// Limit condition nested too deep
    LimitTooDeep = "limit-too-deep",
    /// Rate, burst or concurrency of a limit out of range
    LimitRange = "limit-range",
    /// Cost of a job under a limit missing, not a whole number, negative or above the burst
    CostRange = "cost-range",
    /// Invalid field to share a queue by; `at` is the offset of the error
    FairField = "fair-field",
    /// Invalid field to index; `at` is the offset of the error
    IndexField = "index-field",
    /// Not a version: one to three numbers such as `2.3.1`, without a pre-release; `at` is the offset of the error
    VersionInvalid = "version-invalid",
    /// Not a requirement of versions, such as `>=2.3 <3`; `at` is the offset of the error
    VersionRequirement = "version-requirement",
    /// Syntax error in a filter; `at` is the offset of the error
    FilterSyntax = "filter-syntax",
    /// Filter too long: too many bytes, terms, values or steps of a path
    FilterTooLong = "filter-too-long",
    /// Number, duration or id in a filter out of range
    FilterRange = "filter-range",
    /// Masked field: a filter, an index, a limit or a fair share cannot use it; see `access.mask`
    FieldMasked = "field-masked",
    /// Malformed request: a body, parameter or header has the wrong syntax, type or shape
    Malformed = "malformed",
    /// Unknown field
    FieldUnknown = "field-unknown",
    /// Request body too large
    BodyTooLarge = "body-too-large",
    /// Request timeout: the request did not arrive in time
    TooSlow = "too-slow",
    /// Unsupported content type
    MediaType = "media-type",
    /// No acceptable content type
    NotAcceptable = "not-acceptable",
    /// Method not allowed
    MethodNotAllowed = "method-not-allowed",
    /// Idempotency key reused for a different request
    KeyReused = "key-reused",
    /// Invalid cursor
    CursorInvalid = "cursor-invalid",
    /// Too many requests, workers, listeners or stored events; retry later
    TooMany = "too-many",
    /// Outbound address or port not allowed; see `outbound.allow`
    OutboundDenied = "outbound-denied",
    /// Unknown runner
    RunnerUnknown = "runner-unknown",
    /// Runner, program, image or URL not allowed by the server's configuration
    RunnerForbidden = "runner-forbidden",
    /// Wait timeout: the job has not ended yet; retry
    NotYet = "not-yet",
    /// Unknown host name in the request; add the name to `listen.hosts`
    HostUnknown = "host-unknown",
    /// Cross-site request refused
    CrossSite = "cross-site",
    /// Missing or invalid token
    TokenNeeded = "token-needed",
    /// Missing scope
    ScopeMissing = "scope-missing",
    /// Resource not found
    NotFound = "not-found",
    /// Conflict with the current state of the job or resource
    Refused = "refused",
    /// Group sealed: it accepts no further members
    GroupSealed = "group-sealed",
    /// Changed since it was read: `If-Match` names another version
    PreconditionFailed = "precondition-failed",
    /// Server is shutting down; retry later
    Stopping = "stopping",
    /// Store is full; reports and deletes still work
    Full = "full",
    /// Temporarily unavailable; retry
    Unavailable = "unavailable",
    /// Not a crore store, or an unsupported store version
    Foreign = "foreign",
    /// Stored data is damaged; stop the server and run `crore verify`
    Corrupt = "corrupt",
    /// Disk write or sync failed; the store refuses all calls until the server is restarted
    Poisoned = "poisoned",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A validation error: the rule that was broken, the field, and a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// The stable code.
    pub code: Code,
    /// The field, as a path: `payload`, `retry.max-attempts`, `jobs[3].queue`.
    pub field: String,
    /// One line for people: lower case, no full stop, the offending value in backticks.
    pub message: String,
    /// For limits, schedules and filters: the offset of the error in the text, in characters.
    pub at: Option<usize>,
}

impl Invalid {
    /// An error about `field`.
    pub fn new(code: Code, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code, field: field.into(), message: message.into(), at: None }
    }

    /// Sets the offset of the error in the field's text.
    #[must_use]
    pub fn at(mut self, offset: usize) -> Self {
        self.at = Some(offset);
        self
    }

    /// Prefixes the field with the path of `outer`.
    #[must_use]
    pub fn inside(mut self, outer: &str) -> Self {
        self.field = format!("{outer}.{}", self.field);
        self
    }
}

/// The first 64 characters of a text, with control characters escaped, for use in a message.
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

    /// `docs/reference/errors.md` is generated from the codes; on failure the test prints the expected page.
    #[test]
    fn the_reference_page_explains_every_code() {
        let rows = Code::ALL.iter().map(|c| format!("| `{c}` | {} |\n", c.explain().trim()));
        let page = format!(
            "# Error codes\n\nEvery error has one of these codes. The meaning of a code never changes; \
             error messages are for people and may change.\n\n| code | meaning |\n|---|---|\n{}",
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
