//! Workers that are present.

use crore::store::registry::{Entry, Value};
use crore_core::{Code, Invalid, Name, Span};
use crore_wire::api::workers::{SetWorker, Worker};
use crore_wire::words::Moment;
use crore_wire::{Format, Raw};

use crate::{Api, ConnectedWorker, Fault};

/// Default time within which a registered worker has to register again.
const WITHIN: Span = Span::from_secs(60);

impl Api {
    /// The workers that registered themselves, and those that are connected to this server by a stream.
    pub async fn list_workers(&self, format: Format) -> Result<Vec<Worker>, Fault> {
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
        let place = |worker: &Worker| {
            let incarnation = worker.stream.as_ref().map(|stream| stream.incarnation.clone());
            (worker.name.clone(), incarnation)
        };
        all.sort_by_cached_key(place);
        Ok(all)
    }

    /// Registers a worker until it is due to register again.
    pub async fn set_worker(
        &self,
        name: Name,
        ask: SetWorker,
        format: Format,
    ) -> Result<(), Fault> {
        let caps = self.engine().status().caps();
        let within = ask.within.map_or(WITHIN, |within| within.0);
        if within < caps.min_lease || within > caps.max_lease {
            let message = format!("lies outside {:?} to {:?}", caps.min_lease, caps.max_lease);
            return Err(Invalid::new(Code::TimeRange, "within", message).into());
        }
        let about = ask.about.unwrap_or_else(|| Raw::null(format)).convert(Format::Json);
        let says = about.and_then(|about| String::from_utf8(about.bytes().to_vec()).ok());
        let why = "cannot be said in JSON";
        let says = says.ok_or_else(|| Invalid::new(Code::PayloadMalformed, "about", why))?;
        self.engine().workers().set(name, says, within).await?;
        Ok(())
    }

    /// Removes the registration of a worker.
    pub async fn delete_worker(&self, name: Name) -> Result<(), Fault> {
        self.engine().workers().remove(name).await?;
        Ok(())
    }
}

fn registered(format: Format, entry: &Entry) -> Option<Worker> {
    let Value::Worker(says) = &entry.value else { return None };
    // Workers of other doors register any text; what is no JSON is shown as a string.
    let about = Raw::new(Format::Json, says.as_bytes()).convert(format);
    let about = about.unwrap_or_else(|| Raw::new(format, format.encode(&says)));
    let (name, until) = (entry.name.to_string(), entry.expires_at.map(Moment));
    Some(Worker { name, about, until, stream: None })
}
