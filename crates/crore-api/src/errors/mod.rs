//! Errors of failed deliveries, grouped by fingerprint, in a bounded table in memory.
//!
//! The engine's observer adds each error when its delivery ends. After a start of the server a background task adds
//! the errors of stored jobs that ended before it ([`fill`]). Counters are kept by fingerprint, queue and kind, so that
//! a restricted caller gets those of its own jobs.

mod fill;
mod series;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crore_core::filter::Fingerprint;
use crore_core::{JobId, Name, Span, Time};

use series::CountSeries;

/// Maximum number of groups.
const MAX_GROUPS: usize = 1_000;
/// Maximum number of combinations of fingerprint, queue and kind, about 2 KiB each.
const MAX_PLACES: usize = 4_000;
/// Maximum length of a kept message, in bytes.
const MAX_MESSAGE: usize = 1024;
/// Maximum number of worker versions of a place, and the length of each in bytes.
const MAX_VERSIONS: usize = 8;
const MAX_VERSION: usize = 64;
/// Looking up the version of a worker visits all workers, so it is done this often for each place.
const VERSION_EVERY: Span = Span::from_secs(1);

/// An error of a delivery.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedError<'a> {
    pub(crate) queue: &'a Name,
    pub(crate) kind: &'a Name,
    pub(crate) job: JobId,
    pub(crate) message: &'a str,
    /// When the delivery ended.
    pub(crate) at: Time,
}

/// Groups of errors.
#[derive(Debug)]
pub(crate) struct ErrorTable {
    groups: Mutex<ErrorRows>,
    /// Errors before this time are those of stored jobs.
    since: Time,
    is_filling: AtomicBool,
}

/// The places of each group.
#[derive(Debug, Default)]
struct ErrorRows {
    by_fingerprint: HashMap<Fingerprint, BTreeMap<(Name, Name), PlaceErrors>>,
    places: usize,
}

/// Errors of one fingerprint, queue and kind.
#[derive(Debug, Clone)]
pub(crate) struct PlaceErrors {
    pub(crate) count: u64,
    pub(crate) first_at: Time,
    pub(crate) last_at: Time,
    /// The newest message.
    pub(crate) message: Box<str>,
    /// The job of the newest message.
    pub(crate) job: JobId,
    pub(crate) versions: BTreeSet<Box<str>>,
    version_read_at: Time,
    pub(crate) minutes: CountSeries<60>,
    pub(crate) hours: CountSeries<24>,
}

/// A group that matches a selection, with its places that match.
#[derive(Debug)]
pub(crate) struct SelectedGroup {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) places: Vec<(Name, Name, PlaceErrors)>,
}

impl ErrorTable {
    pub(crate) fn new(now: Time) -> Self {
        Self { groups: Mutex::default(), since: now, is_filling: AtomicBool::new(false) }
    }

    fn rows(&self) -> MutexGuard<'_, ErrorRows> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the errors of stored jobs are being added.
    pub(crate) fn is_filling(&self) -> bool {
        self.is_filling.load(Ordering::Acquire)
    }

    /// Adds an error. `version` looks up the version of its worker.
    pub(crate) fn record(
        &self,
        error: &ObservedError<'_>,
        version: impl FnOnce() -> Option<String>,
    ) {
        let fingerprint = Fingerprint::of(error.message);
        let mut rows = self.rows();
        let place = rows.place(fingerprint, error);
        place.add(error);
        if error.at.since(place.version_read_at) < VERSION_EVERY {
            return;
        }
        place.version_read_at = error.at;
        drop(rows);
        let Some(mut version) = version() else { return };
        version.truncate(version.floor_char_boundary(MAX_VERSION));
        let key = (error.queue.clone(), error.kind.clone());
        let mut rows = self.rows();
        let place = rows.by_fingerprint.get_mut(&fingerprint);
        if let Some(place) = place.and_then(|places| places.get_mut(&key))
            && place.versions.len() < MAX_VERSIONS
        {
            place.versions.insert(version.into());
        }
    }

