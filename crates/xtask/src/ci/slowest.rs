//! The slowest tests of a run, from the JUnit report that nextest writes.

use std::path::{Path, PathBuf};

use crate::command;

/// Number of tests that are listed.
const LISTED: usize = 10;

/// A test and its time, in seconds.
#[derive(Debug, PartialEq)]
struct TimedTest {
    name: String,
    seconds: f64,
}

/// The report of a nextest profile; `.config/nextest.toml` names the file.
fn report_file(profile: &str) -> PathBuf {
    command::root().join("target/nextest").join(profile).join("junit.xml")
}

/// Removes the report of an earlier run, so that a run without nextest does not show its times.
pub(super) fn remove_report(profile: &str) {
    // It is missing before the first run.
    let _ = std::fs::remove_file(report_file(profile));
}

/// The list of the slowest tests as text; `None` without a report.
pub(super) fn text(profile: &str) -> Option<String> {
    slowest_tests(&report_file(profile))
}

fn slowest_tests(file: &Path) -> Option<String> {
    let report = std::fs::read_to_string(file).ok()?;
    let mut tests = tests(&report);
    if tests.is_empty() {
        return None;
    }
    tests.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    let lines =
        tests.iter().take(LISTED).map(|test| format!("{:>7.1} s  {}", test.seconds, test.name));
    Some(format!("slowest of {} tests:\n{}", tests.len(), lines.collect::<Vec<_>>().join("\n")))
}

/// The test cases of a report, each named with its binary. The output of tests is escaped, so that `<testcase` is
/// always an element.
fn tests(report: &str) -> Vec<TimedTest> {
    let elements = report.split("<testcase ").skip(1);
    elements
        .filter_map(|element| {
            let head = element.split('>').next()?;
            let (binary, name) = (attribute(head, "classname")?, attribute(head, "name")?);
            let seconds = attribute(head, "time")?.parse().ok()?;
            Some(TimedTest { name: format!("{binary} {name}"), seconds })
        })
        .collect()
}

fn attribute<'a>(head: &'a str, key: &str) -> Option<&'a str> {
    let start = format!("{key}=\"");
    let found =
        head.match_indices(&start).find(|(at, _)| *at == 0 || head[..*at].ends_with(' '))?;
    head[found.0 + start.len()..].split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="3" time="9.1">
    <testsuite name="crore-core" tests="1">
        <testcase name="machine::a" classname="crore-core" timestamp="2026-11-17T06:00:00" time="0.250"/>
    </testsuite>
    <testsuite name="crore::it" tests="2">
        <testcase name="sim::b" classname="crore::it" timestamp="2026-11-17T06:00:00" time="8.500">
            <system-out>&lt;testcase name="none"&gt;</system-out>
        </testcase>
        <testcase name="sim::c" classname="crore::it" time="1.000"/>
    </testsuite>
</testsuites>"#;

    #[test]
    fn tests_are_read_with_their_binary_and_time() {
        let names: Vec<String> = tests(REPORT).into_iter().map(|test| test.name).collect();
        assert_eq!(names, ["crore-core machine::a", "crore::it sim::b", "crore::it sim::c"]);
    }

    #[test]
    fn the_slowest_test_is_first_and_a_missing_report_is_empty() {
        let file = std::env::temp_dir().join(format!("crore-junit-{}.xml", std::process::id()));
        std::fs::write(&file, REPORT).expect("written");
        let text = slowest_tests(&file).expect("a report");
        std::fs::remove_file(&file).expect("removed");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "slowest of 3 tests:");
        assert!(lines[1].ends_with("8.5 s  crore::it sim::b"), "{text}");
        assert_eq!(slowest_tests(&file), None);
    }
}
