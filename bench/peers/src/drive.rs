//! The client in a process of its own: this program again, as `drive PEER SETTING PORT PLAN`. It prints the account of
//! all jobs and its own processor time as a line of JSON.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ledger::{JobAccount, LedgerPlan, PeerLedger};
use crate::peer::{self, PeerFault, PeerSetting};
use crore_bench::machine;

/// The argument that makes this program a client.
pub(crate) const CLIENT_COMMAND: &str = "drive";

/// The output of a client, also of those in other languages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ClientReport {
    pub(crate) account: JobAccount,
    /// From the first push to the last finish.
    pub(crate) seconds: f64,
    /// Processor time of the client.
    pub(crate) cpu_seconds: f64,
    /// Pick-up latency of each job, in microseconds; empty under load.
    pub(crate) micros: Vec<f64>,
}

/// A plan as command line arguments.
pub(crate) fn plan_args(plan: LedgerPlan) -> [String; 2] {
    match plan {
        LedgerPlan::Load(span) => ["load".to_owned(), span.as_millis().to_string()],
        LedgerPlan::PickUp(n) => ["pick-up".to_owned(), n.to_string()],
    }
}

fn parse_plan(name: &str, amount: &str) -> Result<LedgerPlan, PeerFault> {
    let amount = amount.parse()?;
    match name {
        "load" => Ok(LedgerPlan::Load(Duration::from_millis(amount))),
        "pick-up" => Ok(LedgerPlan::PickUp(amount)),
        _ => Err(format!("unknown plan `{name}`").into()),
    }
}

/// A program that the kernel kills when this process ends.
pub(crate) fn command_with_parent(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// This program as the client of a peer.
pub(crate) fn this_program(
    peer: &str,
    setting: &PeerSetting,
    port: u16,
    plan: LedgerPlan,
) -> Result<Command, PeerFault> {
    let mut command = command_with_parent(std::env::current_exe()?);
    command.args([CLIENT_COMMAND, peer, setting.name, &port.to_string()]).args(plan_args(plan));
    Ok(command)
}

/// Runs the client that the command line asks for.
pub(crate) fn main(args: &[String]) -> Result<(), PeerFault> {
    let [peer, setting, port, plan, amount] = args else {
        return Err("drive PEER SETTING PORT PLAN AMOUNT".into());
    };
    let peer = peer::by_name(peer)?;
    let known = peer.settings()?.into_iter().find(|known| known.name == setting);
    let setting = known.ok_or_else(|| format!("unknown setting `{setting}`"))?;
    let ledger = Arc::new(PeerLedger::new(parse_plan(plan, amount)?));
    let cpu = machine::cpu_seconds();
    let left = peer.drive(&setting, port.parse()?, &ledger)?;
    let cpu_seconds = machine::cpu_seconds() - cpu;
    let (account, span, times) = ledger.close(left);
    let micros = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    let driven = ClientReport { account, seconds: span.as_secs_f64(), cpu_seconds, micros };
    println!("{}", serde_json::to_string(&driven)?);
    Ok(())
}

/// Runs a client to its end, and returns its output.
pub(crate) fn run(mut command: Command) -> Result<ClientReport, PeerFault> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the client failed: {}", output.status).into());
    }
    let stdout = String::from_utf8(output.stdout)?;
    let last = stdout.lines().last().ok_or("the client printed nothing")?;
    Ok(serde_json::from_str(last)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_round_trip() {
        let [name, amount] = plan_args(LedgerPlan::Load(Duration::from_millis(2500)));
        assert!(
            matches!(parse_plan(&name, &amount), Ok(LedgerPlan::Load(span)) if span.as_millis() == 2500)
        );
        let [name, amount] = plan_args(LedgerPlan::PickUp(7));
        assert!(matches!(parse_plan(&name, &amount), Ok(LedgerPlan::PickUp(7))));
        assert!(parse_plan("lode", "7").is_err() && parse_plan("load", "x").is_err());
    }
}
