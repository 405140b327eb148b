//! Registered and connected workers.

use crore::store::registry::{RegistryEntry, RegistryValue};
use crore_core::{Code, Invalid, Name, Restriction, Span};
use crore_wire::api::workers::{SetWorker, Worker};
use crore_wire::units::Moment;
use crore_wire::{Format, Raw};

use crate::{Api, ConnectedWorker, Fault, Grant, WorkerRequest};

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
        let connected = connected.map(|worker| shown(worker, format));
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

    /// Passes a request to the connected workers with this name or incarnation, and returns them. A restricted caller
    /// reaches those whose queues and kinds are all within its restriction.
    pub async fn request_worker(
        &self,
        grant: &Grant,
        name: &Name,
        request: WorkerRequest,
        format: Format,
    ) -> Result<Vec<Worker>, Fault> {
        let of_name = |worker: &ConnectedWorker| {
            worker.name == name.as_str() || worker.stream.incarnation == name.as_str()
        };
        let sees = |worker: &Worker| grant.only().is_none_or(|only| is_within(only, worker));
        let found = || {
            let all = self.connected_workers().list().into_iter().filter(of_name);
            all.filter(|worker| worker.until.is_none())
        };
        let mut incarnations = Vec::new();
        for worker in found() {
            check_request(&worker, request)?;
            let incarnation = worker.stream.incarnation.clone();
            if sees(&shown(worker, format)) {
                incarnations.push(incarnation);
            }
        }
        if incarnations.is_empty() {
            return Err(self.not_connected(name).await?);
        }
        for incarnation in &incarnations {
            self.connected_workers().request(incarnation, request);
        }
        let changed = found().filter(|worker| incarnations.contains(&worker.stream.incarnation));
        Ok(changed.map(|worker| shown(worker, format)).collect())
    }

    /// Why a worker cannot be asked for anything.
    async fn not_connected(&self, name: &Name) -> Result<Fault, Fault> {
        let entries = self.engine().workers().list().await?;
        if !entries.iter().any(|entry| entry.name == *name) {
            return Ok(Fault::missing(format!("worker `{name}`")));
        }
        let why = format!(
            "worker `{name}` has no stream to this server, so it cannot be asked for anything; pause its queues instead"
        );
        Ok(Fault::new(Code::Refused, why))
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

fn shown(worker: ConnectedWorker, format: Format) -> Worker {
    let ConnectedWorker { name, stream, until, .. } = worker;
    Worker { name, about: Raw::null(format), until: until.map(Moment), stream: Some(stream) }
}

/// Refuses a request that the worker cannot follow.
fn check_request(worker: &ConnectedWorker, request: WorkerRequest) -> Result<(), Fault> {
    let why = match request {
        WorkerRequest::Stop if worker.is_local => {
            "runs in the process of the server: make it quiet instead, or stop the server"
        }
        WorkerRequest::Resume if worker.stream.stopping => "was asked to stop and will exit",
        WorkerRequest::Quiet | WorkerRequest::Resume | WorkerRequest::Stop => return Ok(()),
    };
    Err(Fault::new(Code::Refused, format!("worker `{}` {why}", worker.name)))
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
