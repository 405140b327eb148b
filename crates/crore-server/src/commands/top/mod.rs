//! `crore top`: overview, queues, jobs and workers of a server, live in a terminal.
//!
//! A thread polls the API and runs actions ([`poller`]); the main thread reads keys and draws. [`screen`] decides what a
//! key does, without any I/O; [`draw`] shows a [`snapshot`].

mod draw;
mod draw_parts;
mod poller;
mod screen;
mod snapshot;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use crore_core::{Clock, Span};
use crore_store::SystemClock;
use crore_wire::units::Period;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use super::CommandContext;
use crate::exit::{CliError, FailureCode};
use poller::{Poller, PollerReport};
use screen::{KeyEffect, Screen};
use snapshot::Snapshot;

/// How long the main thread waits for a key before it looks for news.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);
/// Shortest interval between two polls.
const MIN_INTERVAL: Span = Span::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Interval between two polls of the server, at least 100ms
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    interval: Period,
    /// Show only jobs that match this filter, such as 'state:dead kind:mail'
    #[arg(long, value_name = "FILTER", default_value = "")]
    filter: String,
}

pub(crate) fn run(call: CommandContext, args: TopArgs) -> anyhow::Result<ExitCode> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        let message = "`crore top` needs a terminal; use `crore stats`, `crore queue ls` or `crore job ls` instead";
        return Err(CliError::new(FailureCode::Usage, message).into());
    }
    let CommandContext { mut client, .. } = call;
    let server = client.url().to_owned();
    // A wrong address or token is an error message, not an empty screen.
    client.get("/v1/info")?;
    let interval = Duration::from_millis(args.interval.0.max(MIN_INTERVAL).as_millis());
    let screen = Screen::new(args.filter);
    let poller = Poller::start(client, interval, screen.query());
    let mut terminal = ratatui::init();
    let result = watch(&mut terminal, screen, &poller, &server);
    ratatui::restore();
    result.map(|()| ExitCode::SUCCESS)
}

/// Draws and reads keys until the user quits.
fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: Screen,
    poller: &Poller,
    server: &str,
) -> anyhow::Result<()> {
    let mut snapshot = Snapshot::default();
    loop {
        while let Some(report) = poller.next_report() {
            match report {
                PollerReport::Snapshot(new) => {
                    screen.outage = None;
                    if screen.is_live() || !screen.is_current(&snapshot) {
                        screen.fit(&new);
                        snapshot = *new;
                    }
                }
                PollerReport::Failed(why) => screen.outage = Some(why),
                PollerReport::Message(message) => screen.message = Some(message),
            }
        }
        let now = SystemClock.now();
        terminal.draw(|frame| {
            draw::draw(frame, &mut screen, &snapshot, &draw::Surroundings { server, now });
        })?;
        if !event::poll(KEY_TIMEOUT)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind != KeyEventKind::Press {
            continue;
        }
        match screen.press(key, &snapshot) {
            KeyEffect::None => {}
            KeyEffect::Quit => return Ok(()),
            KeyEffect::Query => poller.set_query(screen.query()),
            KeyEffect::Act(action) => poller.act(action),
        }
    }
}
