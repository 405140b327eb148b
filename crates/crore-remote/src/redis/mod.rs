//! The Redis store: one Redis, or a Redis Cluster. Redis 7 or later.
//!
//! **Shards.** A job lives in one of a fixed number of shards, each with a hash tag and so a slot of
//! its own; its id names the shard. Each verb is one Lua script for every shard that it touches, and
//! a script touches one slot only. A job with a unique key or a client id lives in the shard of that
//! key, so that checking the key and writing the job are one script; others live in the home of
//! their batch: the shard of its first job's key, group or queue.
//!
//! **Several shards at once.** A push whose keys, groups or dependencies lie in several shards first
//! holds the locks and asks how things stand (one script a shard), then commits in its home: that
//! script writes the home's part and, as messages in its outbox, all the rest. From then on the push
//! has happened; the messages are delivered before it is answered, or, after a crash, by whoever
//! next meets them or calls [`Redis::deliver_outbox`]. Effects of a change on other shards go the
//! same way. A message is numbered by its sender's clock, and the receiver takes only numbers above
//! the last that it took: exactly once, however often it is sent.
//!
//! **Permits** stand in ledgers, a slot for each bucket: reserved before the claim, returned after
//! the end of the delivery. Should permits run short, those that stand for long are looked up in the
//! shard of their job, and dropped if no delivery holds them.
//!
//! **Order** is exact within a shard. Over several shards a claim looks at the best of each and then
//! takes up to the last of the best: exact as long as nothing else moves meanwhile.
//!
//! **Time** is each node's own unless a clock is given; nodes should agree to within some seconds.
//! A slot's clock (deliveries, messages) is never behind the time, so numbers are not used again even
//! if Redis forgets its last second. Ids of jobs are counted: if Redis forgets a push, its id is
//! given again, to another job.
//!
//! **Durability** is what Redis is set to: with `appendfsync always` an answer means that it is on
//! disk; with `everysec` a power cut may take the last second.

mod apply;
mod claim;
mod lease;
mod link;
mod names;
mod outbox;
mod pack;
mod permits;
mod plan;
mod push;
mod record;
mod registry;
mod reply;
mod rules;
mod together;
mod verbs;
mod wide;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crore_core::Clock;
use crore_core::job::{DEFAULT_LEASE, MAX_HISTORY};
use crore_store::Error;

use link::{Link, Script};
use names::{Layout, Slot};
use pack::{Arg, map};
use permits::Known;
use reply::Reply;

/// The most shards: deliveries stay below 2⁶³ with as many.
pub const MAX_SHARDS: usize = 1024;

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// What all keys begin with; stores with different prefixes do not see each other.
    pub prefix: String,
    /// In how many shards jobs are kept. The first to open a prefix settles it for good; 1 is right
    /// for a single Redis, some for every node for a Cluster that may grow.
    pub shards: usize,
    /// Where "now" comes from; `None`: from Redis.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for Options {
    fn default() -> Self {
        Self { prefix: "crore".to_owned(), shards: 1, clock: None }
    }
}

#[derive(Debug)]
struct Scripts {
    shard: Script,
    claim: Script,
    renew: Script,
    get: Script,
    holders: Script,
    ledger: Script,
}

impl Scripts {
    fn new() -> Result<Self, Error> {
        let prelude = include_str!("lua/prelude.lua");
        let script = |body| Script::new(&[prelude, body]);
        Ok(Self {
            shard: Script::new(&[prelude, &rules::tables()?, include_str!("lua/shard.lua")]),
            claim: script(include_str!("lua/claim.lua")),
            renew: script(include_str!("lua/renew.lua")),
            get: script(include_str!("lua/get.lua")),
            holders: script(include_str!("lua/holders.lua")),
            ledger: script(include_str!("lua/ledger.lua")),
        })
    }
}

