//! What is told about a job that has ended.

use crore_core::Time;
use crore_wire::words::Moment;
use serde::Deserialize;
use serde_json::{Value, json};

/// Characters of the text; Slack takes a little more, and cuts it off anywhere.
const TEXT: usize = 38_000;

/// Characters of the title.
const TITLE: usize = 250;

/// A job that has ended, as the payload has it.
#[derive(Debug, Deserialize)]
pub(super) struct Ended {
    job: String,
    kind: String,
    pub(super) state: State,
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

/// How it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    Done,
    Dead,
}

impl Ended {
    /// The message, if there is anything to tell.
    pub(super) fn message(&self, author: &str) -> Option<Value> {
        let said = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (told, color) = match self.state {
            State::Done => (said(&self.output), "#36f64f"),
            State::Dead => (said(&self.error).or_else(|| said(&self.output)), "#ff0000"),
        };
        let told = told?;
        let (first, rest) = told.trim_start().split_once('\n').unwrap_or((told.trim(), ""));
        // What does not fit into the title stands whole below it.
        let title = escaped(first.trim_end(), TITLE);
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
            Some(field("Worker", escaped(&self.kind, TITLE))),
            Some(field("Job", escaped(&self.job, TITLE))),
        ]
        .into_iter()
        .flatten()
        .collect();
        Some(json!({ "attachments": [{
            "color": color,
            "author_name": author,
            "fallback": title,
            "title": title,
            "text": escaped(if is_long { &told } else { rest }, TEXT),
            "fields": fields,
        }] }))
    }
}

/// The start of a text, in which nothing calls anybody: `<!channel>` is a text like others.
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

    fn ended(more: Value) -> Ended {
        let mut ended = json!({ "job": "12", "kind": "mail", "state": "done" });
        let Value::Object(more) = more else { panic!("an object") };
        ended.as_object_mut().expect("an object").extend(more);
        serde_json::from_value(ended).expect("good")
    }

    fn told(more: Value) -> Option<(String, String, String)> {
        let message = ended(more).message("news")?;
        let text = |name: &str| message["attachments"][0][name].as_str().expect(name).to_owned();
        Some((text("color"), text("title"), text("text")))
    }

    fn texts(color: &str, title: &str, text: &str) -> Option<(String, String, String)> {
        Some((color.to_owned(), title.to_owned(), text.to_owned()))
    }

    #[test]
    fn the_first_line_is_the_title_and_what_follows_the_text() {
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
            assert_eq!(told(more.clone()), expected, "{more}");
        }
    }

    #[test]
    fn long_texts_are_cut_and_no_escape_is_cut_in_two() {
        let long = "x".repeat(40_000);
        let (_, title, text) = told(json!({ "output": format!("one\n{long}") })).expect("told");
        assert_eq!((title.as_str(), text.len()), ("one", 38_000));
        let (_, title, text) = told(json!({ "output": long })).expect("told");
        assert_eq!((title.len(), text.len()), (250, 38_000));
        let grown = format!("{}{}end", "x".repeat(230), "<".repeat(10));
        let (_, title, text) = told(json!({ "output": grown })).expect("told");
        assert!(!title.ends_with("end") && text.ends_with("end"), "{title} {text}");
        assert_eq!((escaped("a&b", 5).as_str(), escaped("a&b", 6).as_str()), ("a", "a&amp;"));
    }

    #[test]
    fn fields_say_when_and_what() {
        let times =
            json!({ "output": "o", "scheduled_at": 0, "started_at": 1000, "ended_at": 2500 });
        let message = ended(times).message("news").expect("told");
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