    /// The groups with places that `is_meant` selects by queue and kind, in no particular order.
    pub(crate) fn select(&self, is_meant: impl Fn(&Name, &Name) -> bool) -> Vec<SelectedGroup> {
        let rows = self.rows();
        let groups = rows.by_fingerprint.iter();
        let select = |(fingerprint, places): (&Fingerprint, &BTreeMap<_, PlaceErrors>)| {
            selected(*fingerprint, places, &is_meant)
        };
        groups.filter_map(select).collect()
    }

    /// The places of one group that `is_meant` selects.
    pub(crate) fn get(
        &self,
        fingerprint: Fingerprint,
        is_meant: impl Fn(&Name, &Name) -> bool,
    ) -> Option<SelectedGroup> {
        selected(fingerprint, self.rows().by_fingerprint.get(&fingerprint)?, &is_meant)
    }
}

fn selected(
    fingerprint: Fingerprint,
    places: &BTreeMap<(Name, Name), PlaceErrors>,
    is_meant: &impl Fn(&Name, &Name) -> bool,
) -> Option<SelectedGroup> {
    let places = places.iter().filter(|((queue, kind), _)| is_meant(queue, kind));
    let places: Vec<_> =
        places.map(|((queue, kind), place)| (queue.clone(), kind.clone(), place.clone())).collect();
    (!places.is_empty()).then_some(SelectedGroup { fingerprint, places })
}

impl ErrorRows {
    /// The place of an error; a new one may displace those whose last error is the oldest.
    fn place(&mut self, fingerprint: Fingerprint, error: &ObservedError<'_>) -> &mut PlaceErrors {
        let key = (error.queue.clone(), error.kind.clone());
        let is_known =
            self.by_fingerprint.get(&fingerprint).is_some_and(|it| it.contains_key(&key));
        if !is_known {
            self.make_room(fingerprint);
            self.places += 1;
        }
        let places = self.by_fingerprint.entry(fingerprint).or_default();
        places.entry(key).or_insert_with(|| PlaceErrors::new(error))
    }

    /// Removes a tenth of the places if there are too many, and a tenth of the groups.
    fn make_room(&mut self, new: Fingerprint) {
        if self.places >= MAX_PLACES {
            let all = self.by_fingerprint.iter();
            let mut ages: Vec<(Time, Fingerprint, Name, Name)> = all
                .flat_map(|(group, places)| {
                    let age = |((queue, kind), place): (&(Name, Name), &PlaceErrors)| {
                        (place.last_at, *group, queue.clone(), kind.clone())
                    };
                    places.iter().map(age)
                })
                .collect();
            ages.sort_unstable();
            for (_, group, queue, kind) in ages.into_iter().take(MAX_PLACES / 10) {
                if let Some(places) = self.by_fingerprint.get_mut(&group) {
                    places.remove(&(queue, kind));
                }
            }
            self.by_fingerprint.retain(|_, places| !places.is_empty());
        }
        if self.by_fingerprint.len() >= MAX_GROUPS && !self.by_fingerprint.contains_key(&new) {
            let last_at = |places: &BTreeMap<_, PlaceErrors>| {
                places.values().map(|place| place.last_at).max()
            };
            let all = self.by_fingerprint.iter();
            let mut ages: Vec<_> = all.map(|(group, places)| (last_at(places), *group)).collect();
            ages.sort_unstable();
            for (_, group) in ages.into_iter().take(MAX_GROUPS / 10) {
                self.by_fingerprint.remove(&group);
            }
        }
        self.places = self.by_fingerprint.values().map(BTreeMap::len).sum();
    }
}