/// A store in Redis.
#[derive(Debug)]
pub struct Redis {
    link: Link,
    layout: Layout,
    clock: Option<Arc<dyn Clock>>,
    scripts: Scripts,
    /// Makes tokens of this store's pushes and permits unlike any other's.
    name: String,
    tokens: AtomicU64,
    limits: std::sync::Mutex<Known>,
    halted: AtomicBool,
}

/// What a script of a shard answers.
struct Ran {
    now: i64,
    /// Whether there are messages for other slots.
    dirty: bool,
    answers: Vec<Reply>,
}

impl Redis {
    /// Opens a store in one Redis, at `redis://host:port/db`.
    pub async fn open(url: &str, options: Options) -> Result<Self, Error> {
        Self::start(Link::one(url)?, options).await
    }

    /// Opens a store in a Redis Cluster, of which some nodes are known as `redis://host:port`.
    pub async fn open_cluster(nodes: &[String], options: Options) -> Result<Self, Error> {
        Self::start(Link::cluster(nodes).await?, options).await
    }

    async fn start(link: Link, options: Options) -> Result<Self, Error> {
        let shards = options.shards.clamp(1, MAX_SHARDS);
        let mut store = Self {
            link,
            layout: Layout::new(&options.prefix, shards),
            clock: options.clock,
            scripts: Scripts::new()?,
            name: String::new(),
            tokens: AtomicU64::new(0),
            limits: std::sync::Mutex::default(),
            halted: AtomicBool::new(false),
        };
        let open = map! { "op" => "open", "shards" => shards };
        let answer = store.run_one(store.layout.registry(), open).await?.0;
        let [settled, name] = answer.parts()?;
        store.name = name.text()?;
        let settled = usize::try_from(settled.number()?).unwrap_or(shards).clamp(1, MAX_SHARDS);
        store.layout = Layout::new(&options.prefix, settled);
        store.deliver_outbox().await?;
        Ok(store)
    }

    /// In how many shards jobs are kept.
    pub const fn shards(&self) -> usize {
        self.layout.shards
    }

    /// For tests of what a crash leaves behind: from now on this store stops after a commit and
    /// before the messages to other shards.
    #[doc(hidden)]
    pub fn halt_before_delivery(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    fn token(&self) -> String {
        format!("{}-{}", self.name, self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs a script in a slot, with what every script is told.
    async fn eval(
        &self,
        script: &Script,
        tag: &str,
        slot: Slot,
        args: Arg,
    ) -> Result<Reply, Error> {
        let now = self.clock.as_ref().map(|clock| clock.now().as_millis());
        let mut args = args;
        if let Arg::Map(fields) = &mut args {
            fields.push(("slot", slot.into()));
            fields.push(("shards", self.layout.shards.into()));
            fields.extend(now.map(|now| ("now", now.into())));
            fields.push(("max_history", MAX_HISTORY.into()));
            fields.push(("default_lease", DEFAULT_LEASE.as_millis().into()));
        }
        self.link.eval(script, tag, &args.to_bytes()).await
    }

    async fn in_slot(&self, script: &Script, slot: Slot, args: Arg) -> Result<Reply, Error> {
        self.eval(script, &self.layout.tag(slot), slot, args).await
    }

    /// Runs operations in a slot, in order, as one script.
    async fn run(&self, slot: Slot, ops: Vec<Arg>) -> Result<Ran, Error> {
        let reply =
            self.in_slot(&self.scripts.shard, slot, map! { "ops" => Arg::List(ops) }).await?;
        let [now, dirty, answers] = reply.parts()?;
        Ok(Ran { now: now.number()?, dirty: dirty.number()? == 1, answers: answers.list()? })
    }

    /// Runs one operation; gives its answer, and whether there are messages for other slots.
    async fn run_one(&self, slot: Slot, op: Arg) -> Result<(Reply, bool), Error> {
        let ran = self.run(slot, vec![op]).await?;
        let answer = ran.answers.into_iter().next().unwrap_or(Reply(redis::Value::Nil));
        Ok((answer, ran.dirty))
    }
}
