//! Draws the terminal view.

use crore_core::Time;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Tabs, Wrap};
use serde_json::Value;

use super::draw_parts::{age, count, right, safe, state, state_color, table};
use super::screen::{KeyMode, Screen};
use super::snapshot::{MinuteRow, Snapshot, View, moment, number, text};

use Constraint::{Fill, Length, Min};

/// Lines of the help: keys, and what they do.
const HELP: &[(&str, &str)] = &[
    ("1-4, Tab", "choose a page"),
    ("j k, arrows", "select a row"),
    ("Enter", "open: jobs of a queue or worker, details of a job"),
    ("Esc", "go back"),
    ("/", "filter jobs, such as  state:dead kind:mail error~timeout"),
    ("Space", "stop and resume live updates"),
    ("p", "pause or resume a queue"),
    ("r c d", "retry, cancel, delete a job"),
    ("q", "quit"),
];

/// The server and the time, which the view shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) server: &'a str,
    pub(super) now: Time,
}

pub(super) fn draw(
    frame: &mut Frame<'_>,
    screen: &mut Screen,
    snapshot: &Snapshot,
    around: &Surroundings<'_>,
) {
    let [head, body, foot] = Layout::vertical([Length(2), Min(0), Length(1)]).areas(frame.area());
    draw_head(frame, head, (screen, snapshot), around);
    if !screen.is_current(snapshot) {
        frame.render_widget(Paragraph::new("Loading …").dim(), body);
    } else if let Some(detail) = snapshot.detail.as_ref().filter(|_| screen.job.is_some()) {
        draw_job(frame, body, detail, around.now);
    } else {
        match screen.view {
            View::Overview => draw_overview(frame, body, (screen, snapshot), around.now),
            View::Queues => draw_queues(frame, body, screen, snapshot),
            View::Jobs => draw_jobs(frame, body, (screen, snapshot), around.now),
            View::Workers => draw_workers(frame, body, (screen, snapshot), around.now),
        }
    }
    draw_foot(frame, foot, screen);
    if screen.mode == KeyMode::Help {
        draw_help(frame);
    }
}

fn draw_head(
    frame: &mut Frame<'_>,
    area: Rect,
    (screen, snapshot): (&Screen, &Snapshot),
    around: &Surroundings<'_>,
) {
    let [left, right] = Layout::horizontal([Fill(1), Length(46)]).areas(area);
    let nth = View::ALL.iter().position(|view| *view == screen.view);
    let titles =
        View::ALL.iter().enumerate().map(|(i, view)| format!("{} {}", i + 1, view.title()));
    let tabs = Tabs::new(titles).select(nth).highlight_style(Style::new().bold().underlined());
    frame.render_widget(tabs.divider(" "), left);
    let live = match (screen.is_live(), snapshot.at) {
        (false, _) => Span::styled("paused", Style::new().fg(Color::Yellow)),
        (true, Some(at)) if around.now.since(at).as_millis() > 5000 => {
            let old = format!("no answer for {}", age(Some(at), around.now));
            Span::styled(old, Style::new().fg(Color::Red))
        }
        (true, _) => Span::styled("live", Style::new().fg(Color::Green)),
    };
    let version = format!(" · crore {} · {}", safe(&snapshot.version), safe(&snapshot.durability));
    let server = Line::from(safe(around.server)).right_aligned().dim();
    let status = Line::from(vec![live, Span::raw(version).dim()]).right_aligned();
    frame.render_widget(Text::from(vec![server, status]), right);
}

fn draw_foot(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let line = match (&screen.mode, &screen.message) {
        (KeyMode::Filter(filter), _) => Line::from(vec![
            Span::raw("Filter: ").bold(),
            Span::raw(safe(filter)),
            Span::raw("▏"),
            Span::raw("   Enter: search · Esc: give up").dim(),
        ]),
        (KeyMode::Confirm(action), _) => {
            let question = format!("{}  y: yes · any other key: no", safe(&action.question()));
            Line::styled(question, Style::new().fg(Color::Yellow).bold())
        }
        (_, None) if screen.outage.is_some() => {
            let outage = screen.outage.as_deref().unwrap_or_default();
            Line::styled(safe(outage), Style::new().fg(Color::Red))
        }
        (_, Some(message)) => Line::styled(safe(message), Style::new().fg(Color::Yellow)),
        _ => {
            let verbs = match screen.view {
                View::Overview | View::Queues => "p pause/resume · Enter jobs",
                View::Jobs if screen.job.is_some() => "r retry · c cancel · d delete · Esc back",
                View::Jobs => "Enter details · r retry · c cancel · d delete",
                View::Workers => "Enter jobs",
            };
            Line::from(format!("{verbs} · / filter · Space freeze · ? help · q quit")).dim()
        }
    };
    frame.render_widget(line, area);
}

