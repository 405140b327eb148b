//! Groups of errors.

use std::collections::BTreeSet;

use crore_core::filter::Fingerprint;
use crore_core::{Code, Invalid, Name, Time};
use crore_wire::api::errors::{ErrorGroup, ErrorGroups, ErrorPlace, ErrorsQuery};
use crore_wire::units::Moment;

use super::jobs::filter_names;
use crate::errors::{PlaceErrors, SelectedGroup};
use crate::{Api, Fault, Grant};

/// Default number of groups, and its maximum.
const DEFAULT_GROUPS: usize = 100;
const MAX_GROUPS: usize = 1000;
/// Maximum number of places and versions of a group.
const MAX_PLACES: usize = 20;
const MAX_VERSIONS: usize = 8;

impl Api {
    /// Groups of errors of jobs that the caller may see, the one with the newest error first.
    pub fn list_errors(&self, grant: &Grant, which: &ErrorsQuery) -> Result<ErrorGroups, Fault> {
        let (queue, kind) = filter_names(grant, which.queue.as_deref(), which.kind.as_deref())?;
        let limit = page_size(which.limit, DEFAULT_GROUPS, MAX_GROUPS)?;
        let is_meant = |of_queue: &Name, of_kind: &Name| {
            queue.as_ref().is_none_or(|queue| queue == of_queue)
                && kind.as_ref().is_none_or(|kind| kind == of_kind)
                && grant.covers(of_queue, of_kind)
        };
        let now = self.engine().status().now();
        let selected = self.errors().select(is_meant).into_iter();
        let mut groups: Vec<_> = selected.map(|group| shown(group, now)).collect();
        if let Some(since) = which.since {
            groups.retain(|group| group.last_at >= since);
        }
        groups.sort_unstable_by(|a, b| {
            b.last_at.cmp(&a.last_at).then_with(|| a.fingerprint.cmp(&b.fingerprint))
        });
        let total = groups.len();
        groups.truncate(limit);
        Ok(ErrorGroups { groups, total, filling: self.errors().is_filling() })
    }

    /// A group of errors, as far as the caller may see its jobs.
    pub fn get_error(&self, grant: &Grant, fingerprint: &str) -> Result<ErrorGroup, Fault> {
        let missing = || Fault::missing("this group of errors");
        let fingerprint: Fingerprint = fingerprint.parse().map_err(|_| missing())?;
        let covers = |queue: &Name, kind: &Name| grant.covers(queue, kind);
        let group = self.errors().get(fingerprint, covers).ok_or_else(missing)?;
        Ok(shown(group, self.engine().status().now()))
    }
}

/// The checked size of a page.
pub(super) fn page_size(limit: Option<usize>, usual: usize, max: usize) -> Result<usize, Invalid> {
    match limit {
        None => Ok(usual),
        Some(n) if (1..=max).contains(&n) => Ok(n),
        Some(n) => {
            let message = format!("`{n}` is out of range: 1 to {max}");
            Err(Invalid::new(Code::CountRange, "limit", message))
        }
    }
}

fn shown(group: SelectedGroup, now: Time) -> ErrorGroup {
    let SelectedGroup { fingerprint, mut places } = group;
    places.sort_by_key(|(.., place)| std::cmp::Reverse(place.last_at));
    let (mut per_minute, mut per_hour) = (vec![0; 60], vec![0; 24]);
    let mut versions = BTreeSet::new();
    for (.., place) in &places {
        place.minutes.add_to(&mut per_minute, now);
        place.hours.add_to(&mut per_hour, now);
        versions.extend(place.versions.iter().map(ToString::to_string));
    }
    let all = || places.iter().map(|(.., place)| place);
    let newest = all().next();
    ErrorGroup {
        fingerprint: fingerprint.to_string(),
        count: all().map(|place| place.count).sum(),
        first_at: Moment(all().map(|place| place.first_at).min().unwrap_or(now)),
        last_at: Moment(newest.map_or(now, |place| place.last_at)),
        message: newest.map(|place| place.message.to_string()).unwrap_or_default(),
        job: newest.map_or(crore_core::JobId(1), |place| place.job).into(),
        place_count: places.len(),
        places: places.iter().take(MAX_PLACES).map(shown_place).collect(),
        versions: versions.into_iter().take(MAX_VERSIONS).collect(),
        per_minute,
        per_hour,
    }
}

fn shown_place((queue, kind, place): &(Name, Name, PlaceErrors)) -> ErrorPlace {
    ErrorPlace {
        queue: queue.to_string(),
        kind: kind.to_string(),
        count: place.count,
        last_at: Moment(place.last_at),
        job: place.job.into(),
    }
}
