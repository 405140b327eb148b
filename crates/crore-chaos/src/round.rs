//! One round: a server is started, used by many, harmed, and ended.

use std::sync::Arc;
use std::time::Duration;

use crore_testkit::Dice;
use crore_testkit::history::op::{Entry, Meaning};
use crore_testkit::history::{Answer, Fault, Node, Op};
use crore_wire::Format;
use crore_wire::api::limits::{Limit, SetLimit};
use tokio::task::JoinSet;

use crate::asked::Caller;
use crate::client::{Ask, Client, Heard};
use crate::clock::Clock;
use crate::desk::{Desk, NODE};
use crate::draft::{LIMIT, POSTED, name};
use crate::harm::{Harm, Hurt, drain};
use crate::honest::{forgotten, settle};
use crate::pause::pause;
use crate::place::Place;
use crate::posted::Crew;
use crate::pusher::push_on;
use crate::run::Failed;
use crate::server::{Launch, Server};
use crate::streamed::{Manner, Streamers};
use crate::worker::work_on;

/// How many push and meddle.
const PUSHERS: usize = 5;
/// How many work.
const WORKERS: usize = 5;

/// So many calls are answered before a server is harmed, at most.
const ANSWERS: u64 = 100;
/// A server that is not used enough by then is harmed anyway.
const AT_MOST: Duration = Duration::from_millis(500);

/// One directory, and everything that happens to it.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) harm: Harm,
    pub(crate) dice: Dice,
    pub(crate) desk: Arc<Desk>,
    pub(crate) place: Arc<Place>,
    pub(crate) clock: Option<Clock>,
    pub(crate) launch: Launch,
    pub(crate) crew: Crew,
    pub(crate) streamers: Streamers,
    pub(crate) is_full: bool,
    /// Whether the limit is known to be there.
    pub(crate) is_limited: bool,
}

impl Stage {
    /// A round.
    pub(crate) async fn round(&mut self) -> Result<(), Failed> {
        if self.harm.may_come_early() && self.dice.percent(8) {
            return self.nipped().await;
        }
        self.crew.begin()?;
        let server = self.start()?;
        self.limits(&server).await?;
        let mut callers = self.callers(&server);
        self.load().await;
        let hurt = self.hurt(server).await?;
        self.desk.serves(false);
        while let Some(ended) = callers.join_next().await {
            ended.map_err(|error| Failed::broken(format!("a caller fell over: {error}")))?;
        }
        self.crew.end().await;
        self.write_down(&hurt)?;
        Ok(())
    }

    /// Lets callers work: until a number of calls is answered, so that a busy machine does no less, and
    /// then a moment more, so that harm finds others under way.
    pub(crate) async fn load(&mut self) {
        let answers = self.dice.below(ANSWERS);
        self.desk.until_heard(answers, AT_MOST).await;
        pause(Duration::from_micros(self.dice.below(4_000))).await;
    }

    /// Some servers do not live to see their store open.
    async fn nipped(&mut self) -> Result<(), Failed> {
        self.crew.begin()?;
        let mut child = self.launch.spawn(self.clock.as_ref()).map_err(Failed::broken)?;
        pause(Duration::from_millis(self.dice.below(25))).await;
        let hurt = if self.harm == Harm::Kill {
            Hurt::Killed
        } else {
            self.place.cut()?;
            Hurt::Cut
        };
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        self.crew.end().await;
        self.write_down(&hurt)?;
        Ok(())
    }

    fn start(&self) -> Result<Server, Failed> {
        let server = Server::start(&self.launch, self.clock.as_ref()).map_err(Failed::broken)?;
        self.desk.recorder.node(NODE, Node::Opened);
        self.desk.serves(true);
        Ok(server)
    }

    fn callers(&mut self, server: &Server) -> JoinSet<()> {
        let mut callers = JoinSet::new();
        for n in 0..PUSHERS {
            callers.spawn(push_on(self.caller(server, "pusher", n), self.dice.another()));
        }
        for n in 0..WORKERS {
            callers.spawn(work_on(self.caller(server, "worker", n), self.dice.another()));
        }
        self.speak(server, &mut callers);
        self.streamers.begin(server.address, &mut callers);
        callers
    }

    fn speak(&mut self, server: &Server, callers: &mut JoinSet<()>) {
        let mut dice = self.dice.another();
        let caller = |name: &str| {
            let client = Client::new(server.address, Format::Msgpack);
            Caller { name: name.to_owned(), desk: Arc::clone(&self.desk), client }
        };
        self.crew.speak(caller, &mut dice, callers);
    }

    fn caller(&self, server: &Server, what: &str, n: usize) -> Caller {
        let format = if n.is_multiple_of(2) { Format::Json } else { Format::Msgpack };
        let client = Client::new(server.address, format);
        Caller { name: format!("{what}-{n}"), desk: Arc::clone(&self.desk), client }
    }

    /// Sets the limits, until that was answered.
    async fn limits(&mut self, server: &Server) -> Result<(), Failed> {
        if self.is_limited {
            return Ok(());
        }
        let mut caller = self.caller(server, "operator", 0);
        let away = |_| Failed::broken("a server that listens cannot be reached");
        caller.client.connect().await.map_err(away)?;
        for limit in [LIMIT, POSTED] {
            self.limit(&mut caller, limit).await?;
        }
        self.is_limited = true;
        Ok(())
    }

    async fn limit(
        &self,
        caller: &mut Caller,
        (limit, text, concurrency): (&str, &str, u32),
    ) -> Result<(), Failed> {
        let to = Meaning::Limit { concurrency: Some(concurrency), rate: None };
        let entry = Entry { name: name(limit), to, expires_after: None };
        let op = Op::Define { entries: vec![entry] };
        let call = self.desk.recorder.invoke(caller.name.as_str(), op);
        let set = SetLimit { limit: text.to_owned() };
        let path = format!("/v1/limits/{limit}");
        let ask = Ask { method: "PUT", ..Ask::post(&path, caller.client.format, &set) };
        match caller.client.call::<Limit>(&ask).await {
            Heard::Yes(_) => self.desk.recorder.ok(call, None, Answer::Defined(vec![true])),
            other => return Err(Failed::broken(format!("no limit can be set: {other:?}"))),
        }
        Ok(())
    }

    /// The end of a run: the machine is mended, every job is brought to its end, and the server stops.
    pub(crate) async fn settle(&mut self) -> Result<(), Failed> {
        if std::mem::take(&mut self.is_full) {
            self.desk.recorder.fault(NODE, Fault::DiskFreed);
            self.place.free()?;
        }
        let behind = self.clock.as_ref().map_or(0, Clock::behind);
        if behind > 0 {
            self.set_clock(behind)?;
        }
        self.crew.reform();
        self.streamers.behave(Manner::Well).await;
        self.crew.begin()?;
        let server = self.start()?;
        let mut workers = JoinSet::new();
        self.speak(&server, &mut workers);
        self.streamers.begin(server.address, &mut workers);
        let mut caller = self.caller(&server, "honest", 0);
        let forgotten = forgotten(&mut caller, &self.crew.known()).await.map_err(Failed::broken)?;
        if !forgotten.is_empty() {
            self.desk.wrong(format!("push workers are forgotten: {forgotten:?}"));
            self.crew.forget(&forgotten);
        }
        settle(&mut caller).await.map_err(Failed::broken)?;
        caller.client.hang_up();
        let hurt = drain(server).await?;
        self.desk.serves(false);
        while workers.join_next().await.is_some() {}
        self.crew.end().await;
        Ok(self.write_down(&hurt)?)
    }
}
