//! A crowd of workers with streams that come and go, in order or killed, as who they were or as others. The server is
//! well, and leases are so long that nobody sees one end: what a worker leaves behind has to be given back because its
//! stream is over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crore_core::{Span, Time};
use crore_testkit::history::{Node, Rules};
use crore_testkit::{Dice, Error};
use crore_wire::Format;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use crate::asked::Caller;
use crate::client::Client;
use crate::desk::{Desk, NODE};
use crate::draft::Draft;
use crate::dump::dump;
use crate::harm::{Harm, drain};
use crate::honest::until_ended;
use crate::pause::{instant, pause, wall};
use crate::place::Place;
use crate::run::{Failed, SEGMENT_BYTES, kept, verdict};
use crate::server::{Launch, Server};
use crate::streamed::{Manner, Streamers};
use crate::tally::Tally;
use crate::verdict::{Broken, tolerant};

/// The lease of every job: much longer than anybody waits for its end.
const LEASE: Span = Span::from_secs(600);
/// How long the last jobs may take: a moment, and on a busy machine some more.
const LAST: Duration = Duration::from_secs(30);
/// So many jobs are pushed at once, and then again after a while.
const AT_ONCE: usize = 10;
const EVERY: Duration = Duration::from_millis(20);

/// What is to be tried.
#[derive(Debug, Clone)]
pub struct Crowd {
    /// How many workers there are.
    pub workers: usize,
    /// For how long they come and go.
    pub time: Duration,
    /// Where chance comes from.
    pub seed: u64,
    /// The built server.
    pub server: PathBuf,
    /// Whether the data of a run that fails is kept, with its history.
    pub keep: bool,
}

impl Crowd {
    /// The command that lets the same crowd come and go.
    pub fn command(&self) -> String {
        let Self { workers, time, seed, .. } = self;
        let ms = time.as_millis();
        format!("cargo xtask chaos crowd --workers {workers} --for {ms}ms --seed {seed}")
    }
}

/// Lets workers come and go for a while, and judges what became of the jobs: each has ended, and once.
///
/// # Errors
///
/// [`Failed::Broken`] says which promise was not kept, [`Failed::Here`] that it cannot be tried.
pub fn crowd(plan: &Crowd) -> Result<Tally, Failed> {
    let place = Arc::new(Place::plain()?);
    let epoch = Time::from_millis(wall());
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Failed(format!("no runtime: {error}")))?;
    let desk = Arc::new(Desk::new(Harm::Drain));
    let done = runtime.block_on(come_and_go(plan, &place, &desk));
    drop(runtime);
    let rules = Rules { epoch: Some(epoch), ..tolerant() };
    let judged = match done {
        Ok(()) => verdict(&desk, &rules).and_then(all_done),
        Err(Failed::Broken(broken)) => Err(broken),
        Err(here) => return Err(here),
    };
    judged.map_err(|broken| {
        let broken = if plan.keep { kept(broken, place, &desk) } else { broken };
        Failed::Broken(broken.repeated_by(&plan.command()))
    })
}

async fn come_and_go(plan: &Crowd, place: &Place, desk: &Arc<Desk>) -> Result<(), Failed> {
    let launch = Launch {
        program: plan.server.clone(),
        data: place.data().to_owned(),
        log: place.home().join("server.log"),
        set: vec![format!("store.segment={SEGMENT_BYTES}B"), "listen.drain-for=1s".to_owned()],
        bug: None,
    };
    let server = Server::start(&launch, None).map_err(Failed::broken)?;
    desk.recorder.node(NODE, Node::Opened);
    desk.serves(true);
    let mut dice = Dice(plan.seed);
    let streamers = Streamers::many(plan.workers, desk, &mut dice);
    streamers.behave(Manner::Restless).await;
    let mut workers = JoinSet::new();
    streamers.begin(server.address, &mut workers);
    let client = Client::new(server.address, Format::Json);
    let mut caller = Caller { name: "pusher-0".to_owned(), desk: Arc::clone(desk), client };
    let until = instant() + plan.time;
    while instant() < until {
        let away = |_| Failed::broken("the server went away by itself");
        caller.client.connect().await.map_err(away)?;
        let draft = |_| Draft::patient(&mut dice, desk.next(), LEASE);
        let drafts: Vec<_> = (0..AT_ONCE).map(draft).collect();
        caller.push_all(&drafts).await;
        pause(EVERY).await;
    }
    until_ended(&mut caller, LAST).await.map_err(Failed::broken)?;
    caller.client.hang_up();
    drain(server).await?;
    desk.serves(false);
    while workers.join_next().await.is_some() {}
    desk.recorder.node(NODE, Node::Closed);
    let dumped = dump(place.data(), SEGMENT_BYTES).await;
    let dumped = dumped.map_err(|error| Failed::broken(format!("no look: {error:?}")))?;
    desk.recorder.node(NODE, Node::Dump(dumped));
    Ok(())
}

/// Nothing that workers do on their way costs a job its end.
fn all_done(tally: Tally) -> Result<Tally, Broken> {
    if tally.done == tally.acknowledged && tally.refused == 0 {
        return Ok(tally);
    }
    Err(Broken::plain(format!("not every job is done:\n{tally}")))
}
