//! BullMQ on Redis, from npm, driven by a Node program: a producer with `addBulk`, and a `Worker` with all slots on a
//! thread of its own.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crore_testkit::{DebianPackage, SupervisedServer};
use serde_json::Value;

use crate::drive;
use crate::ledger::{LedgerPlan, PeerLedger};
use crate::peer::{PeerFault, PeerSetting, QueuePeer};
use crate::redis::{ALWAYS, EVERY_SECOND, RedisPeer};

/// The directory of `package.json`, which pins the version, and of the program.
const HERE: &str = env!("CARGO_MANIFEST_DIR");

#[derive(Debug)]
pub(crate) struct BullMqPeer;

impl QueuePeer for BullMqPeer {
    fn name(&self) -> &'static str {
        "bullmq"
    }

    fn packages(&self) -> Vec<DebianPackage> {
        vec![DebianPackage::Redis, DebianPackage::Node, DebianPackage::Npm]
    }

    /// Installs the packages next to the program, unless they have the right version.
    fn prepare(&self) -> Result<(), PeerFault> {
        let here = Path::new(HERE);
        let is_there = |(name, version): &(String, String)| {
            let there = read(&here.join("node_modules").join(name).join("package.json"));
            there.is_ok_and(|there| there["version"] == **version)
        };
        if npm_packages()?.iter().all(is_there) {
            return Ok(());
        }
        let install =
            ["install", "--no-package-lock", "--no-fund", "--no-audit", "--loglevel=error"];
        let mut npm = Command::new("npm");
        let status = npm.args(install).current_dir(here).stdout(std::io::stderr()).status()?;
        if status.success() { Ok(()) } else { Err(format!("npm failed: {status}").into()) }
    }

    fn versions(&self) -> Vec<String> {
        let wanted = npm_packages().unwrap_or_default();
        wanted.iter().map(|(name, version)| format!("{name} {version}")).collect()
    }

    fn settings(&self) -> Result<Vec<PeerSetting>, PeerFault> {
        Ok(vec![EVERY_SECOND, ALWAYS])
    }

    fn start(&self, setting: &PeerSetting, below: &Path) -> Result<SupervisedServer, PeerFault> {
        RedisPeer.start(setting, below)
    }

    fn driver(
        &self,
        _: &PeerSetting,
        server: &SupervisedServer,
        plan: LedgerPlan,
    ) -> Result<Command, PeerFault> {
        let mut node = drive::command_with_parent("node");
        let port = server.port().to_string();
        node.arg(Path::new(HERE).join("bullmq.mjs")).arg(port).args(drive::plan_args(plan));
        Ok(node)
    }

    fn drive(&self, _: &PeerSetting, _: u16, _: &Arc<PeerLedger>) -> Result<u64, PeerFault> {
        Err("it is driven by Node".into())
    }
}

/// The npm packages and their versions.
fn npm_packages() -> Result<Vec<(String, String)>, PeerFault> {
    let package = read(&Path::new(HERE).join("package.json"))?;
    let wanted = package["dependencies"].as_object().ok_or("no dependencies")?;
    let version = |version: &Value| version.as_str().unwrap_or_default().to_owned();
    Ok(wanted.iter().map(|(name, wanted)| (name.clone(), version(wanted))).collect())
}

fn read(file: &Path) -> Result<Value, PeerFault> {
    Ok(serde_json::from_str(&std::fs::read_to_string(file)?)?)
}
