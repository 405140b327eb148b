//! The rules of `crore-core` that a script needs, as Lua tables.
//!
//! A script decides by itself only what depends on its slot at the instant of its write: the state of a
//! job that others wait for, the counts of a group, the time. It looks the outcome up here, so that the
//! rule itself stands in `crore-core` alone.

use std::fmt::Write;

use crore_core::dependency::{self, Satisfaction};
use crore_core::group::Group;
use crore_core::job::Needs;
use crore_core::machine::Settled;
use crore_core::machine::moves::pending;
use crore_core::{State, Time};
use crore_store::Error;

use super::record::{needs_text, word};

/// The action of a script on a job with this satisfaction; `None`: the job goes on waiting.
pub(super) const fn verdict(satisfaction: Satisfaction) -> Option<&'static str> {
    match satisfaction {
        Satisfaction::Satisfied => Some("release"),
        Satisfaction::Open => None,
        Satisfaction::Broken => Some("snap"),
    }
}

/// The verdict for each need, without those that stay open.
pub(super) fn verdicts(
    satisfaction: impl Fn(Needs) -> Satisfaction,
) -> Vec<(&'static str, &'static str)> {
    let one = |needs| verdict(satisfaction(needs)).map(|verdict| (needs_text(needs), verdict));
    Needs::ALL.into_iter().filter_map(one).collect()
}

/// The tables, to stand before a script that uses them.
pub(super) fn tables() -> Result<String, Error> {
    let mut lua = String::from("-- Written by crore-core's rules.\n");
    job_verdicts(&mut lua)?;
    group_verdicts(&mut lua);
    states(&mut lua)?;
    Ok(lua)
}

/// `JOB_VERDICTS[state][needs]`; the state `gone` is that of a job which is not there any more.
fn job_verdicts(lua: &mut String) -> Result<(), Error> {
    lua.push_str("local JOB_VERDICTS = {\n");
    for state in State::ALL {
        let name = word(&state)?;
        row(lua, &name, &verdicts(|needs| state.satisfaction(needs)));
    }
    row(lua, "gone", &verdicts(|needs| Settled::Gone.satisfaction(needs)));
    lua.push_str("}\n");
    Ok(())
}

/// `GROUP_VERDICTS[key][needs]`, the key being four digits, 1 for yes: is it sealed, has it lost a member,
/// do those that ran reach its size, do those that succeeded. `none` is a group that is not there.
fn group_verdicts(lua: &mut String) {
    lua.push_str("local GROUP_VERDICTS = {\n");
    for bits in 0..16_u64 {
        let [sealed, lost, ran, succeeded] = [8, 4, 2, 1].map(|bit| bits & bit != 0);
        let (ran, succeeded) = (ran.into(), succeeded.into());
        let group = Group { size: 1, ran, succeeded, sealed, lost, ..Group::default() };
        row(lua, &format!("{bits:04b}"), &verdicts(|needs| group.satisfaction(needs)));
    }
    row(lua, "none", &verdicts(|needs| dependency::of_group(None, needs)));
    lua.push_str("}\n");
}

/// `PENDING[held][later]`, and the states in which a job has `ENDED`.
fn states(lua: &mut String) -> Result<(), Error> {
    lua.push_str("local PENDING = {\n");
    for held in [true, false] {
        let state = |millis| word(&pending(held, Time::from_millis(millis), Time::ZERO));
        let (later, due) = (state(1)?, state(0)?);
        _ = writeln!(lua, "  [{held}] = {{ [true] = '{later}', [false] = '{due}' }},");
    }
    lua.push_str("}\nlocal ENDED = {");
    for state in State::ALL.into_iter().filter(|state| state.has_ended()) {
        _ = write!(lua, " ['{}'] = true,", word(&state)?);
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
#[expect(clippy::expect_used, reason = "what is not as expected fails the test")]
mod tests {
    use super::*;

    #[test]
    fn the_tables_say_what_the_rules_say() {
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
