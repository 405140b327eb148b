use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use crore_testkit::{
    DebianPackage, DockerServer, MariaDbServer, PostgresServer, RedisCluster, RedisServer,
    ServerDurability, ServerSpec, SupervisedServer, or_skip, unique_name,
};

use crate::cleanup::ServerTraces;

#[test]
fn postgres_serves_and_stops_when_dropped() {
    let Some(postgres) = or_skip(PostgresServer::start()) else { return };
    let schema = unique_name("crore");
    postgres.query(&format!("CREATE SCHEMA {schema}")).expect("a schema of its own");
    assert_eq!(postgres.query("SELECT 6 * 7").expect("an answer"), "42");
    assert_eq!(postgres.query("SHOW fsync").expect("an answer"), "off");
    assert_eq!(postgres.query("SHOW listen_addresses").expect("an answer"), "127.0.0.1");
    assert!(postgres.query("SELECT no_such_column").is_err());
    let traces = ServerTraces::of(postgres.process());
    drop(postgres);
    traces.assert_gone();
}

#[test]
fn a_durable_postgres_syncs_and_a_stopped_one_exits_when_dropped() {
    let Some(postgres) = or_skip(PostgresServer::start_with(ServerDurability::Durable)) else {
        return;
    };
    let settings = "SELECT current_setting('fsync'), current_setting('synchronous_commit')";
    assert_eq!(postgres.query(settings).expect("an answer"), "on|on");
    let traces = ServerTraces::of(postgres.process());
    let stop = Command::new("kill").args(["-STOP", &traces.pid.to_string()]).status();
    assert!(stop.expect("kill runs").success());
    drop(postgres);
    traces.assert_gone();
}

#[test]
fn mariadb_serves_and_stops_when_dropped() {
    let Some(mariadb) = or_skip(MariaDbServer::start()) else { return };
    let database = unique_name("crore");
    mariadb.query(&format!("CREATE DATABASE {database}")).expect("a database of its own");
    assert_eq!(mariadb.query("SELECT 6 * 7, DATABASE()").expect("an answer"), "42\ttest");
    assert_eq!(mariadb.query("SELECT @@bind_address").expect("an answer"), "127.0.0.1");
    let traces = ServerTraces::of(mariadb.process());
    drop(mariadb);
    traces.assert_gone();
}

#[test]
fn redis_serves_and_stops_when_dropped() {
    let Some(redis) = or_skip(RedisServer::start()) else { return };
    assert_eq!(redis.command(&["SET", "answer", "42"]).expect("an answer"), "OK");
    assert_eq!(redis.command(&["GET", "answer"]).expect("an answer"), "42");
    assert!(redis.command(&["INCR", "answer", "too-many"]).is_err());
    let traces = ServerTraces::of(redis.process());
    drop(redis);
    traces.assert_gone();
}

#[test]
fn any_server_can_be_started_in_a_directory_and_stops_when_dropped() {
    let Some(()) = or_skip(DebianPackage::Redis.require()) else { return };
    let below = tempfile::tempdir().expect("a directory");
    let script = r#"exec redis-server --port "$1" --bind 127.0.0.1 --save '' --pidfile "$PWD/$2""#;
    let launch = ServerSpec::new("mine", script).args(["written"]).below(below.path());
    let is_ready = |process: &SupervisedServer| {
        let written = std::fs::read_to_string(process.dir().join("written"));
        let pid = written.map_err(|error| error.to_string())?;
        if pid.trim() == process.pid().to_string() { Ok(()) } else { Err(pid) }
    };
    let server = SupervisedServer::start(&launch, is_ready).expect("started");
    let canonical = below.path().canonicalize().expect("it exists");
    assert_eq!(server.dir().parent(), Some(&*canonical));
    let owner = |path: &Path| std::fs::metadata(path).expect("it exists").uid();
    assert_eq!(owner(server.dir()), owner(below.path()), "it runs as the current user");
    let traces = ServerTraces::of(&server);
    drop(server);
    traces.assert_gone();
}

#[test]
fn a_durable_redis_syncs_every_write() {
    let Some(redis) = or_skip(RedisServer::start_with(ServerDurability::Durable)) else { return };
    let policy = redis.command(&["CONFIG", "GET", "appendfsync"]).expect("an answer");
    assert_eq!(policy, "appendfsync\nalways");
    assert!(redis.process().dir().join("appendonlydir").is_dir());
}

#[test]
fn a_redis_cluster_serves_on_every_node_and_stops_when_dropped() {
    let Some(cluster) = or_skip(RedisCluster::start()) else { return };
    for key in ["a", "b", "c", "d", "e", "f"] {
        assert_eq!(cluster.command(&["SET", key, key]).expect("an answer"), "OK");
        assert_eq!(cluster.command(&["GET", key]).expect("an answer"), key);
    }
    let held = |node: &RedisServer| node.command(&["DBSIZE"]).expect("an answer") != "0";
    assert!(cluster.nodes().iter().all(held), "every node has some of the keys");
    let traces: Vec<_> =
        cluster.nodes().iter().map(|node| ServerTraces::of(node.process())).collect();
    assert_eq!(traces.len(), 3);
    drop(cluster);
    traces.iter().for_each(ServerTraces::assert_gone);
}

#[test]
fn servers_that_start_together_get_ports_of_their_own() {
    let starts = [(); 4].map(|()| thread::spawn(RedisServer::start));
    let servers = starts.map(|start| start.join().expect("a start does not panic"));
    let servers: Vec<_> = servers.into_iter().filter_map(or_skip).collect();
    let mut ports: Vec<_> = servers.iter().map(|server| server.process().port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), servers.len());
}

#[test]
fn docker_runs_a_container_and_stops_with_all_containers_when_dropped() {
    let Some(docker) = or_skip(DockerServer::start()) else { return };
    let output = docker.command(&["run", "--rm", DockerServer::IMAGE, "echo", "hello"]);
    assert_eq!(output.expect("it runs"), "hello");
    let forever = ["run", "--detach", "--memory=32m", DockerServer::IMAGE, "sleep", "987654"];
    docker.command(&forever).expect("it runs");
    assert_eq!(docker.command(&["ps", "--quiet"]).expect("a list").lines().count(), 1);
    assert_eq!(sleepers(), 1);
    let traces = ServerTraces::of(docker.process());
    drop(docker);
    traces.assert_gone();
    assert_eq!(sleepers(), 0);
}

/// Containers are also visible as processes of this machine.
fn sleepers() -> usize {
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    let is_one = |path: &Path| {
        std::fs::read(path.join("cmdline")).is_ok_and(|words| words == b"sleep\x00987654\0")
    };
    processes.filter(|process| is_one(&process.path())).count()
}
