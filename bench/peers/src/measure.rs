//! Every peer in every setting, with crore in between; what each ratio is made of was measured within seconds.

use crate::crore::{self, Crore};
use crate::job::BYTES;
use crate::ledger::Plan;
use crate::peer::{Durability, Fault, Peer, Setting};
use crate::run::{Ran, run};
use crate::scale::Scale;
use crore_bench::report::{Goal, Report, Row, Runs};
use crore_bench::work_dir::WorkDir;

/// What a goal compares with the best peer of its sort.
const TIMES_DURABLE: f64 = 5.0;
const TIMES_OTHERS: f64 = 1.0;
/// Processor time of a job, client included, in microseconds.
const CPU_MICROS: f64 = 10.0;

/// The figures of alternated runs.
#[derive(Debug, Default)]
struct Figures {
    rate: Runs,
    server: Runs,
    client: Runs,
    doubled: u64,
}

impl Figures {
    fn add(&mut self, ran: &Ran) {
        self.rate.0.push(ran.rate);
        self.server.0.push(ran.server);
        self.client.0.push(ran.client);
        self.doubled += ran.doubled;
    }
}

/// One peer in one setting, and crore around it.
struct Side {
    peer: &'static dyn Peer,
    setting: Setting,
    its: Figures,
    crores: Figures,
    /// How long each job took to reach a worker: its own, and crore's right after it.
    micros: [Vec<f64>; 2],
}

impl Side {
    fn name(&self) -> String {
        format!("{} {}", self.peer.name(), self.setting.name)
    }

    /// With what its answers are worth.
    fn told(&self) -> String {
        format!("{} ({})", self.name(), self.setting.durability.text())
    }
}

