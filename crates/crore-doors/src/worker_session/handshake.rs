//! The handshake: checks a worker's hello, and responds with the deliveries that the worker keeps.

use std::collections::HashSet;
use std::sync::Arc;

use crore::fetch::Fetch;
use crore::store::jobs::{QueueOrder, Renew, Renewed};
use crore::{Engine, Error};
use crore_api::calls::restrict_fetch;
use crore_api::params::{kind_versions, names};
use crore_api::{Grant, planted};
use crore_core::version::KindVersions;
use crore_core::{Code, Invalid, Job, Name, OwnerId, Span};
use crore_wire::worker::{DeliveryRef, Hello, ServerMessage, Welcome};

use super::incarnation::{Incarnation, Leases};
use super::registry::GRACE_MS;
use super::renewal::renew;
use crate::Doors;

/// Maximum number of slots of one worker.
const MAX_SLOTS: u32 = 10_000;
/// Maximum length of an incarnation.
const MAX_INCARNATION_BYTES: usize = 64;
/// Versions are shown up to this length.
const MAX_VERSION_CHARS: usize = 64;
/// Maximum number of runners of one worker.
const MAX_RUNNERS: usize = 100;
/// Maximum duration of one fetch; the session then fetches again.
const FETCH_WAIT: Span = Span::from_secs(3600);

/// A checked hello.
#[derive(Debug)]
pub(super) struct Profile {
    incarnation: Arc<str>,
    owner: Option<OwnerId>,
    fetch_template: Fetch,
    slots: usize,
    held: Vec<DeliveryRef>,
    version: String,
}

impl Profile {
    pub(super) fn check(hello: Hello, grant: &Grant) -> Result<Self, Invalid> {
        let refused = |code, why: String| Err(Invalid::new(code, "incarnation", why));
        match hello.incarnation.len() {
            0 => return refused(Code::KeyEmpty, "is required: a random string".to_owned()),
            n if n > MAX_INCARNATION_BYTES => {
                let why = format!("{n} bytes, at most {MAX_INCARNATION_BYTES} are allowed");
                return refused(Code::KeyTooLong, why);
            }
            _ => {}
        }
        let slots = slots(hello.slots)?;
        if hello.held.len() > MAX_SLOTS as usize {
            let why = format!("{} at once, at most {MAX_SLOTS} are allowed", hello.held.len());
            return Err(Invalid::new(Code::CountRange, "held", why));
        }
        let mut request = fetch_from_hello(&hello)?;
        restrict_fetch(grant, &mut request)?;
        let version = hello.version.chars().take(MAX_VERSION_CHARS).collect();
        Ok(Self {
            incarnation: hello.incarnation.into(),
            owner: grant.owner(),
            fetch_template: request,
            slots,
            held: hello.held,
            version,
        })
    }

    pub(super) const fn incarnation(&self) -> &Arc<str> {
        &self.incarnation
    }

    /// The token of the worker.
    pub(super) const fn owner(&self) -> Option<OwnerId> {
        self.owner
    }

    /// A fetch of one of its jobs; the template of all its fetches.
    pub(super) const fn fetch_template(&self) -> &Fetch {
        &self.fetch_template
    }

    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }
}

/// Checks a number of slots.
pub(super) fn slots(n: u32) -> Result<usize, Invalid> {
    if n == 0 || n > MAX_SLOTS {
        let why = format!("`{n}` is out of range: 1 to {MAX_SLOTS}");
        return Err(Invalid::new(Code::CountRange, "slots", why));
    }
    Ok(n as usize)
}

/// A fetch of one job, without a wait.
pub(crate) fn fetch_for(
    queues: &[String],
    kinds: &[String],
    strict: bool,
    worker: &str,
) -> Result<Fetch, Invalid> {
    Ok(Fetch {
        queues: names("queues", queues)?,
        kinds: (!kinds.is_empty()).then(|| names("kinds", kinds)).transpose()?,
        versions: KindVersions::default(),
        also: Vec::new(),
        handled: None,
        n: 1,
        order: if strict { QueueOrder::Strict } else { QueueOrder::Merged },
        worker: Name::new("worker", worker)?,
        wait: Span::ZERO,
        within: None,
    })
}