impl PlaceErrors {
    fn new(error: &ObservedError<'_>) -> Self {
        Self {
            count: 0,
            first_at: error.at,
            last_at: error.at,
            message: Box::default(),
            job: error.job,
            versions: BTreeSet::new(),
            version_read_at: Time::ZERO,
            minutes: CountSeries::new(Span::from_secs(60)),
            hours: CountSeries::new(Span::from_secs(3600)),
        }
    }

    fn add(&mut self, error: &ObservedError<'_>) {
        self.count += 1;
        self.first_at = self.first_at.min(error.at);
        if error.at >= self.last_at {
            self.last_at = error.at;
            self.job = error.job;
            let end = error.message.floor_char_boundary(MAX_MESSAGE);
            let message = error.message.get(..end).unwrap_or_default();
            if *self.message != *message {
                self.message = message.into();
            }
        }
        self.minutes.add(error.at);
        self.hours.add(error.at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new("name", text).expect("a name")
    }

    fn at(second: u64) -> Time {
        Time::ZERO.after(Span::from_secs(1_000_000 + second))
    }

    fn add(table: &ErrorTable, (queue, message): (&str, &str), job: u64, second: u64) {
        let (queue, kind) = (name(queue), name("send"));
        let error =
            ObservedError { queue: &queue, kind: &kind, job: JobId(job), message, at: at(second) };
        table.record(&error, || Some("1.2".to_owned()));
    }

    #[test]
    fn errors_that_differ_in_numbers_are_one_group_with_its_newest_example() {
        let table = ErrorTable::new(at(0));
        add(&table, ("mail", "timeout after 30s"), 1, 1);
        add(&table, ("mail", "timeout after 5s"), 2, 3);
        // Reported late: the example stays.
        add(&table, ("mail", "timeout after 7s"), 3, 2);
        add(&table, ("sms", "timeout after 9s"), 4, 2);
        add(&table, ("mail", "refused"), 5, 9);
        let mut groups = table.select(|_, _| true);
        groups.sort_by_key(|group| group.places.len());
        assert_eq!(groups.len(), 2);
        let first = groups.last().and_then(|group| group.places.first());
        let (queue, _, place) = first.expect("a place");
        assert_eq!((queue.as_str(), place.count, place.job), ("mail", 3, JobId(2)));
        assert_eq!((&*place.message, place.first_at), ("timeout after 5s", at(1)));
        assert_eq!(place.versions.iter().map(|it| &**it).collect::<Vec<_>>(), ["1.2"]);
        let only_sms = table.select(|queue, _| queue.as_str() == "sms");
        assert_eq!(only_sms.len(), 1);
        let places = only_sms.iter().map(|group| group.places.len()).sum::<usize>();
        assert_eq!(places, 1, "places of other queues are left out");
    }

    #[test]
    fn the_table_is_bounded_and_the_oldest_are_dropped() {
        let table = ErrorTable::new(at(0));
        let word = |n: u64| -> String {
            // Digits are not part of a fingerprint.
            n.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
        };
        for n in 0..3_000 {
            add(&table, ("mail", &format!("error {}", word(n))), n + 1, n);
        }
        let groups = table.select(|_, _| true);
        assert!((900..=MAX_GROUPS).contains(&groups.len()), "{}", groups.len());
        let newest = Fingerprint::of(&format!("error {}", word(2_999)));
        assert!(table.get(newest, |_, _| true).is_some());
        let oldest = Fingerprint::of(&format!("error {}", word(0)));
        assert!(table.get(oldest, |_, _| true).is_none());
        for n in 0..6_000 {
            add(&table, (&format!("queue-{n}"), "same"), n + 1, 3_000 + n);
        }
        assert!(table.rows().places <= MAX_PLACES);
        let long = "x".repeat(100_000);
        add(&table, ("mail", &long), 1, 10_000);
        let group = table.get(Fingerprint::of(&long), |_, _| true).expect("kept");
        let lengths: Vec<_> = group.places.iter().map(|(.., place)| place.message.len()).collect();
        assert_eq!(lengths, [MAX_MESSAGE]);
    }
}