/// Measures all of it.
pub(crate) fn measure(
    peers: &[&'static dyn Peer],
    scale: Scale,
    work_dir: &WorkDir,
    report: &mut Report,
) -> Result<(), Fault> {
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

fn sides(peers: &[&'static dyn Peer]) -> Result<Vec<Side>, Fault> {
    let mut sides = Vec::new();
    for peer in peers {
        for setting in peer.settings()? {
            let (its, crores) = (Figures::default(), Figures::default());
            sides.push(Side { peer: *peer, setting, its, crores, micros: Default::default() });
        }
    }
    Ok(sides)
}

/// crore, a peer, crore, the next peer, crore, and so on. Gives all that crore did.
fn cycles(sides: &mut [Side], scale: Scale, work_dir: &WorkDir) -> Result<Figures, Fault> {
    let plan = Plan::Load(scale.span);
    let mut all = Figures::default();
    for nth in 1..=scale.runs {
        let mut before = run(&Crore, &crore::SYNCED, plan, work_dir.path())?;
        all.add(&before);
        for side in &mut *sides {
            let ran = run(side.peer, &side.setting, plan, work_dir.path())?;
            let after = run(&Crore, &crore::SYNCED, plan, work_dir.path())?;
            work_dir.progress(&format!(
                "run {nth}: {:<18} {:>8.0} jobs/s, crore {:>8.0} and {:>8.0}",
                side.name(),
                ran.rate,
                before.rate,
                after.rate
            ));
            side.its.add(&ran);
            side.crores.add(&between(&before, &after));
            all.add(&after);
            before = after;
        }
    }
    Ok(all)
}

/// The mean of what crore did before a peer and after it.
fn between(before: &Ran, after: &Ran) -> Ran {
    let mean = |of: fn(&Ran) -> f64| f64::midpoint(of(before), of(after));
    Ran {
        rate: mean(|ran| ran.rate),
        server: mean(|ran| ran.server),
        client: mean(|ran| ran.client),
        doubled: before.doubled + after.doubled,
        micros: Vec::new(),
    }
}

/// One job at a time. A peer that fails at this has no such figure, and the others keep theirs; gives
/// what went wrong.
fn pick_ups(sides: &mut [Side], scale: Scale, work_dir: &WorkDir) -> Result<Vec<String>, Fault> {
    work_dir.progress("pick-up");
    let plan = Plan::PickUp(scale.pick_ups);
    let mut missing = Vec::new();
    for side in &mut *sides {
        match run(side.peer, &side.setting, plan, work_dir.path()) {
            Ok(its) => {
                let crores = run(&Crore, &crore::SYNCED, plan, work_dir.path())?;
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

fn goals(sides: &[Side], crores: &Figures) -> Vec<Row> {
    let best = |durable: bool| {
        let of_sort = |side: &&Side| (side.setting.durability == Durability::Synced) == durable;
        let by_rate = |a: &&Side, b: &&Side| a.its.rate.median().total_cmp(&b.its.rate.median());
        sides.iter().filter(of_sort).max_by(by_rate)
    };
    let goal = |name: &str, side: &Side, times| {
        let name = (format!("full cycle, beside the best {name}"), "jobs/s");
        let beside = (side.told(), &side.its.rate);
        Row::beside(name, &side.crores.rate, beside, Goal::AtLeast(times))
    };
    let durable = best(true).map(|side| goal("durable peer", side, TIMES_DURABLE));
    let other = best(false).map(|side| goal("non-durable peer", side, TIMES_OTHERS));
    let both = crores.server.0.iter().zip(&crores.client.0).map(|(server, client)| server + client);
    let both = Runs(both.collect());
    let cpu = "processor time of a job, client included";
    let cpu = Row::allowed(cpu, (both.median(), "µs"), CPU_MICROS);
    durable.into_iter().chain(other).chain([cpu]).collect()
}

fn rows(side: &Side) -> Vec<Row> {
    let name = side.told();
    let row = |what: &str, unit, crores: &Runs, its: &Runs| {
        Row::beside((what, unit), crores, (name.clone(), its), Goal::None)
    };
    let pick_up = |share| side.micros.each_ref().map(|micros| Runs(vec![within(micros, share)]));
    let [its_p50, p50] = pick_up(0.5);
    let [its_p99, p99] = pick_up(0.99);
    let mut rows = vec![
        row("full cycle", "jobs/s", &side.crores.rate, &side.its.rate),
        row("server's processor time of a job", "µs", &side.crores.server, &side.its.server),
        row("client's processor time of a job", "µs", &side.crores.client, &side.its.client),
    ];
    if side.micros.iter().all(|micros| !micros.is_empty()) {
        rows.push(row("pick-up, p50", "µs", &p50, &its_p50));
        rows.push(row("pick-up, p99", "µs", &p99, &its_p99));
    }
    rows
}

/// The same for people.
fn table(sides: &[Side], crores: &Figures) -> Vec<String> {
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
    let line =
        |name: &str, durability: Durability, figures: &Figures, ratio: f64, micros: &[f64]| {
            format!(
                "{name:<18} {:<13} {:>9.0} {ratio:>9.2} {:>10.1} {:>10.1} {:>11.0} {:>11.0} {:>8}",
                durability.text(),
                figures.rate.median(),
                figures.server.median(),
                figures.client.median(),
                within(micros, 0.5),
                within(micros, 0.99),
                figures.doubled,
            )
        };
    let peers = sides.iter().map(|side| {
        let ratio = side.crores.rate.over(&side.its.rate).median();
        line(&side.name(), side.setting.durability, &side.its, ratio, &side.micros[0])
    });
    let micros: Vec<f64> = sides.iter().flat_map(|side| side.micros[1].clone()).collect();
    let ours = line("crore", crore::SYNCED.durability, crores, 1.0, &micros);
    [head, ours].into_iter().chain(peers).collect()
}

/// The time within which this share of all was over.
fn within(micros: &[f64], share: f64) -> f64 {
    let mut sorted = micros.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (sorted.len() as f64 * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_all_is_within_its_time() {
        let micros: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((within(&micros, 0.5), within(&micros, 0.99)), (51.0, 100.0));
        assert_eq!(within(&[], 0.5), 0.0);
    }
}