fn fetch_from_hello(hello: &Hello) -> Result<Fetch, Invalid> {
    let Hello { queues, kinds, runners, .. } = hello;
    let worker = if hello.name.is_empty() { &hello.incarnation } else { &hello.name };
    let request = fetch_for(queues, kinds, hello.strict, worker).map_err(|mut invalid| {
        if invalid.field == "worker" {
            invalid.field = "name".to_owned();
        }
        invalid
    })?;
    if hello.runs_handlers && !kinds.is_empty() {
        let why = "must be empty if `runs_handlers` is set";
        return Err(Invalid::new(Code::Malformed, "kinds", why));
    }
    if runners.len() > MAX_RUNNERS {
        let why = format!("{} at once, at most {MAX_RUNNERS} are allowed", runners.len());
        return Err(Invalid::new(Code::CountRange, "runners", why));
    }
    let handled = hello.runs_handlers.then(|| names("runners", runners)).transpose()?;
    let versions = kind_versions(&hello.versions, request.kinds.as_deref())?;
    Ok(Fetch { wait: FETCH_WAIT, handled, versions, ..request })
}

/// A registered worker, and the response to its hello.
pub(super) struct CompletedHandshake {
    pub(super) profile: Profile,
    pub(super) incarnation: Arc<Incarnation>,
    pub(super) response: ServerMessage,
}

/// Registers a worker with the deliveries it keeps.
pub(super) async fn register_worker(
    doors: Doors,
    grant: Grant,
    profile: Profile,
) -> Result<CompletedHandshake, Error> {
    let engine = doors.engine();
    let (held, foreign) = covered(engine, &grant, &profile.held).await?;
    let incarnation = Arc::new(Incarnation::new(&profile, engine.status().now()));
    doors.sessions().register(&incarnation);
    doors.api().worker_connected(incarnation.worker(), &incarnation.shown());
    let mut response = reconcile_leases(engine, &incarnation, &held).await;
    if let Ok(message) = &mut response {
        message.lost.extend(foreign);
    }
    if response.is_err() {
        doors.sessions().disconnect(engine.clone(), Arc::clone(&incarnation));
    }
    Ok(CompletedHandshake { profile, incarnation, response: response? })
}

/// Splits deliveries that a worker claims to hold into those of jobs within its restriction, and others.
async fn covered(
    engine: &Engine,
    grant: &Grant,
    held: &[DeliveryRef],
) -> Result<(Vec<DeliveryRef>, Vec<DeliveryRef>), Error> {
    if grant.only().is_none() || held.is_empty() {
        return Ok((held.to_vec(), Vec::new()));
    }
    let which = held.iter().map(|held| held.id.into()).collect();
    let jobs = engine.jobs().get_all(which).await?;
    let is_covered =
        |job: &Option<Job>| job.as_ref().is_some_and(|job| grant.covers_job(&job.spec));
    let (covered, foreign): (Vec<_>, Vec<_>) =
        held.iter().zip(jobs).partition(|(_, job)| is_covered(job));
    let refs = |some: Vec<(&DeliveryRef, Option<Job>)>| -> Vec<DeliveryRef> {
        some.into_iter().map(|(held, _)| *held).collect()
    };
    Ok((refs(covered), refs(foreign)))
}

/// Decides which deliveries a worker keeps, and which it has lost. Deliveries that it held before and does not name
/// go to other workers.
async fn reconcile_leases(
    engine: &Engine,
    incarnation: &Incarnation,
    held: &[DeliveryRef],
) -> Result<ServerMessage, Error> {
    let lease = |held: &DeliveryRef| Renew { id: held.id, delivery: held.delivery, span: None };
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    let mut leases = Leases::default();
    for (lease, renewed) in renew(engine.clone(), held.iter().map(lease).collect()).await? {
        let held = DeliveryRef { id: lease.id, delivery: lease.delivery };
        match renewed {
            Renewed::Until { until, .. } => {
                leases.insert(held, until.since(engine.status().now()));
                kept.push(held);
            }
            Renewed::Stale if planted!("bug-34") => {
                leases.insert(held, Span::from_secs(30));
                kept.push(held);
            }
            Renewed::Stale => lost.push(held),
        }
    }
    let jobs: HashSet<_> = leases.iter().map(|(held, _)| held.id).collect();
    let before = incarnation.replace_leases(leases).into_leases().map(|(held, _)| held);
    let forgotten: Vec<_> = before.filter(|held| !jobs.contains(&held.id)).collect();
    if !forgotten.is_empty() {
        engine
            .deliveries()
            .lapse(forgotten.into_iter().map(|held| (held.id, held.delivery)).collect())
            .await?;
    }
    let store = engine.status().store_id().to_string();
    let welcome = Some(Welcome { kept, grace_ms: GRACE_MS, store });
    Ok(ServerMessage { welcome, lost, ..ServerMessage::default() })
}
