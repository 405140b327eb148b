use crore_core::Span;
use crore_core::settings::{Given, Setting, Shape, section};
use crore_doors::jobworkerp;
use crore_wire::words::Period;
use serde_json::{Map, Value};

section! {
    /// jobworkerp. Its own environment is read with `crore serve --jobworkerp-env`.
    pub(crate) struct Jobworkerp = "jobworkerp" {
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

/// Where a secret is to be found; it is read when it is needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference(String);

impl Setting for Reference {
    const SHAPE: Shape = Shape::Reference;

    fn read(given: &Given) -> Result<Self, String> {
        match given.one()? {
            text if text.starts_with("env:") || text.starts_with("file:") => {
                Ok(Self(text.to_owned()))
            }
            _ => Err("say where it is: `env:NAME` or `file:/path`".to_owned()),
        }
    }
}

impl Jobworkerp {
    /// Where the token for Slack is, which whoever runs the server has named.
    pub(crate) fn secret(&self) -> Option<&str> {
        self.slack_token.as_ref().map(|Reference(text)| text.as_str())
    }

    /// How the door is set up.
    pub(crate) fn options(&self) -> jobworkerp::Options {
        let keep_results = Period(self.keep_results);
        let slack = match (&self.slack_token, &self.slack_channel) {
            (Some(Reference(token)), Some(channel)) => {
                let fields = [
                    ("token", Some(token)),
                    ("channel", Some(channel)),
                    ("title", self.slack_title.as_ref()),
                    ("api", self.slack_api.as_ref()),
                ];
                let said = |(name, text): (&str, Option<&String>)| {
                    Some((name.to_owned(), Value::from(text?.as_str())))
                };
                let settings: Map<_, _> = fields.into_iter().filter_map(said).collect();
                let (on_success, on_failure) = (self.slack_on_success, self.slack_on_failure);
                Some(jobworkerp::Slack { settings, on_success, on_failure })
            }
            _ => None,
        };
        jobworkerp::Options { keep_results, slack }
    }
}
