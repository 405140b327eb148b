//! The state of the terminal view: what is shown and selected, and what a key does.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::widgets::TableState;

use super::poller::TopAction;
use super::snapshot::{Snapshot, TopQuery, View, text};

/// Rows that Page Up and Page Down move.
const PAGE: usize = 20;
/// Maximum length of a filter that is typed.
const MAX_FILTER: usize = 1000;

/// The effect of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyEffect {
    None,
    Quit,
    /// The query has changed.
    Query,
    Act(TopAction),
}

/// The meaning of keys at the moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum KeyMode {
    #[default]
    Browse,
    /// A filter is being typed.
    Filter(String),
    /// An action waits for a yes.
    Confirm(TopAction),
    Help,
}

#[derive(Debug, Default)]
pub(super) struct Screen {
    pub(super) view: View,
    pub(super) mode: KeyMode,
    pub(super) filter: String,
    /// The job whose details are shown.
    pub(super) job: Option<String>,
    pub(super) rows: TableState,
    /// The result of the last action.
    pub(super) message: Option<String>,
    /// Why the server could not be polled.
    pub(super) outage: Option<String>,
    is_frozen: bool,
}

impl Screen {
    pub(super) fn new(filter: String) -> Self {
        let view = if filter.is_empty() { View::Overview } else { View::Jobs };
        let mut screen = Self { view, filter, ..Self::default() };
        screen.rows.select(Some(0));
        screen
    }

    pub(super) fn query(&self) -> TopQuery {
        TopQuery { view: self.view, filter: self.filter.clone(), job: self.job.clone() }
    }

    pub(super) const fn is_live(&self) -> bool {
        !self.is_frozen
    }

    /// Whether a snapshot has the rows of the page and the filter that are chosen now.
    pub(super) fn is_current(&self, snapshot: &Snapshot) -> bool {
        let TopQuery { view, filter, .. } = &snapshot.query;
        snapshot.at.is_some() && *view == self.view && *filter == self.filter
    }

    /// Keeps the selection within the rows of a new snapshot.
    pub(super) fn fit(&mut self, snapshot: &Snapshot) {
        let last = self.row_count(snapshot).saturating_sub(1);
        self.rows.select(Some(self.rows.selected().unwrap_or(0).min(last)));
    }

    fn row_count(&self, snapshot: &Snapshot) -> usize {
        match self.view {
            View::Overview | View::Queues => snapshot.queues.len(),
            View::Jobs => snapshot.jobs.len(),
            View::Workers => snapshot.workers.len(),
        }
    }

