use crore_core::settings::section;
use crore_core::{Size, Span};
use crore_wire::words::Period;

section! {
    /// What a call over HTTP may cost.
    pub(crate) struct Http = "http" {
        /// The largest body of a request. A batch of 8 MiB in Base64 fits into 12 MiB.
        max_body: Size = "12MiB",
        /// How long the body of a request may take to arrive.
        body_time: Span = "30s",
        /// How long a caller may wait for a job or a result in one call; whoever asks for more gets this.
        max_wait: Span = "1m",
        /// How many may listen to live events at once.
        max_listeners: u64 = "1000",
    }
}

impl Http {
    /// The options of the API.
    pub(crate) fn options(&self) -> crore_api::Options {
        crore_api::Options {
            max_body: self.max_body,
            body_time: Period(self.body_time),
            max_wait: Period(self.max_wait),
            max_listeners: usize::try_from(self.max_listeners).unwrap_or(usize::MAX),
            ..crore_api::Options::default()
        }
    }
}
