//! The Redis store, on a single Redis or a Redis Cluster. Redis 7 or later.
//!
//! **Shards.** A job lives in one of a fixed number of shards, each with its own hash tag and so its own
//! slot; the id determines the shard. Each operation is one Lua script per shard that it touches, and a
//! script touches one slot only. A job with a unique key or a client id lives in the shard of that key, so
//! that one script checks the key and writes the job. Other jobs live in the home of their batch: the shard
//! of its first job's key, group or queue.
//!
//! **Several shards.** A push whose keys, groups or dependencies are in several shards first takes the locks
//! and reads the states (one script per shard), then commits in its home: that script writes the home's part
//! and puts the rest into its outbox as messages. From then on the push is committed. The messages are
//! delivered before the push returns or, after a crash, by the next operation that finds them or by
//! [`Redis::deliver_outbox`]. Effects of a change on other shards work the same way. The sender's clock
//! numbers the messages, and a receiver accepts only numbers above the last that it accepted, so each message
//! is applied exactly once, however often it is sent.
//!
//! **Permits** are in ledgers, one slot per bucket: reserved before a claim, returned after the end of the
//! delivery. If permits run short, the store asks all shards about old permits and drops those that no
//! delivery holds.
//!
//! **Order** is exact within a shard. Across shards, a claim reads the first jobs of each, merges them, and
//! then takes from each shard its part of the merged list, which is exact if nothing changes in between.
//!
//! **Time** is each node's own unless a clock is given; nodes should agree to within a few seconds. A slot's
//! clock (deliveries, messages) is never behind the time, so its numbers are not reused even if Redis loses
//! its last second. Job ids are counters: if Redis loses a push, its id is assigned again, to another job.
//!
//! **Durability** depends on the configuration of Redis: with `appendfsync always` an acknowledged write is
//! on disk; with `everysec` a power cut may lose the last second.

mod apply;
mod claim;
mod connection;
mod join_all;
mod lease;
mod multi_slot;
mod names;
mod operations;
mod outbox;
mod pack;
mod permits;
mod plan;
mod push;
mod record;
mod registry;
mod reply;
mod rules;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crore_core::Clock;
use crore_core::job::{DEFAULT_LEASE, MAX_HISTORY};
use crore_store::Error;

use connection::{LuaScript, RedisConnection};
use names::{Layout, SlotIndex};
use pack::{Arg, map};
use permits::LimitRuleCache;
use reply::ScriptReply;

/// Maximum number of shards; it keeps delivery numbers below 2⁶³.
pub const MAX_SHARDS: usize = 1024;

/// How to open a store.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    /// Prefix of all keys. Stores with different prefixes are independent.
    pub prefix: String,
    /// Number of shards. The first store that opens a prefix fixes it permanently. Use 1 for a single Redis,
    /// and a few per node for a Cluster that may grow.
    pub shards: usize,
    /// The source of "now"; `None` uses the clock of Redis.
    pub clock: Option<Arc<dyn Clock>>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self { prefix: "crore".to_owned(), shards: 1, clock: None }
    }
}

#[derive(Debug)]
struct Scripts {
    shard: LuaScript,
    claim: LuaScript,
    renew: LuaScript,
    get: LuaScript,
    holders: LuaScript,
    ledger: LuaScript,
}

impl Scripts {
    fn new() -> Result<Self, Error> {
        let prelude = include_str!("lua/prelude.lua");
        let script = |body| LuaScript::new(&[prelude, body]);
        Ok(Self {
            shard: LuaScript::new(&[prelude, &rules::tables()?, include_str!("lua/shard.lua")]),
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
    connection: RedisConnection,
    layout: Layout,
    clock: Option<Arc<dyn Clock>>,
    scripts: Scripts,
    /// Makes the tokens of this store's pushes and permits unique.
    name: String,
    tokens: AtomicU64,
    limits: std::sync::Mutex<LimitRuleCache>,
    halted: AtomicBool,
}

/// The reply of a shard script.
struct ScriptRun {
    now: i64,
    /// Whether there are messages for other slots.
    dirty: bool,
    replies: Vec<ScriptReply>,
}

impl Redis {
    /// Opens a store in a single Redis, at `redis://host:port/db`.
    pub async fn open(url: &str, options: RedisOptions) -> Result<Self, Error> {
        Self::start(RedisConnection::single(url)?, options).await
    }

    /// Opens a store in a Redis Cluster, given some of its nodes as `redis://host:port`.
    pub async fn open_cluster(nodes: &[String], options: RedisOptions) -> Result<Self, Error> {
        Self::start(RedisConnection::cluster(nodes).await?, options).await
    }

    async fn start(connection: RedisConnection, options: RedisOptions) -> Result<Self, Error> {
        let shards = options.shards.clamp(1, MAX_SHARDS);
        let mut store = Self {
            connection,
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
        let [stored_shards, name] = answer.parts()?;
        store.name = name.text()?;
        let shards = usize::try_from(stored_shards.number()?).unwrap_or(shards);
        store.layout = Layout::new(&options.prefix, shards.clamp(1, MAX_SHARDS));
        store.deliver_outbox().await?;
        Ok(store)
    }

    /// The number of shards.
    pub const fn shards(&self) -> usize {
        self.layout.shards
    }

    /// For crash tests: from now on this store stops after each commit, before it delivers messages to other
    /// shards.
    #[doc(hidden)]
    pub fn halt_before_delivery(&self) {
        self.halted.store(true, Ordering::Relaxed);
    }

    fn token(&self) -> String {
        format!("{}-{}", self.name, self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    /// Runs a script in a slot, with the common arguments.
    async fn eval(
        &self,
        script: &LuaScript,
        tag: &str,
        slot: SlotIndex,
        args: Arg,
    ) -> Result<ScriptReply, Error> {
        let now = self.clock.as_ref().map(|clock| clock.now().as_millis());
        let mut args = args;
        if let Arg::Map(fields) = &mut args {
            fields.push(("slot", slot.into()));
            fields.push(("shards", self.layout.shards.into()));
            fields.extend(now.map(|now| ("now", now.into())));
            fields.push(("max_history", MAX_HISTORY.into()));
            fields.push(("default_lease", DEFAULT_LEASE.as_millis().into()));
        }
        self.connection.eval(script, tag, &args.to_bytes()).await
    }

    async fn in_slot(
        &self,
        script: &LuaScript,
        slot: SlotIndex,
        args: Arg,
    ) -> Result<ScriptReply, Error> {
        self.eval(script, &self.layout.tag(slot), slot, args).await
    }

    /// Runs operations in a slot, in order, as one script.
    async fn run(&self, slot: SlotIndex, ops: Vec<Arg>) -> Result<ScriptRun, Error> {
        let reply =
            self.in_slot(&self.scripts.shard, slot, map! { "ops" => Arg::List(ops) }).await?;
        let [now, dirty, answers] = reply.parts()?;
        Ok(ScriptRun { now: now.number()?, dirty: dirty.number()? == 1, replies: answers.list()? })
    }

    /// Runs one operation. Returns its answer, and whether there are messages for other slots.
    async fn run_one(&self, slot: SlotIndex, op: Arg) -> Result<(ScriptReply, bool), Error> {
        let ran = self.run(slot, vec![op]).await?;
        let answer = ran.replies.into_iter().next().unwrap_or(ScriptReply(redis::Value::Nil));
        Ok((answer, ran.dirty))
    }
}