    pub(super) fn press(&mut self, key: KeyEvent, snapshot: &Snapshot) -> KeyEffect {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return KeyEffect::Quit;
        }
        self.message = None;
        // Rows that are not shown any more must not be opened or changed.
        let nothing = Snapshot::default();
        let snapshot = if self.is_current(snapshot) { snapshot } else { &nothing };
        match std::mem::take(&mut self.mode) {
            KeyMode::Browse => self.browse(key.code, snapshot),
            KeyMode::Help => KeyEffect::None,
            KeyMode::Filter(filter) => self.edit_filter(key.code, filter),
            KeyMode::Confirm(action) => match key.code {
                KeyCode::Char('y' | 'Y') | KeyCode::Enter => KeyEffect::Act(action),
                _ => KeyEffect::None,
            },
        }
    }

    fn edit_filter(&mut self, key: KeyCode, mut filter: String) -> KeyEffect {
        match key {
            KeyCode::Enter => {
                self.filter = filter;
                return self.show(View::Jobs);
            }
            KeyCode::Esc => return KeyEffect::None,
            KeyCode::Backspace => _ = filter.pop(),
            KeyCode::Char(c) if filter.len() < MAX_FILTER => filter.push(c),
            _ => {}
        }
        self.mode = KeyMode::Filter(filter);
        KeyEffect::None
    }

    fn browse(&mut self, key: KeyCode, snapshot: &Snapshot) -> KeyEffect {
        match key {
            KeyCode::Char('q') => return KeyEffect::Quit,
            KeyCode::Esc | KeyCode::Backspace if self.job.is_some() => {
                self.job = None;
                return KeyEffect::Query;
            }
            KeyCode::Char(c @ '1'..='4') => {
                let nth = usize::from(c as u8 - b'1');
                return self.show(View::ALL[nth]);
            }
            KeyCode::Tab | KeyCode::Right => return self.turn(1),
            KeyCode::BackTab | KeyCode::Left => return self.turn(View::ALL.len() - 1),
            KeyCode::Char('?' | 'h') => self.mode = KeyMode::Help,
            KeyCode::Char('/') => self.mode = KeyMode::Filter(self.filter.clone()),
            KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            KeyCode::Char('j') | KeyCode::Down => self.select(1, snapshot),
            KeyCode::Char('k') | KeyCode::Up => self.select(-1, snapshot),
            KeyCode::PageDown => self.select(PAGE.cast_signed(), snapshot),
            KeyCode::PageUp => self.select(-PAGE.cast_signed(), snapshot),
            KeyCode::Home => self.rows.select(Some(0)),
            KeyCode::End => self.select(isize::MAX, snapshot),
            KeyCode::Enter => return self.open(snapshot),
            KeyCode::Char(verb) => {
                if let Some(action) = self.action(verb, snapshot) {
                    self.mode = KeyMode::Confirm(action);
                }
            }
            _ => {}
        }
        KeyEffect::None
    }

    fn show(&mut self, view: View) -> KeyEffect {
        self.view = view;
        self.job = None;
        self.rows = TableState::default().with_selected(Some(0));
        KeyEffect::Query
    }

    fn turn(&mut self, steps: usize) -> KeyEffect {
        let now = View::ALL.iter().position(|view| *view == self.view).unwrap_or(0);
        self.show(View::ALL[(now + steps) % View::ALL.len()])
    }

    fn select(&mut self, by: isize, snapshot: &Snapshot) {
        let last = self.row_count(snapshot).saturating_sub(1);
        let now = self.rows.selected().unwrap_or(0);
        self.rows.select(Some(now.saturating_add_signed(by).min(last)));
    }

    /// Opens the selected row: the jobs of a queue or worker, or the details of a job.
    fn open(&mut self, snapshot: &Snapshot) -> KeyEffect {
        let nth = self.rows.selected().unwrap_or(0);
        let filter = match self.view {
            View::Overview | View::Queues => {
                snapshot.queues.get(nth).map(|queue| term("queue", &queue.name))
            }
            View::Workers => {
                snapshot.workers.get(nth).map(|worker| term("worker", text(worker, "/name")))
            }
            View::Jobs => {
                self.job = snapshot.jobs.get(nth).map(|job| text(job, "/id").to_owned());
                return KeyEffect::Query;
            }
        };
        let Some(filter) = filter else { return KeyEffect::None };
        self.filter = filter;
        self.show(View::Jobs)
    }

    fn action(&self, verb: char, snapshot: &Snapshot) -> Option<TopAction> {
        let nth = self.rows.selected()?;
        if matches!(self.view, View::Overview | View::Queues) {
            let queue = snapshot.queues.get(nth)?;
            let name = queue.name.clone();
            return match verb {
                'p' if queue.is_paused => Some(TopAction::ResumeQueue(name)),
                'p' => Some(TopAction::PauseQueue(name)),
                _ => None,
            };
        }
        let listed = || Some(text(snapshot.jobs.get(nth)?, "/id").to_owned());
        let job = self.job.clone().or_else(|| (self.view == View::Jobs).then(listed).flatten())?;
        match verb {
            'r' => Some(TopAction::RetryJob(job)),
            'c' => Some(TopAction::CancelJob(job)),
            'd' => Some(TopAction::DeleteJob(job)),
            _ => None,
        }
    }
}

/// A term of a filter; quoted where the value needs it.
fn term(field: &str, value: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return format!("{field}:{value}");
    }
    format!("{field}:{}", serde_json::Value::from(value))
}

