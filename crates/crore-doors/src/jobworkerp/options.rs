use crore_core::Span;
use crore_core::settings::{Reference, section};
use serde_json::{Map, Value};

section! {
    /// jobworkerp. Its own environment is read with `crore serve --jobworkerp-env`.
    pub struct Options: Eq = "jobworkerp" {
        /// How long results are kept.
        keep_results: Span = "24h",
        /// What the built-in worker −1 shows to Slack: where its token is to be found.
        slack_token: Option<Reference> = none,
        /// Where it writes.
        slack_channel: Option<String> = none,
        /// What stands above its messages.
        slack_title: Option<String> = none,
        /// The address that it calls; that of Slack, unless told otherwise.
        slack_api: Option<String> = none,
        /// Whether it is told of jobs that went well.
        slack_on_success: bool = "false",
        /// Whether it is told of jobs that failed for good.
        slack_on_failure: bool = "false",
    }
}

impl Options {
    /// The settings of the runner `slack` for the built-in worker −1; `None` without a token and a channel: jobs that
    /// name the worker are then not reported. The token stands in them as its reference.
    pub(super) fn slack(&self) -> Option<Map<String, Value>> {
        let (token, channel) = (self.slack_token.as_ref()?, self.slack_channel.as_ref()?);
        let fields = [
            ("token", Some(token.as_str())),
            ("channel", Some(channel.as_str())),
            ("title", self.slack_title.as_deref()),
            ("api", self.slack_api.as_deref()),
        ];
        let said = |(name, text): (&str, Option<&str>)| Some((name.to_owned(), text?.into()));
        Some(fields.into_iter().filter_map(said).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_kept_as_long_as_those_of_any_handler() {
        assert_eq!(Options::default().keep_results, crore_core::handler::KEEP_RESULT);
    }
}
