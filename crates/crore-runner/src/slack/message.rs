//! The Slack message about a job that has ended.

use crore_core::Time;
use crore_wire::units::Moment;
use serde::Deserialize;
use serde_json::{Value, json};

/// Maximum length of the text in characters; Slack cuts slightly longer texts at any place.
const MAX_TEXT: usize = 38_000;

/// Maximum length of the title in characters.
const MAX_TITLE: usize = 250;

/// The payload: the summary of a job that has ended.
#[derive(Debug, Deserialize)]
pub(super) struct SlackJobSummary {
    job: String,
    kind: String,
    pub(super) state: SlackJobState,
    #[serde(default)]
    output: Option<String>,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    scheduled_at: Option<i64>,
    #[serde(default)]
    started_at: Option<i64>,
    #[serde(default)]
    ended_at: Option<i64>,
}

/// The final state of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum SlackJobState {
    Done,
    Dead,
}

impl SlackJobSummary {
    /// The message; none if there is nothing to report.
    pub(super) fn message(&self, author: &str) -> Option<Value> {
        let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (body, color) = match self.state {
            SlackJobState::Done => (non_empty(&self.output), "#36f64f"),
            SlackJobState::Dead => {
                (non_empty(&self.error).or_else(|| non_empty(&self.output)), "#ff0000")
            }
        };
        let body = body?;
        let (first, rest) = body.trim_start().split_once('\n').unwrap_or((body.trim(), ""));
        // If the title is cut, the text repeats the first line in full.
        let title = escaped(first.trim_end(), MAX_TITLE);
        let is_long = title.len() < escaped(first.trim_end(), usize::MAX).len();
        let field =
            |title: &str, value: String| json!({ "title": title, "value": value, "short": true });
        let time = |title: &str, millis: Option<i64>| {
            millis.map(|millis| field(title, Moment(Time::from_millis(millis)).to_string()))
        };
        let fields: Vec<_> = [
            time("Scheduled time", self.scheduled_at),
            time("Start time", self.started_at),
            time("End time", self.ended_at),
            Some(field("Worker", escaped(&self.kind, MAX_TITLE))),
            Some(field("Job", escaped(&self.job, MAX_TITLE))),
        ]
        .into_iter()
        .flatten()
        .collect();
        Some(json!({ "attachments": [{
            "color": color,
            "author_name": author,
            "fallback": title,
            "title": title,
            "text": escaped(if is_long { &body } else { rest }, MAX_TEXT),
            "fields": fields,
        }] }))
    }
}

/// The start of a text, escaped so that `<!channel>` notifies nobody.
fn escaped(text: &str, most: usize) -> String {
    let mut escaped = String::new();
    let mut length = 0;
    for c in text.chars() {
        let written = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            c => {
                length += 1;
                if length > most {
                    return escaped;
                }
                escaped.push(c);
                continue;
            }
        };
        length += written.len();
        if length > most {
            return escaped;
        }
        escaped.push_str(written);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(more: Value) -> SlackJobSummary {
        let mut ended = json!({ "job": "12", "kind": "mail", "state": "done" });
        let Value::Object(more) = more else { panic!("an object") };
        ended.as_object_mut().expect("an object").extend(more);
        serde_json::from_value(ended).expect("good")
    }

    fn message_texts(more: Value) -> Option<(String, String, String)> {
        let message = ended(more).message("news")?;
        let text = |name: &str| message["attachments"][0][name].as_str().expect(name).to_owned();
        Some((text("color"), text("title"), text("text")))
    }

    fn texts(color: &str, title: &str, text: &str) -> Option<(String, String, String)> {
        Some((color.to_owned(), title.to_owned(), text.to_owned()))
    }

    #[test]
    fn the_first_line_is_the_title_and_the_rest_the_text() {
        let (green, red) = ("#36f64f", "#ff0000");
        for (more, expected) in [
            (json!({ "output": "one\ntwo\nthree" }), texts(green, "one", "two\nthree")),
            (json!({ "output": "one" }), texts(green, "one", "")),
            (json!({ "output": "<!channel> & co" }), texts(green, "&lt;!channel&gt; &amp; co", "")),
            (json!({ "output": "", "error": "e" }), None),
            (json!({ "output": " \n" }), None),
            (json!({}), None),
            (json!({ "state": "dead", "error": "e", "output": "o" }), texts(red, "e", "")),
            (json!({ "state": "dead", "output": "o" }), texts(red, "o", "")),
            (json!({ "state": "dead" }), None),
        ] {
            assert_eq!(message_texts(more.clone()), expected, "{more}");
        }
    }

    #[test]
    fn long_texts_are_truncated_outside_of_escapes() {
        let long = "x".repeat(40_000);
        let (_, title, text) =
            message_texts(json!({ "output": format!("one\n{long}") })).expect("a message");
        assert_eq!((title.as_str(), text.len()), ("one", 38_000));
        let (_, title, text) = message_texts(json!({ "output": long })).expect("a message");
        assert_eq!((title.len(), text.len()), (250, 38_000));
        let grown = format!("{}{}end", "x".repeat(230), "<".repeat(10));
        let (_, title, text) = message_texts(json!({ "output": grown })).expect("a message");
        assert!(!title.ends_with("end") && text.ends_with("end"), "{title} {text}");
        assert_eq!((escaped("a&b", 5).as_str(), escaped("a&b", 6).as_str()), ("a", "a&amp;"));
    }

    #[test]
    fn fields_show_times_worker_and_job() {
        let times =
            json!({ "output": "o", "scheduled_at": 0, "started_at": 1000, "ended_at": 2500 });
        let message = ended(times).message("news").expect("a message");
        let expected = [
            ("Scheduled time", "1970-01-01T00:00:00.000Z"),
            ("Start time", "1970-01-01T00:00:01.000Z"),
            ("End time", "1970-01-01T00:00:02.500Z"),
            ("Worker", "mail"),
            ("Job", "12"),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(title, value)| json!({ "title": title, "value": value, "short": true }))
            .collect();
        assert_eq!(message["attachments"][0]["fields"], Value::Array(expected));
        assert_eq!(message["attachments"][0]["author_name"], "news");
    }
}