#[cfg(test)]
mod tests {
    use crore_core::Time;
    use serde_json::json;

    use super::super::snapshot::ShownQueue;
    use super::*;

    fn snapshot() -> Snapshot {
        let queue = |name: &str, is_paused| ShownQueue {
            name: name.to_owned(),
            is_paused,
            ..ShownQueue::default()
        };
        Snapshot {
            at: Some(Time::ZERO),
            queues: vec![queue("mail", false), queue("with space", true)],
            jobs: vec![json!({"id": "7"}), json!({"id": "9"})],
            workers: vec![json!({"name": "w1"})],
            ..Snapshot::default()
        }
    }

    fn press(screen: &mut Screen, keys: &str) -> KeyEffect {
        let code = |c| match c {
            '\n' => KeyCode::Enter,
            '\x1b' => KeyCode::Esc,
            c => KeyCode::Char(c),
        };
        let mut effect = KeyEffect::None;
        for key in keys.chars().map(code) {
            let snapshot = Snapshot { query: screen.query(), ..snapshot() };
            effect = screen.press(key.into(), &snapshot);
        }
        effect
    }

    #[test]
    fn an_action_needs_a_yes() {
        let mut screen = Screen::new(String::new());
        assert_eq!(press(&mut screen, "2p"), KeyEffect::None);
        let pause = TopAction::PauseQueue("mail".to_owned());
        assert_eq!(screen.mode, KeyMode::Confirm(pause.clone()));
        assert_eq!(press(&mut screen, "n"), KeyEffect::None);
        assert_eq!(press(&mut screen, "py"), KeyEffect::Act(pause));
        let resume = TopAction::ResumeQueue("with space".to_owned());
        assert_eq!(press(&mut screen, "jp\n"), KeyEffect::Act(resume));
    }

    #[test]
    fn the_selection_stays_within_the_rows() {
        let mut screen = Screen::new("state:dead".to_owned());
        assert_eq!(screen.view, View::Jobs);
        press(&mut screen, "jjjj");
        assert_eq!(screen.rows.selected(), Some(1));
        assert_eq!(press(&mut screen, "dy"), KeyEffect::Act(TopAction::DeleteJob("9".to_owned())));
        screen.fit(&Snapshot::default());
        assert_eq!(screen.rows.selected(), Some(0));
        assert_eq!(screen.action('r', &Snapshot::default()), None);
    }

    #[test]
    fn enter_opens_a_queue_and_then_a_job() {
        let mut screen = Screen::new(String::new());
        assert_eq!(press(&mut screen, "2j\n"), KeyEffect::Query);
        assert_eq!((screen.view, screen.filter.as_str()), (View::Jobs, r#"queue:"with space""#));
        assert_eq!(press(&mut screen, "\n"), KeyEffect::Query);
        assert_eq!(screen.query().job.as_deref(), Some("7"));
        assert_eq!(press(&mut screen, "j\x1b"), KeyEffect::Query);
        assert_eq!(screen.query().job, None);
    }

    #[test]
    fn rows_of_another_filter_are_not_opened_or_changed() {
        let mut screen = Screen::new("state:dead".to_owned());
        let old = Snapshot { query: screen.query(), ..snapshot() };
        press(&mut screen, "/ id:9\n");
        for key in ['\n', 'd'] {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            screen.press(code.into(), &old);
            assert_eq!((&screen.mode, &screen.job), (&KeyMode::Browse, &None));
        }
    }

    #[test]
    fn a_filter_is_typed_and_can_be_given_up() {
        let mut screen = Screen::new(String::new());
        assert_eq!(press(&mut screen, "/kind:q\n"), KeyEffect::Query);
        assert_eq!((screen.view, screen.filter.as_str()), (View::Jobs, "kind:q"));
        press(&mut screen, "/xyz\x1b");
        assert_eq!((screen.mode.clone(), screen.filter.as_str()), (KeyMode::Browse, "kind:q"));
        assert_eq!(press(&mut screen, "q"), KeyEffect::Quit);
    }
}
