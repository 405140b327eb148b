use crore_core::Span;
use crore_core::settings::{Reference, section};
use serde_json::{Map, Value};

section! {
    /// The jobworkerp protocol, and its built-in worker with the id −1, which posts the outcomes of jobs to Slack.
    /// `crore serve --jobworkerp-env` reads jobworkerp's environment variables.
    pub struct Options: Eq = "jobworkerp" {
        /// Retention of results.
        keep_results: Span = "24h",
        /// Slack token of worker −1, as a reference: `env:NAME` or `file:PATH`.
        slack_token: Option<Reference> = none,
        /// Slack channel of worker −1.
        slack_channel: Option<String> = none,
        /// Heading of the messages of worker −1.
        slack_title: Option<String> = none,
        /// URL of the Slack API. Default: Slack's own.
        slack_api: Option<String> = none,
        /// Whether worker −1 posts about jobs that succeeded.
        slack_on_success: bool = "false",
        /// Whether worker −1 posts about jobs that failed permanently.
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
    fn results_have_the_default_retention_of_handlers() {
        assert_eq!(Options::default().keep_results, crore_core::handler::DEFAULT_RESULT_RETENTION);
    }
}
