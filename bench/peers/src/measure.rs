//! Measures every peer in every setting, alternating with crore; both sides of a ratio are measured within seconds of
//! each other.

use crate::crore::{self, CrorePeer};
use crate::job::BYTES;
use crate::ledger::LedgerPlan;
use crate::peer::{PeerDurability, PeerFault, PeerSetting, QueuePeer};
use crate::run::{PeerRun, run};
use crate::scale::PeersScale;
use crore_bench::report::{BenchReport, Goal, ReportRow, RunValues};
use crore_bench::work_dir::WorkDir;

/// The goals: crore's rate divided by that of the best durable peer, and of the best other one.
const TIMES_DURABLE: f64 = 5.0;
const TIMES_OTHERS: f64 = 1.0;
/// The goal for processor time per job, client included, in microseconds.
const CPU_MICROS: f64 = 10.0;

/// The figures of alternating runs.
#[derive(Debug, Default)]
struct PeerFigures {
    rate: RunValues,
    server: RunValues,
    client: RunValues,
    doubled: u64,
}

impl PeerFigures {
    fn add(&mut self, ran: &PeerRun) {
        self.rate.0.push(ran.rate);
        self.server.0.push(ran.server);
        self.client.0.push(ran.client);
        self.doubled += ran.doubled;
    }
}

/// One peer in one setting, and the runs of crore around it.
struct PeerSide {
    peer: &'static dyn QueuePeer,
    setting: PeerSetting,
    peer_figures: PeerFigures,
    crore_figures: PeerFigures,
    /// Pick-up latencies: of the peer, and of crore right after it.
    micros: [Vec<f64>; 2],
}

impl PeerSide {
    fn name(&self) -> String {
        format!("{} {}", self.peer.name(), self.setting.name)
    }

    /// The name with the durability.
    fn name_with_durability(&self) -> String {
        format!("{} ({})", self.name(), self.setting.durability.text())
    }
}

