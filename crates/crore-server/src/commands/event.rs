//! `crore event`: send, get, list, rm.

use std::process::ExitCode;

use clap::Subcommand;
use crore_wire::api::enums::Encoding;
use crore_wire::units::Period;
use serde::Serialize;

use super::CommandContext;
use super::client::{list_field, path_segment};
use super::job::payload::{JobPayload, PayloadSource};
use super::word::word;

const EXAMPLES: &str = "\
Examples:
  crore job push ship --wait-for order-17-paid
  crore event send order-17-paid '{\"amount\": 120}'";

#[derive(Debug, Subcommand)]
pub(crate) enum EventCommand {
    /// Send an event: jobs that wait for it are released and get its payload
    #[command(after_help = EXAMPLES)]
    Send {
        /// Name of the event
        name: String,
        /// Payload: JSON (see --encoding), or @FILE
        #[arg(conflicts_with = "file")]
        payload: Option<String>,
        /// File with the payload
        #[arg(long, value_name = "PATH")]
        file: Option<String>,
        /// Encoding of the payload: json, msgpack, protobuf, text, bytes [default: json]
        #[arg(long, value_parser = word::<Encoding>)]
        encoding: Option<Encoding>,
        /// How long jobs that are pushed later receive the event; 0s: only jobs that wait now [default: 1h]
        #[arg(long, value_name = "DURATION")]
        keep: Option<Period>,
    },
    /// Show the kept event of a name, which jobs pushed now receive
    Get {
        /// Name of the event
        name: String,
    },
    /// List kept events
    #[command(visible_alias = "ls")]
    List,
    /// Remove the kept event of a name; jobs that have received it keep it
    Rm {
        /// Name of the event
        name: String,
    },
}

#[derive(Debug, Serialize)]
struct EventBody {
    #[serde(flatten)]
    payload: JobPayload,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep: Option<Period>,
}

pub(crate) fn run(mut call: CommandContext, command: EventCommand) -> anyhow::Result<ExitCode> {
    match command {
        EventCommand::Send { name, payload, file, encoding, keep } => {
            let source = PayloadSource { argument: payload.as_deref(), file: file.as_deref() };
            let payload = source.read(encoding.unwrap_or(Encoding::Json))?;
            let sent = call.client.post(&path(&name), &EventBody { payload, keep })?;
            call.out.object(&sent, &["name", "id", "sent_at", "waiting"])?;
        }
        EventCommand::Get { name } => {
            let event = call.client.get(&path(&name))?;
            call.out.object(&event, &["name", "id", "sent_at", "until", "payload"])?;
        }
        EventCommand::List => {
            let columns =
                [("NAME", "/name"), ("SENT", "/sent_at"), ("UNTIL", "/until"), ("BYTES", "/bytes")];
            call.out.rows(&columns, &list(&mut call.client)?)?;
        }
        EventCommand::Rm { name } => {
            call.client.delete(&path(&name))?;
            call.out.confirm(&format!("event `{name}` removed"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// All kept events, page by page.
fn list(client: &mut super::client::ApiClient) -> anyhow::Result<Vec<serde_json::Value>> {
    let (mut events, mut query) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/kept-events{query}"))?;
        let next = page["next"].as_str().map(path_segment);
        events.extend(list_field(page, "events"));
        match next {
            Some(next) => query = format!("?after={next}"),
            None => return Ok(events),
        }
    }
}

fn path(name: &str) -> String {
    format!("/v1/events/{}", path_segment(name))
}
