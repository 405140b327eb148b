//! The report of a run as text.

use super::latency::LatencySummary;
use super::report::{Cost, Latency, LoadReport, ReportServer, ReportSettings};

impl LoadReport {
    /// The report as text.
    pub(super) fn page(&self) -> String {
        let mut page =
            format!("{}\n{}\n\n", self.settings.describe(&self.door), self.server.describe());
        page += &table_row("", ["jobs", "jobs/s"].map(str::to_owned));
        let rate = |rate: f64| grouped(rate.round() as u64);
        let row = |n: u64, a_second: f64| [grouped(n), rate(a_second)];
        page += &table_row("pushed", row(self.tally.pushed, self.pushed_per_second));
        if self.settings.workers > 0 {
            page += &table_row("finished", row(self.tally.finished, self.finished_per_second));
        }
        page += "\n";
        page += &table_row("latency", ["p50", "p90", "p99", "p99.9", "max"].map(str::to_owned));
        let Latency { push, handed, finished } = &self.latency_us;
        let rows =
            [("push answered", push), ("push to worker", handed), ("push to finished", finished)];
        for (name, spread) in rows {
            if let Some(LatencySummary { p50, p90, p99, p99_9, max, .. }) = *spread {
                page += &table_row(name, [p50, p90, p99, p99_9, max].map(time));
            }
        }
        page += "\n";
        page += &table_row("cost", ["cpu/job", "cpu", "memory"].map(str::to_owned));
        page += &table_row("server", self.server.cost.cells());
        page += &table_row("crore bench", self.client.cost.cells());
        page += "\n";
        for note in &self.notes {
            page += &format!("note: {note}\n");
        }
        if self.ok {
            page += match self.settings.workers {
                0 => "every pushed job was stored\n",
                _ => "every job was finished once\n",
            };
        }
        page
    }
}

impl ReportSettings {
    /// The settings as one line.
    fn describe(&self, door: &str) -> String {
        let s = |n: usize| if n == 1 { "" } else { "s" };
        let Self { producers, workers, batch, in_flight, payload_bytes, .. } = self;
        let mut text = format!("{door}: {producers} producer{}, {in_flight} push", s(*producers));
        text += if *in_flight == 1 { "" } else { "es" };
        text += &match batch {
            1 => " of one job in flight".to_owned(),
            n => format!(" of {n} jobs in flight"),
        };
        if let Some(rate) = self.rate {
            text += &format!(", {rate} jobs/s");
        }
        text += &match (workers, door) {
            (0, _) => ", no workers".to_owned(),
            (n, "lakh") => format!("; {n} worker{}", s(*n)),
            (n, _) => format!("; {n} worker{} with {} slots", s(*n), self.slots),
        };
        format!("{text}; {payload_bytes}-byte payloads")
    }
}

impl ReportServer {
    /// The server as one line.
    fn describe(&self) -> String {
        let Self { url, version, durability, .. } = self;
        let promise = match durability.as_str() {
            "D0" => "are in memory only",
            "D1" => "survive a process crash",
            "D2" => "survive a power failure",
            "D3" => "survive the loss of a machine",
            _ => "are stored",
        };
        let at = match (self.own, &self.file_system) {
            (true, Some(file_system)) => format!("temporary server on {file_system}"),
            (true, None) => "temporary server".to_owned(),
            (false, _) => url.clone(),
        };
        format!("{at}: crore {version}, acknowledged writes {promise} ({durability})")
    }
}

impl Cost {
    /// CPU time per job and in total, and memory.
    fn cells(&self) -> [String; 3] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        [
            or_dash(self.cpu_us_per_job.map(time)),
            or_dash(self.cpu_seconds.map(|cpu| time(cpu * 1e6))),
            or_dash(self.rss_bytes.map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6))),
        ]
    }
}

/// A row with a name and right-aligned figures.
fn table_row(name: &str, figures: impl IntoIterator<Item = String>) -> String {
    let figures: String = figures.into_iter().map(|figure| format!("{figure:>12}")).collect();
    format!("{name:<18}{figures}\n")
}

/// A number of jobs, in words.
pub(super) fn counted(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{} jobs", grouped(n)) }
}

/// A number with thousands separators.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A duration with three significant digits and its unit; input in microseconds.
fn time(micros: f64) -> String {
    let (value, unit) = match micros {
        micros if micros < 1e3 => (micros, "µs"),
        micros if micros < 1e6 => (micros / 1e3, "ms"),
        micros => (micros / 1e6, "s"),
    };
    let digits = match value {
        value if value < 10.0 => 2,
        value if value < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!(
            [1.0, 42.42, 999.4, 1234.0, 98_765.0, 12e6].map(time),
            ["1.00 µs", "42.4 µs", "999 µs", "1.23 ms", "98.8 ms", "12.0 s"]
        );
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