/// Measures all peers.
pub(crate) fn measure(
    peers: &[&'static dyn QueuePeer],
    scale: PeersScale,
    work_dir: &WorkDir,
    report: &mut BenchReport,
) -> Result<(), PeerFault> {
    let mut sides = sides(peers)?;
    let crores = cycles(&mut sides, scale, work_dir)?;
    let missing = pick_ups(&mut sides, scale, work_dir)?;
    report.facts.push(format!(
        "work: {BYTES}-byte jobs; one producer in batches, one worker process with 100 slots, no-op handlers; \
         at most 10,000 jobs between push and finish"
    ));
    report
        .facts
        .push(format!("runs: {}, of {:?} each, crore in between; medians", scale.runs, scale.span));
    report.rows.extend(goals(&sides, &crores));
    sides.iter().for_each(|side| report.rows.extend(rows(side)));
    report.notes.extend(table(&sides, &crores));
    report.notes.extend(missing);
    Ok(())
}

fn sides(peers: &[&'static dyn QueuePeer]) -> Result<Vec<PeerSide>, PeerFault> {
    let mut sides = Vec::new();
    for peer in peers {
        for setting in peer.settings()? {
            let (its, crores) = (PeerFigures::default(), PeerFigures::default());
            sides.push(PeerSide {
                peer: *peer,
                setting,
                peer_figures: its,
                crore_figures: crores,
                micros: Default::default(),
            });
        }
    }
    Ok(sides)
}

/// Alternates crore and the peers; returns all figures of crore.
fn cycles(
    sides: &mut [PeerSide],
    scale: PeersScale,
    work_dir: &WorkDir,
) -> Result<PeerFigures, PeerFault> {
    let plan = LedgerPlan::Load(scale.span);
    let mut all = PeerFigures::default();
    for nth in 1..=scale.runs {
        let mut before = run(&CrorePeer, &crore::SYNCED, plan, work_dir.path())?;
        all.add(&before);
        for side in &mut *sides {
            let ran = run(side.peer, &side.setting, plan, work_dir.path())?;
            let after = run(&CrorePeer, &crore::SYNCED, plan, work_dir.path())?;
            work_dir.progress(&format!(
                "run {nth}: {:<18} {:>8.0} jobs/s, crore {:>8.0} and {:>8.0}",
                side.name(),
                ran.rate,
                before.rate,
                after.rate
            ));
            side.peer_figures.add(&ran);
            side.crore_figures.add(&between(&before, &after));
            all.add(&after);
            before = after;
        }
    }
    Ok(all)
}

/// The mean of the runs of crore before and after a peer.
fn between(before: &PeerRun, after: &PeerRun) -> PeerRun {
    let mean = |of: fn(&PeerRun) -> f64| f64::midpoint(of(before), of(after));
    PeerRun {
        rate: mean(|ran| ran.rate),
        server: mean(|ran| ran.server),
        client: mean(|ran| ran.client),
        doubled: before.doubled + after.doubled,
        micros: Vec::new(),
    }
}

/// Measures pick-up latencies, one job at a time. A peer that fails has no figure, and the others keep theirs; returns
/// the failures.
fn pick_ups(
    sides: &mut [PeerSide],
    scale: PeersScale,
    work_dir: &WorkDir,
) -> Result<Vec<String>, PeerFault> {
    work_dir.progress("pick-up");
    let plan = LedgerPlan::PickUp(scale.pick_ups);
    let mut missing = Vec::new();
    for side in &mut *sides {
        match run(side.peer, &side.setting, plan, work_dir.path()) {
            Ok(its) => {
                let crores = run(&CrorePeer, &crore::SYNCED, plan, work_dir.path())?;
                side.micros = [its.micros, crores.micros];
            }
            Err(fault) => {
                let note = format!("no pick-up of {}: {fault}", side.name());
                work_dir.progress(&note);
                missing.push(note);
            }
        }
    }
    Ok(missing)
}

fn goals(sides: &[PeerSide], crores: &PeerFigures) -> Vec<ReportRow> {
    let best = |durable: bool| {
        let of_class =
            |side: &&PeerSide| (side.setting.durability == PeerDurability::Synced) == durable;
        let by_rate = |a: &&PeerSide, b: &&PeerSide| {
            a.peer_figures.rate.median().total_cmp(&b.peer_figures.rate.median())
        };
        sides.iter().filter(of_class).max_by(by_rate)
    };
    let goal = |name: &str, side: &PeerSide, times| {
        let name = (format!("full cycle, beside the best {name}"), "jobs/s");
        let baseline = (side.name_with_durability(), &side.peer_figures.rate);
        ReportRow::compared(name, &side.crore_figures.rate, baseline, Goal::AtLeast(times))
    };
    let durable = best(true).map(|side| goal("durable peer", side, TIMES_DURABLE));
    let other = best(false).map(|side| goal("non-durable peer", side, TIMES_OTHERS));
    let both = crores.server.0.iter().zip(&crores.client.0).map(|(server, client)| server + client);
    let both = RunValues(both.collect());
    let cpu = "processor time of a job, client included";
    let cpu = ReportRow::with_bound(cpu, (both.median(), "µs"), CPU_MICROS);
    durable.into_iter().chain(other).chain([cpu]).collect()
}

fn rows(side: &PeerSide) -> Vec<ReportRow> {
    let name = side.name_with_durability();
    let row = |what: &str, unit, crores: &RunValues, its: &RunValues| {
        ReportRow::compared((what, unit), crores, (name.clone(), its), Goal::None)
    };
    let pick_up =
        |share| side.micros.each_ref().map(|micros| RunValues(vec![quantile(micros, share)]));
    let [its_p50, p50] = pick_up(0.5);
    let [its_p99, p99] = pick_up(0.99);
    let mut rows = vec![
        row("full cycle", "jobs/s", &side.crore_figures.rate, &side.peer_figures.rate),
        row(
            "server's processor time of a job",
            "µs",
            &side.crore_figures.server,
            &side.peer_figures.server,
        ),
        row(
            "client's processor time of a job",
            "µs",
            &side.crore_figures.client,
            &side.peer_figures.client,
        ),
    ];
    if side.micros.iter().all(|micros| !micros.is_empty()) {
        rows.push(row("pick-up, p50", "µs", &p50, &its_p50));
        rows.push(row("pick-up, p99", "µs", &p99, &its_p99));
    }
    rows
}

/// The figures as a table.
fn table(sides: &[PeerSide], crores: &PeerFigures) -> Vec<String> {
    let head = format!(
        "{:<18} {:<13} {:>9} {:>9} {:>10} {:>10} {:>11} {:>11} {:>8}",
        "",
        "durable",
        "jobs/s",
        "crore ÷",
        "server µs",
        "client µs",
        "pick-up p50",
        "p99",
        "doubled"
    );
    let line = |name: &str,
                durability: PeerDurability,
                figures: &PeerFigures,
                ratio: f64,
                micros: &[f64]| {
        format!(
            "{name:<18} {:<13} {:>9.0} {ratio:>9.2} {:>10.1} {:>10.1} {:>11.0} {:>11.0} {:>8}",
            durability.text(),
            figures.rate.median(),
            figures.server.median(),
            figures.client.median(),
            quantile(micros, 0.5),
            quantile(micros, 0.99),
            figures.doubled,
        )
    };
    let peers = sides.iter().map(|side| {
        let ratio = side.crore_figures.rate.ratios_to(&side.peer_figures.rate).median();
        line(&side.name(), side.setting.durability, &side.peer_figures, ratio, &side.micros[0])
    });
    let micros: Vec<f64> = sides.iter().flat_map(|side| side.micros[1].clone()).collect();
    let ours = line("crore", crore::SYNCED.durability, crores, 1.0, &micros);
    [head, ours].into_iter().chain(peers).collect()
}

/// The quantile `share`.
fn quantile(micros: &[f64], share: f64) -> f64 {
    let mut sorted = micros.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = (sorted.len() as f64 * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_taken_from_the_sorted_values() {
        let micros: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((quantile(&micros, 0.5), quantile(&micros, 0.99)), (51.0, 100.0));
        assert_eq!(quantile(&[], 0.5), 0.0);
    }
}
