//! Generates Lua tables from the rules of `crore-core`.
//!
//! A script itself decides only what depends on its slot at the moment of its write: the state of a job that
//! others wait for, the counts of a group, the time. It looks the outcome up in these tables, so that the
//! rules are only in `crore-core`.

use std::fmt::Write;

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::Group;
use crore_core::job::DependencyCondition;
use crore_core::machine::Settled;
use crore_core::machine::transitions::pending_state;
use crore_core::{State, Time};
use crore_store::Error;

use super::record::{needs_text, variant_name};

/// The operation that a script runs on a job whose dependency has this satisfaction; `None`: the job keeps
/// waiting.
pub(super) const fn verdict(satisfaction: Satisfaction) -> Option<&'static str> {
    match satisfaction {
        Satisfaction::Satisfied => Some("release"),
        Satisfaction::Open => None,
        Satisfaction::Broken => Some("snap"),
    }
}

/// The verdict for each condition of a dependency; conditions that are still open are left out.
pub(super) fn verdicts(
    satisfaction: impl Fn(DependencyCondition) -> Satisfaction,
) -> Vec<(&'static str, &'static str)> {
    let one = |needs| verdict(satisfaction(needs)).map(|verdict| (needs_text(needs), verdict));
    DependencyCondition::ALL.into_iter().filter_map(one).collect()
}

/// The tables, to prepend to a script that uses them.
pub(super) fn tables() -> Result<String, Error> {
    let mut lua = String::from("-- Generated from the rules of crore-core.\n");
    job_verdicts(&mut lua)?;
    group_verdicts(&mut lua);
    states(&mut lua)?;
    Ok(lua)
}

/// `JOB_VERDICTS[state][needs]`; the state `gone` means a removed job.
fn job_verdicts(lua: &mut String) -> Result<(), Error> {
    lua.push_str("local JOB_VERDICTS = {\n");
    for state in State::ALL {
        let name = variant_name(&state)?;
        row(lua, &name, &verdicts(|needs| state.satisfaction(needs)));
    }
    row(lua, "gone", &verdicts(|needs| Settled::Gone.satisfaction(needs)));
    lua.push_str("}\n");
    Ok(())
}

/// `GROUP_VERDICTS[key][needs]`. The key has four digits, 1 for yes: sealed, lost a member, all members ran,
/// all members succeeded. `none` means a missing group.
fn group_verdicts(lua: &mut String) {
    lua.push_str("local GROUP_VERDICTS = {\n");
    for bits in 0..16_u64 {
        let [sealed, lost, ran, succeeded] = [8, 4, 2, 1].map(|bit| bits & bit != 0);
        let (ran, succeeded) = (ran.into(), succeeded.into());
        let group = Group { size: 1, ran, succeeded, sealed, lost, ..Group::default() };
        row(lua, &format!("{bits:04b}"), &verdicts(|needs| group.satisfaction(needs)));
    }
    row(lua, "none", &verdicts(|needs| dependency::group_satisfaction(None, needs)));
    lua.push_str("}\n");
}

/// `PENDING[held][later]`, and `ENDED`, the final states of a job.
fn states(lua: &mut String) -> Result<(), Error> {
    lua.push_str("local PENDING = {\n");
    for held in [true, false] {
        let state =
            |millis| variant_name(&pending_state(held, Time::from_millis(millis), Time::ZERO));
        let (later, due) = (state(1)?, state(0)?);
        _ = writeln!(lua, "  [{held}] = {{ [true] = '{later}', [false] = '{due}' }},");
    }
    lua.push_str("}\nlocal ENDED = {");
    for state in State::ALL.into_iter().filter(|state| state.has_ended()) {
        _ = write!(lua, " ['{}'] = true,", variant_name(&state)?);
    }
    lua.push_str(" }\n");
    Ok(())
}

fn row(lua: &mut String, key: &str, verdicts: &[(&str, &str)]) {
    _ = write!(lua, "  ['{key}'] = {{");
    for (needs, verdict) in verdicts {
        _ = write!(lua, " ['{needs}'] = '{verdict}',");
    }
    lua.push_str(" },\n");
}

#[cfg(test)]
#[expect(clippy::expect_used, reason = "a panic fails the test")]
mod tests {
    use super::*;

    #[test]
    fn the_tables_follow_the_rules() {
        let lua = tables().expect("every state has a name");
        for line in [
            "  ['done'] = { ['end'] = 'release', ['success'] = 'release', },",
            "  ['dead'] = { ['end'] = 'release', },",
            "  ['cancelled'] = { ['end'] = 'release', ['success'] = 'snap', },",
            "  ['running'] = { },",
            "  ['1010'] = { ['end'] = 'release', },",
            "  ['1011'] = { ['end'] = 'release', ['success'] = 'release', },",
            "  ['1111'] = { ['end'] = 'release', ['success'] = 'snap', },",
            "  ['0011'] = { },",
            "  ['none'] = { ['end'] = 'snap', ['success'] = 'snap', },",
            "  [true] = { [true] = 'waiting', [false] = 'waiting' },",
            "  [false] = { [true] = 'scheduled', [false] = 'ready' },",
            "local ENDED = { ['done'] = true, ['dead'] = true, ['cancelled'] = true, }",
        ] {
            assert!(lua.lines().any(|other| other == line), "no `{line}` in\n{lua}");
        }
    }
}