fn draw_overview(
    frame: &mut Frame<'_>,
    area: Rect,
    (screen, snapshot): (&mut Screen, &Snapshot),
    now: Time,
) {
    let [states, figures, charts, queues] =
        Layout::vertical([Length(1), Length(2), Length(6), Min(3)]).areas(area);
    let words = ["ready", "running", "scheduled", "waiting", "dead", "done", "cancelled"];
    let shown = words.iter().flat_map(|word| {
        let dot = Span::styled("● ", Style::new().fg(state_color(word)));
        [dot, Span::raw(count(snapshot.count(word))).bold(), Span::raw(format!(" {word}   "))]
    });
    frame.render_widget(Line::from(shown.collect::<Vec<_>>()), states);
    frame.render_widget(Line::from(figures_line(snapshot)).dim(), figures);
    let three = Layout::horizontal([Fill(1); 3]).spacing(2).areas::<3>(charts);
    let series: [(&str, Color, MinuteFigure); 3] = [
        ("pushed", Color::Cyan, |row| row.pushed),
        ("done", Color::Green, |row| row.done),
        ("failed", Color::Red, |row| row.failed),
    ];
    for ((name, color, figure), area) in series.into_iter().zip(three) {
        let minutes =
            per_minute(&snapshot.minutes, usize::from(area.width.max(3) - 2), now, figure);
        let last = minutes.iter().rev().nth(1).copied().unwrap_or(0);
        let title = format!(" {name} per minute: {} ", count(last));
        let chart = Sparkline::default().data(minutes).style(Style::new().fg(color));
        frame.render_widget(chart.block(Block::bordered().title(title)), area);
    }
    draw_queues(frame, queues, screen, snapshot);
}

/// Wait times, use of workers, and the share of failures of the last hour.
fn figures_line(snapshot: &Snapshot) -> String {
    let wait = |quantile: &str| {
        let text = text(&snapshot.total, &format!("/wait/{quantile}"));
        if text.is_empty() { "–".to_owned() } else { safe(text) }
    };
    let (running, slots) = snapshot.slots();
    let (failed, started) = (number(&snapshot.total, "failed"), number(&snapshot.total, "started"));
    let failures =
        (100 * failed).checked_div(started).map_or("–".to_owned(), |n| format!("{n} %"));
    format!(
        "last hour: wait p50 {} · p95 {} · p99 {} · {failures} of attempts failed · workers {running} of {slots} slots busy",
        wait("p50"),
        wait("p95"),
        wait("p99"),
    )
}

/// A number of a minute.
type MinuteFigure = fn(&MinuteRow) -> u64;

/// One number for each of the last `n` minutes, zero where nothing happened.
fn per_minute(rows: &[MinuteRow], n: usize, now: Time, figure: MinuteFigure) -> Vec<u64> {
    let minute = |at: Time| at.as_millis().div_euclid(60_000);
    let mut figures = vec![0; n];
    for row in rows {
        let back = usize::try_from(minute(now) - minute(row.at)).unwrap_or(usize::MAX);
        if let Some(slot) = n.checked_sub(back.saturating_add(1)).and_then(|i| figures.get_mut(i)) {
            *slot = figure(row);
        }
    }
    figures
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, screen: &mut Screen, snapshot: &Snapshot) {
    let head = [
        ("QUEUE", Fill(1)),
        (">READY", Length(8)),
        (">RUNNING", Length(8)),
        (">SCHEDULED", Length(9)),
        (">WAITING", Length(8)),
        (">DEAD", Length(7)),
        (">DONE/H", Length(8)),
        (">FAILED/H", Length(8)),
        (">WAIT P99", Length(9)),
    ];
    let rows = snapshot.queues.iter().map(|queue| {
        let pause = if queue.is_paused { "  (paused)" } else { "" };
        let name = Line::from(vec![Span::raw(safe(&queue.name)), Span::raw(pause).yellow()]);
        let counts = ["ready", "running", "scheduled", "waiting", "dead"];
        let hour = ["done", "failed"].map(|field| count(number(&queue.stats, field)));
        let cells = counts.map(|word| count(queue.count(word))).into_iter().chain(hour);
        let wait = safe(text(&queue.stats, "/wait/p99"));
        Row::new(std::iter::once(name.into()).chain(cells.chain([wait]).map(right)))
    });
    if snapshot.queues.is_empty() {
        let empty = "No queues yet. Push a job:  crore job push hello '{\"name\": \"Ada\"}'";
        return frame.render_widget(Paragraph::new(empty).dim(), area);
    }
    let [list, more] =
        Layout::vertical([Min(1), Length(u16::from(snapshot.more_queues))]).areas(area);
    frame.render_stateful_widget(table(&head, rows), list, &mut screen.rows);
    frame.render_widget(Line::from("More queues:  crore queue ls").dim(), more);
}

