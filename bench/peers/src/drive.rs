//! The client in a process of its own: this program again, as `drive PEER SETTING PORT PLAN`. It says what
//! became of everything in a line of JSON, and how much processor time it took itself.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::ledger::{Account, Ledger, Plan};
use crate::peer::{self, Fault, Setting};
use crore_bench::machine;

/// What makes this program a client.
pub(crate) const WORD: &str = "drive";

/// What a client says at its end. Clients in other languages say the same.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Driven {
    pub(crate) account: Account,
    /// From the first push to the last finish.
    pub(crate) seconds: f64,
    /// Its own processor time.
    pub(crate) cpu_seconds: f64,
    /// How long each job took to reach a worker, if they went one at a time, in microseconds.
    pub(crate) micros: Vec<f64>,
}

/// A plan as words of a command line.
pub(crate) fn words(plan: Plan) -> [String; 2] {
    match plan {
        Plan::Load(span) => ["load".to_owned(), span.as_millis().to_string()],
        Plan::PickUp(n) => ["pick-up".to_owned(), n.to_string()],
    }
}

fn read(name: &str, amount: &str) -> Result<Plan, Fault> {
    let amount = amount.parse()?;
    match name {
        "load" => Ok(Plan::Load(Duration::from_millis(amount))),
        "pick-up" => Ok(Plan::PickUp(amount)),
        _ => Err(format!("there is no plan `{name}`").into()),
    }
}

/// A program that ends with this one, however that ends.
pub(crate) fn bound(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// This program as the client of a peer.
pub(crate) fn again(
    peer: &str,
    setting: &Setting,
    port: u16,
    plan: Plan,
) -> Result<Command, Fault> {
    let mut command = bound(std::env::current_exe()?);
    command.args([WORD, peer, setting.name, &port.to_string()]).args(words(plan));
    Ok(command)
}

/// Is the client that the command line asks for.
pub(crate) fn main(args: &[String]) -> Result<(), Fault> {
    let [peer, setting, port, plan, amount] = args else {
        return Err("drive PEER SETTING PORT PLAN AMOUNT".into());
    };
    let peer = peer::named(peer)?;
    let known = peer.settings()?.into_iter().find(|known| known.name == setting);
    let setting = known.ok_or_else(|| format!("there is no setting `{setting}`"))?;
    let ledger = Arc::new(Ledger::new(read(plan, amount)?));
    let cpu = machine::cpu_seconds();
    let left = peer.drive(&setting, port.parse()?, &ledger)?;
    let cpu_seconds = machine::cpu_seconds() - cpu;
    let (account, span, times) = ledger.close(left);
    let micros = times.iter().map(|time| time.as_secs_f64() * 1e6).collect();
    let driven = Driven { account, seconds: span.as_secs_f64(), cpu_seconds, micros };
    println!("{}", serde_json::to_string(&driven)?);
    Ok(())
}

/// Runs a client to its end, and gives what it said.
pub(crate) fn run(mut command: Command) -> Result<Driven, Fault> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("the client failed: {}", output.status).into());
    }
    let said = String::from_utf8(output.stdout)?;
    let last = said.lines().last().ok_or("the client said nothing")?;
    Ok(serde_json::from_str(last)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_are_said() {
        let [name, amount] = words(Plan::Load(Duration::from_millis(2500)));
        assert!(matches!(read(&name, &amount), Ok(Plan::Load(span)) if span.as_millis() == 2500));
        let [name, amount] = words(Plan::PickUp(7));
        assert!(matches!(read(&name, &amount), Ok(Plan::PickUp(7))));
        assert!(read("lode", "7").is_err() && read("load", "x").is_err());
    }
}
