//! BullMQ on Redis, from npm, driven by a program for Node: a producer with `addBulk`, and a `Worker` with all
//! slots on a thread of its own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crore_testkit::{Package, Process};
use serde_json::Value;

use crate::drive;
use crate::ledger::{Ledger, Plan};
use crate::peer::{Fault, Peer, Setting};
use crate::redis::{ALWAYS, EVERY_SECOND, Redis};

/// Where `package.json` is, which says the version, and the program.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[derive(Debug)]
pub(crate) struct BullMq;

impl Peer for BullMq {
    fn name(&self) -> &'static str {
        "bullmq"
    }

    fn packages(&self) -> Vec<Package> {
        vec![Package::Redis, Package::Node, Package::Npm]
    }

    /// Beside the program, if what is there is of another version.
    fn prepare(&self) -> Result<(), Fault> {
        let here = Path::new(HERE);
        let is_there = |(name, version): &(String, String)| {
            let there = read(&here.join("node_modules").join(name).join("package.json"));
            there.is_ok_and(|there| there["version"] == **version)
        };
        if wanted()?.iter().all(is_there) {
            return Ok(());
        }
        let install =
            ["install", "--no-package-lock", "--no-fund", "--no-audit", "--loglevel=error"];
        let mut npm = Command::new("npm");
        let status = npm.args(install).current_dir(here).stdout(std::io::stderr()).status()?;
        if status.success() { Ok(()) } else { Err(format!("npm failed: {status}").into()) }
    }

    fn versions(&self) -> Vec<String> {
        let wanted = wanted().unwrap_or_default();
        wanted.iter().map(|(name, version)| format!("{name} {version}")).collect()
    }

    fn settings(&self) -> Result<Vec<Setting>, Fault> {
        Ok(vec![EVERY_SECOND, ALWAYS])
    }

    fn start(&self, setting: &Setting, below: &Path) -> Result<Process, Fault> {
        Redis.start(setting, below)
    }

    fn driver(&self, _: &Setting, server: &Process, plan: Plan) -> Result<Command, Fault> {
        let mut node = drive::bound("node");
        let port = server.port().to_string();
        node.arg(Path::new(HERE).join("bullmq.mjs")).arg(port).args(drive::words(plan));
        Ok(node)
    }

    fn drive(&self, _: &Setting, _: u16, _: &Arc<Ledger>) -> Result<u64, Fault> {
        Err("it is driven by Node".into())
    }
}

/// The packages of npm and their versions.
fn wanted() -> Result<Vec<(String, String)>, Fault> {
    let package = read(&Path::new(HERE).join("package.json"))?;
    let wanted = package["dependencies"].as_object().ok_or("no dependencies")?;
    let version = |version: &Value| version.as_str().unwrap_or_default().to_owned();
    Ok(wanted.iter().map(|(name, wanted)| (name.clone(), version(wanted))).collect())
}

fn read(file: &Path) -> Result<Value, Fault> {
    Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
}