fn draw_jobs(
    frame: &mut Frame<'_>,
    area: Rect,
    (screen, snapshot): (&mut Screen, &Snapshot),
    now: Time,
) {
    let [filter, list] = Layout::vertical([Length(1), Min(1)]).areas(area);
    let shown = if screen.filter.is_empty() { "all jobs" } else { &screen.filter };
    frame.render_widget(Line::from(format!("Filter: {}", safe(shown))).dim(), filter);
    if let Some(error) = &snapshot.jobs_error {
        let lines: Vec<Line<'_>> = error.lines().map(|line| Line::from(safe(line))).collect();
        let error = Paragraph::new(lines).style(Style::new().fg(Color::Red));
        return frame.render_widget(error, list);
    }
    if snapshot.jobs.is_empty() {
        return frame.render_widget(Paragraph::new("No job matches.").dim(), list);
    }
    let head = [
        ("KIND", Fill(2)),
        (">ID", Length(10)),
        ("QUEUE", Fill(2)),
        ("STATE", Length(12)),
        (">ATTEMPT", Length(7)),
        (">PUSHED", Length(7)),
        ("WORKER", Fill(2)),
        ("ERROR", Fill(4)),
    ];
    let rows = snapshot.jobs.iter().map(|job| {
        Row::new([
            safe(text(job, "/kind")).into(),
            right(safe(text(job, "/id"))),
            safe(text(job, "/queue")).into(),
            state(text(job, "/state")).into(),
            right(number(job, "attempt").to_string()),
            right(age(moment(job, "/pushed_at"), now)),
            safe(text(job, "/worker")).into(),
            safe(text(job, "/history/0/error")).into(),
        ])
    });
    frame.render_stateful_widget(table(&head, rows), list, &mut screen.rows);
}

fn draw_workers(
    frame: &mut Frame<'_>,
    area: Rect,
    (screen, snapshot): (&mut Screen, &Snapshot),
    now: Time,
) {
    if snapshot.workers.is_empty() {
        let empty = "No workers are connected. See docs/guide/workers.md, or run  crore worker";
        return frame.render_widget(Paragraph::new(empty).dim(), area);
    }
    let head = [
        ("WORKER", Fill(2)),
        ("VERSION", Length(10)),
        (">BUSY", Length(9)),
        ("QUEUES", Fill(3)),
        (">SINCE", Length(7)),
        (">HEARD", Length(7)),
    ];
    let rows = snapshot.workers.iter().map(|worker| {
        let stream = &worker["stream"];
        let queues = stream["queues"].as_array().map(Vec::as_slice).unwrap_or_default();
        let queues: Vec<&str> = queues.iter().filter_map(Value::as_str).take(20).collect();
        let busy = format!("{}/{}", number(stream, "running"), number(stream, "slots"));
        Row::new([
            safe(text(worker, "/name")).into(),
            safe(text(stream, "/version")).into(),
            right(busy),
            safe(&queues.join(" ")).into(),
            right(age(moment(stream, "/since"), now)),
            right(age(moment(stream, "/heard"), now)),
        ])
    });
    frame.render_stateful_widget(table(&head, rows), area, &mut screen.rows);
}

