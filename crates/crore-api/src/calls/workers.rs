//! Registered and connected workers.

use crore::store::registry::{RegistryEntry, RegistryValue};
use crore_core::{Code, Invalid, Name, Restriction, Span};
use crore_wire::api::workers::{SetWorker, Worker};
use crore_wire::units::Moment;
use crore_wire::{Format, Raw};

use crate::{Api, ConnectedWorker, Fault, Grant};

/// How an error names registered workers: the server posts jobs of any kind to some of them.
const REGISTERED: &str = "registered workers";

/// Default time until a registered worker has to register again.
const DEFAULT_TTL: Span = Span::from_secs(60);

impl Api {
    /// The workers that registered themselves, and those that are connected to this server by a stream. A restricted
    /// caller sees the connected ones whose queues and kinds are all within its restriction.
    pub async fn list_workers(&self, grant: &Grant, format: Format) -> Result<Vec<Worker>, Fault> {
        let entries = self.engine().workers().list().await?;
        let connected = self.connected_workers().list().into_iter();
        let connected = connected.map(|ConnectedWorker { name, stream, until }| Worker {
            name,
            about: Raw::null(format),
            until: until.map(Moment),
            stream: Some(stream),
        });
        let mut all: Vec<_> =
            entries.iter().filter_map(|entry| registered(format, entry)).collect();
        all.extend(connected);
        if let Some(only) = grant.only() {
            all.retain(|worker| is_within(only, worker));
        }
        let sort_key = |worker: &Worker| {
            let incarnation = worker.stream.as_ref().map(|stream| stream.incarnation.clone());
            (worker.name.clone(), incarnation)
        };
        all.sort_by_cached_key(sort_key);
        Ok(all)
    }

    /// Registers a worker for the requested time; it has to register again before that is over.
    pub async fn set_worker(
        &self,
        grant: &Grant,
        name: Name,
        request: SetWorker,
        format: Format,
    ) -> Result<(), Fault> {
        grant.check_unrestricted(REGISTERED)?;
        let caps = self.engine().status().caps();
        let within = request.within.map_or(DEFAULT_TTL, |within| within.0);
        if within < caps.min_lease || within > caps.max_lease {
            let message = format!("is not between {} and {}", caps.min_lease, caps.max_lease);
            return Err(Invalid::new(Code::TimeRange, "within", message).into());
        }
        let about = request.about.unwrap_or_else(|| Raw::null(format)).convert(Format::Json);
        let text = about.and_then(|about| String::from_utf8(about.bytes().to_vec()).ok());
        let why = "cannot be converted to JSON";
        let text = text.ok_or_else(|| Invalid::new(Code::PayloadMalformed, "about", why))?;
        self.engine().workers().set(name, text, within).await?;
        Ok(())
    }

    /// Removes the registration of a worker.
    pub async fn delete_worker(&self, grant: &Grant, name: Name) -> Result<(), Fault> {
        grant.check_unrestricted(REGISTERED)?;
        self.engine().workers().remove(name).await?;
        Ok(())
    }
}

/// Whether a worker is connected, and fetches from covered queues and of covered kinds only.
fn is_within(only: &Restriction, worker: &Worker) -> bool {
    let covers = |texts: &[String], is_covered: &dyn Fn(&Name) -> bool| {
        let covers = |text: &String| Name::new("name", text).is_ok_and(|name| is_covered(&name));
        texts.iter().all(covers)
    };
    worker.stream.as_ref().is_some_and(|stream| {
        let takes_any_kind = stream.kinds.is_empty() && !only.kinds().is_empty();
        !takes_any_kind
            && covers(&stream.queues, &|queue| only.covers_queue(queue))
            && covers(&stream.kinds, &|kind| only.covers_kind(kind))
    })
}

fn registered(format: Format, entry: &RegistryEntry) -> Option<Worker> {
    let RegistryValue::Worker(text) = &entry.value else { return None };
    // Other doors may register any text; one that is not JSON is shown as a string.
    let about = Raw::new(Format::Json, text.as_bytes()).convert(format);
    let about = about.unwrap_or_else(|| Raw::new(format, format.encode(&text)));
    let (name, until) = (entry.name.to_string(), entry.expires_at.map(Moment));
    Some(Worker { name, about, until, stream: None })
}
