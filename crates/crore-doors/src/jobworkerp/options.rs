use crore_core::Span;
use crore_core::settings::{Reference, section};
use serde_json::{Map, Value};

section! {
    /// jobworkerp. `crore serve --jobworkerp-env` reads its environment variables.
    pub struct Options: Eq = "jobworkerp" {
        /// How long results are kept.
        keep_results: Span = "24h",
        /// Reference to the Slack token of the built-in worker −1.
        slack_token: Option<Reference> = none,
        /// Slack channel of the built-in worker −1.
        slack_channel: Option<String> = none,
        /// Title of its messages.
        slack_title: Option<String> = none,
        /// Slack API address; default: Slack's own.
        slack_api: Option<String> = none,
        /// Notify about jobs that succeeded.
        slack_on_success: bool = "false",
        /// Notify about jobs that failed for good.
        slack_on_failure: bool = "false",
    }
}

impl Options {
    /// Settings of the runner `slack` for the built-in worker −1, with the token as its reference. `None` without a
    /// token and a channel: jobs that name the worker are then not reported.
    pub(super) fn slack(&self) -> Option<Map<String, Value>> {
        let (token, channel) = (self.slack_token.as_ref()?, self.slack_channel.as_ref()?);
        let fields = [
            ("token", Some(token.as_str())),
            ("channel", Some(channel.as_str())),
            ("title", self.slack_title.as_deref()),
            ("api", self.slack_api.as_deref()),
        ];
        let field = |(name, text): (&str, Option<&str>)| Some((name.to_owned(), text?.into()));
        Some(fields.into_iter().filter_map(field).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_as_long_as_those_of_any_handler() {
        assert_eq!(Options::default().keep_results, crore_core::handler::DEFAULT_RESULT_RETENTION);
    }
}