fn draw_job(frame: &mut Frame<'_>, area: Rect, job: &Value, now: Time) {
    let mut lines = vec![
        Line::from(vec![
            Span::raw(format!("{} {}  ", safe(text(job, "/kind")), safe(text(job, "/id")))).bold(),
        ]),
        state(text(job, "/state")),
    ];
    let mut field = |name: &str, value: String| {
        if !value.is_empty() && value != "null" {
            lines.push(Line::from(vec![Span::raw(format!("{name:<10}")).dim(), Span::raw(value)]));
        }
    };
    field("queue", safe(text(job, "/queue")));
    field("pushed", age(moment(job, "/pushed_at"), now));
    field("due", age(moment(job, "/due"), now));
    field("attempt", number(job, "attempt").to_string());
    field("worker", safe(text(job, "/worker")));
    field("payload", safe(&job["payload"].to_string()));
    field("result", safe(&job["result"].to_string()));
    let reasons = job["explained"]["reasons"].as_array().map(Vec::as_slice).unwrap_or_default();
    for reason in reasons {
        field("why", safe(text(reason, "/detail")));
    }
    for run in job["history"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let when = age(moment(run, "/started_at"), now);
        let how = [
            text(run, "/ended"),
            text(run, "/duration"),
            text(run, "/worker"),
            text(run, "/error"),
        ];
        field("attempt", safe(&format!("{when} ago  {}", how.join("  "))));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines = HELP.iter().map(|(keys, what)| {
        Line::from(vec![Span::raw(format!(" {keys:<12} ")).bold(), Span::raw(*what)])
    });
    let lines: Vec<Line<'_>> = lines.collect();
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let area = frame.area().centered(Length(76), Length(height));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" Keys ")), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use serde_json::json;

    use super::super::snapshot::ShownQueue;
    use super::*;

    const NOW: Time = Time::from_millis(1_800_000_000_000);

    fn shown(screen: &mut Screen, mut snapshot: Snapshot) -> String {
        snapshot.at = Some(NOW);
        snapshot.query = screen.query();
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).expect("a terminal");
        let around = Surroundings { server: "http://127.0.0.1:9000", now: NOW };
        terminal.draw(|frame| draw(frame, screen, &snapshot, &around)).expect("drawn");
        terminal.backend().to_string()
    }

    fn press(screen: &mut Screen, key: char) {
        let key = ratatui::crossterm::event::KeyCode::Char(key);
        screen.press(key.into(), &Snapshot::default());
    }

    #[test]
    fn the_overview_shows_states_waits_and_queues() {
        let queue = ShownQueue {
            name: "mail".to_owned(),
            is_paused: true,
            counts: json!({"ready": 12_345, "dead": 3}),
            stats: json!({"done": 1500, "failed": 2, "wait": {"p99": "1m30s"}}),
        };
        let minute = MinuteRow {
            at: NOW.before(crore_core::Span::from_secs(60)),
            pushed: 77,
            ..MinuteRow::default()
        };
        let snapshot = Snapshot {
            queues: vec![queue],
            minutes: vec![minute],
            total: json!({"started": 200, "failed": 50, "wait": {"p50": "2ms", "p95": "3ms", "p99": "4ms"}}),
            workers: vec![json!({"name": "w", "stream": {"running": 3, "slots": 8}})],
            ..Snapshot::default()
        };
        let text = shown(&mut Screen::new(String::new()), snapshot);
        for part in [
            "12.3k ready",
            "3 dead",
            "p50 2ms · p95 3ms · p99 4ms",
            "25 % of attempts failed",
            "3 of 8 slots busy",
            "pushed per minute: 77",
            "mail  (paused)",
            "1,500",
            "1m30s",
            "http://127.0.0.1:9000",
            "live",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn texts_of_jobs_cannot_control_the_terminal() {
        let job = json!({"id": "1", "kind": "\u{1b}[31m\u{202e}x", "state": "dead", "queue": "q",
                         "history": [{"error": "bad\u{7}\u{9b}"}]});
        let mut screen = Screen::new("state:dead".to_owned());
        let text = shown(&mut screen, Snapshot { jobs: vec![job], ..Snapshot::default() });
        assert!(text.contains("● dead") && text.contains("[31m"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}', '\u{9b}']), "{text:?}");
    }

    #[test]
    fn empty_pages_say_what_to_do_and_errors_are_shown() {
        let mut screen = Screen::new(String::new());
        assert!(shown(&mut screen, Snapshot::default()).contains("crore job push hello"));
        press(&mut screen, '4');
        assert!(shown(&mut screen, Snapshot::default()).contains("No workers are connected"));
        press(&mut screen, '3');
        let wrong = Snapshot {
            jobs_error: Some("unknown term `stat`\n  stat:x\n  ^".to_owned()),
            ..Snapshot::default()
        };
        assert!(shown(&mut screen, wrong).contains("unknown term `stat`"));
        press(&mut screen, '?');
        assert!(shown(&mut screen, Snapshot::default()).contains("retry, cancel, delete a job"));
    }
}
