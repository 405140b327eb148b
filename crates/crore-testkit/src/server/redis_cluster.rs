//! A Redis Cluster of three masters.

use std::time::Duration;

use super::package::DebianPackage;
use super::redis::{RedisRole, RedisServer, cli};
use super::{ServerDurability, command, run_client};
use crate::Error;
use crate::eventually::poll;

const NODES: usize = 3;
const JOIN_LIMIT: Duration = Duration::from_secs(60);
/// Lines of `CLUSTER INFO` once all nodes are members and every slot has a master.
const FORMED: [&str; 3] = ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_known_nodes:3"];

/// Three Redis masters without replicas, each with a third of the slots.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts one that keeps everything in memory.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if Redis is not installed (a panic with `CI=true`), [`Error::Failed`] if a node
    /// does not start or the cluster does not form.
    pub fn start() -> Result<Self, Error> {
        Self::start_with(ServerDurability::Fast)
    }

    /// Starts one with the given durability.
    ///
    /// # Errors
    ///
    /// As for [`RedisCluster::start`].
    pub fn start_with(durability: ServerDurability) -> Result<Self, Error> {
        let nodes = (0..NODES).map(|_| RedisServer::start_as(RedisRole::Node, durability));
        let cluster = Self { nodes: nodes.collect::<Result<_, _>>()? };
        cluster.join()?;
        Ok(cluster)
    }

    /// `127.0.0.1:PORT` of every node.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::address).collect()
    }

    /// The nodes.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Runs one command through `redis-cli` on the node that holds its key, and returns its raw reply, one
    /// element per line.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with the error output of `redis-cli`.
    pub fn command(&self, words: &[&str]) -> Result<String, Error> {
        let mut follow = vec!["-c"];
        follow.extend_from_slice(words);
        self.nodes[0].command(&follow)
    }

    fn join(&self) -> Result<(), Error> {
        let mut create = command(DebianPackage::Redis.require_program("redis-cli")?);
        create.args(["--cluster", "create"]).args(self.addresses()).arg("--cluster-yes");
        run_client(&mut create)
            .map_err(|output| Error::Failed(format!("no cluster created: {output}")))?;
        poll(JOIN_LIMIT, || self.nodes.iter().try_for_each(is_formed))
            .map_err(|seen| Error::Failed(format!("the cluster did not form: {seen}")))
    }
}

fn is_formed(node: &RedisServer) -> Result<(), String> {
    let info = cli(node.process(), &["CLUSTER", "INFO"])?;
    let says = |word: &&str| info.lines().any(|line| line.trim() == *word);
    match FORMED.iter().find(|word| !says(word)) {
        None => Ok(()),
        Some(word) => Err(format!("{} does not report {word}: {info}", node.address())),
    }
}
