//! A Redis Cluster of three masters.

use std::time::Duration;

use super::package::Package;
use super::redis::{Redis, Role, cli};
use super::{Durability, ask, command};
use crate::Error;
use crate::eventually::poll;

const NODES: usize = 3;
const JOIN_LIMIT: Duration = Duration::from_secs(60);
/// What a node says once it and all others are members and every slot has a master.
const WHOLE: [&str; 3] = ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"];

/// Three Redis masters without replicas, each with a third of the slots.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts one that keeps everything in memory only.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if Redis is not installed (a panic where `CI=true`), [`Error::Failed`] if
    /// a node does not come up or the cluster does not form.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(Durability::Fast)
    }

    /// Starts one that keeps its word as `durability` says.
    ///
    /// # Errors
    ///
    /// As for [`RedisCluster::start`].
    pub fn start_with(durability: Durability) -> Result<Self, Error> {
        let nodes = (0..NODES).map(|_| Redis::start_as(Role::Node, durability));
        let cluster = Self { nodes: nodes.collect::<Result<_, _>>()? };
        cluster.join()?;
        Ok(cluster)
    }

    /// `127.0.0.1:PORT` of every node.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::address).collect()
    }

    /// The nodes, each a server of its own.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Runs one command through `redis-cli`, on the node that has its key, and gives its answer,
    /// bare, one element per line.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with what `redis-cli` said.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        let mut follow = vec!["-c"];
        follow.extend_from_slice(words);
        self.nodes[0].command(&follow)
    }

    fn join(&self) -> Result<(), Error> {
        let mut create = command(Package::Redis.need("redis-cli")?);
        create.args(["--cluster", "create"]).args(self.addresses()).arg("--cluster-yes");
        ask(&mut create).map_err(|said| Error::Failed(format!("no cluster was made: {said}")))?;
        poll(JOIN_LIMIT, || self.nodes.iter().try_for_each(is_whole))
            .map_err(|seen| Error::Failed(format!("the cluster did not form: {seen}")))
    }
}

fn is_whole(node: &Redis) -> Result<(), String> {
    let info = cli(node.process(), &["CLUSTER", "INFO"])?;
    let says = |word: &&str| info.lines().any(|line| line.trim() == *word);
    match WHOLE.iter().find(|word| !says(word)) {
        None => Ok(()),
        Some(word) => Err(format!("{} does not say {word}: {info}", node.address())),
    }
}
