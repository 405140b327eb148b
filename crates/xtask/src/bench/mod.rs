//! `bench`: one command for every benchmark, so that a table of results can be reproduced.

mod against;

use crate::command;

struct BenchProgram {
    name: &'static str,
    package: &'static str,
    binary: &'static str,
    /// Whether it starts the built server, which is then built first.
    starts_server: bool,
}

/// Every benchmark takes `--json FILE` and writes its figures there.
#[rustfmt::skip]
const BENCHES: &[BenchProgram] = &[
    BenchProgram { name: "store",   package: "crore-bench", binary: "bench-store",   starts_server: false },
    BenchProgram { name: "log",     package: "crore-bench", binary: "bench-log",     starts_server: false },
    BenchProgram { name: "engine",  package: "crore-bench", binary: "bench-engine",  starts_server: false },
    BenchProgram { name: "http",    package: "crore-bench", binary: "bench-http",    starts_server: true },
    BenchProgram { name: "grpc",    package: "crore-bench", binary: "bench-grpc",    starts_server: true },
    BenchProgram { name: "runners", package: "crore-bench", binary: "bench-runners", starts_server: true },
    BenchProgram { name: "tail",    package: "crore-bench", binary: "bench-tail",    starts_server: true },
    BenchProgram { name: "ui",      package: "crore-bench", binary: "bench-ui",      starts_server: true },
    BenchProgram { name: "peers",   package: "crore-peers", binary: "crore-peers",   starts_server: true },
];

const BUILD_SERVER: [&str; 6] = ["build", "--release", "-p", "crore-server", "--bin", "crore"];

/// Runs the benchmark that `args` names, with the arguments that follow.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let (bench, rest) = find(args)?;
    if let Some(args) = against::parse_args(rest)? {
        return against::run(bench, &args);
    }
    if bench.starts_server {
        command::cargo_here(&BUILD_SERVER)?;
    }
    command::cargo_here(&cargo_args(bench, rest))
}

fn find<'a, 'b>(args: &'a [&'b str]) -> Result<(&'static BenchProgram, &'a [&'b str]), String> {
    let names = || BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
    let [name, rest @ ..] = args else {
        return Err(format!("name a benchmark: {}", names()));
    };
    let bench = BENCHES.iter().find(|bench| bench.name == *name);
    let bench = bench.ok_or_else(|| format!("no benchmark `{name}`; there are: {}", names()))?;
    Ok((bench, rest))
}

fn cargo_args<'a>(bench: &BenchProgram, rest: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "--release", "-p", bench.package, "--bin", bench.binary, "--"];
    [&run, rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_benchmark_name_runs_a_release_build_with_the_other_arguments() {
        let (bench, rest) = find(&["store", "--json", "out.json"]).expect("known");
        assert_eq!(
            cargo_args(bench, rest).join(" "),
            "run --release -p crore-bench --bin bench-store -- --json out.json"
        );
    }

    #[test]
    fn without_a_known_name_the_names_are_listed() {
        for args in [&[][..], &["stoer"]] {
            assert!(find(args).map(|_| ()).expect_err("refused").contains("store"));
        }
    }

    /// The binaries of `crore-bench` are folders; a binary that is not listed could not be run.
    #[test]
    fn every_binary_of_the_crate_is_a_benchmark() {
        let folder = command::root().join("crates/crore-bench/src/bin");
        let entries = std::fs::read_dir(folder).expect("the folder of binaries");
        let mut found: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        let ours = BENCHES.iter().filter(|bench| bench.package == "crore-bench");
        let mut listed: Vec<&str> = ours.map(|bench| bench.binary).collect();
        found.sort_unstable();
        listed.sort_unstable();
        assert_eq!(found, listed);
    }
}
