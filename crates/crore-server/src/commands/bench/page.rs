//! What a run has shown, for people.

use super::report::{Cost, Latency, Report, Server, Settings};
use super::times::Spread;

impl Report {
    /// The page for people.
    pub(super) fn page(&self) -> String {
        let mut page = format!("{}\n{}\n\n", self.settings.said(&self.door), self.server.said());
        page += &line("", ["jobs", "jobs/s"].map(str::to_owned));
        let rate = |rate: f64| grouped(rate.round() as u64);
        let row = |n: u64, a_second: f64| [grouped(n), rate(a_second)];
        page += &line("pushed", row(self.tally.pushed, self.pushed_per_second));
        if self.settings.workers > 0 {
            page += &line("finished", row(self.tally.finished, self.finished_per_second));
        }
        page += "\n";
        page += &line("latency", ["p50", "p90", "p99", "p99.9", "max"].map(str::to_owned));
        let Latency { push, handed, finished } = &self.latency_us;
        let rows =
            [("push answered", push), ("push to worker", handed), ("push to finished", finished)];
        for (name, spread) in rows {
            if let Some(Spread { p50, p90, p99, p99_9, max, .. }) = *spread {
                page += &line(name, [p50, p90, p99, p99_9, max].map(time));
            }
        }
        page += "\n";
        page += &line("cost", ["cpu a job", "cpu", "memory"].map(str::to_owned));
        page += &line("server", self.server.cost.said());
        page += &line("crore bench", self.client.cost.said());
        page += "\n";
        for note in &self.notes {
            page += &format!("note: {note}\n");
        }
        if self.ok {
            page += match self.settings.workers {
                0 => "every job that was pushed was there\n",
                _ => "every job was finished once\n",
            };
        }
        page
    }
}

impl Settings {
    fn said(&self, door: &str) -> String {
        let s = |n: usize| if n == 1 { "" } else { "s" };
        let Self { producers, workers, batch, in_flight, payload_bytes, .. } = self;
        let mut said = format!("{door}: {producers} producer{}, {in_flight} push", s(*producers));
        said += if *in_flight == 1 { "" } else { "es" };
        said += &match batch {
            1 => " of one job under way".to_owned(),
            n => format!(" of {n} jobs under way"),
        };
        if let Some(rate) = self.rate {
            said += &format!(", {rate} jobs/s");
        }
        said += &match (workers, door) {
            (0, _) => ", nobody works".to_owned(),
            (n, "lakh") => format!("; {n} worker{}", s(*n)),
            (n, _) => format!("; {n} worker{} with {} slots", s(*n), self.slots),
        };
        format!("{said}; {payload_bytes}-byte payloads")
    }
}

impl Server {
    fn said(&self) -> String {
        let Self { url, version, durability, .. } = self;
        let promise = match durability.as_str() {
            "D0" => "in memory alone",
            "D1" => "survives a kill",
            "D2" => "survives a power cut",
            "D3" => "survives the loss of a host",
            _ => "as it says",
        };
        let at = match (self.own, &self.file_system) {
            (true, Some(sort)) => format!("a server of its own, on {sort}"),
            (true, None) => "a server of its own".to_owned(),
            (false, _) => url.clone(),
        };
        format!("{at}: crore {version}, what is answered {promise} ({durability})")
    }
}

impl Cost {
    /// Processor time for a job and in all, and memory.
    fn said(&self) -> [String; 3] {
        let or_dash = |said: Option<String>| said.unwrap_or_else(|| "-".to_owned());
        [
            or_dash(self.cpu_us_per_job.map(time)),
            or_dash(self.cpu_seconds.map(|cpu| time(cpu * 1e6))),
            or_dash(self.rss_bytes.map(|bytes| format!("{:.1} MB", bytes as f64 / 1e6))),
        ]
    }
}

/// A row: what it is about, and figures that stand below each other.
fn line(name: &str, figures: impl IntoIterator<Item = String>) -> String {
    let figures: String = figures.into_iter().map(|figure| format!("{figure:>12}")).collect();
    format!("{name:<18}{figures}\n")
}

/// So many jobs.
pub(super) fn counted(n: u64) -> String {
    if n == 1 { "1 job".to_owned() } else { format!("{} jobs", grouped(n)) }
}

/// A number whose digits stand in groups.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A time for people, of microseconds: three digits, and its unit.
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
