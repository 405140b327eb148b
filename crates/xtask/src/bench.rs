//! `bench`: one command for every benchmark, so that a table of results can be made again.

use crate::command;

struct Bench {
    name: &'static str,
    package: &'static str,
    /// `--example` or `--bin`, and its name.
    target: [&'static str; 2],
}

/// Every benchmark takes `--json FILE` and writes its figures there.
const BENCHES: &[Bench] = &[
    Bench { name: "store", package: "crore-store", target: ["--example", "bench_store"] },
    Bench { name: "log", package: "crore-store", target: ["--example", "bench_log"] },
    Bench { name: "engine", package: "crore", target: ["--example", "bench_engine"] },
    Bench { name: "http", package: "crore-server", target: ["--example", "bench_http"] },
    Bench { name: "grpc", package: "crore-server", target: ["--example", "bench_grpc"] },
    Bench { name: "runners", package: "crore-server", target: ["--example", "bench_runners"] },
    Bench { name: "peers", package: "crore-peers", target: ["--bin", "crore-peers"] },
];

/// The packages whose benchmarks start the server, which is built before.
const START_SERVER: [&str; 2] = ["crore-server", "crore-peers"];
const SERVER: [&str; 6] = ["build", "--release", "-p", "crore-server", "--bin", "crore"];

/// Runs the benchmark that `args` names, with the arguments that follow.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let run = cargo_args(args)?;
    if START_SERVER.iter().any(|package| run.contains(package)) {
        command::cargo_here(&SERVER)?;
    }
    command::cargo_here(&run)
}

fn cargo_args<'a>(args: &[&'a str]) -> Result<Vec<&'a str>, String> {
    let names = || BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
    let [name, rest @ ..] = args else {
        return Err(format!("name a benchmark: {}", names()));
    };
    let bench = BENCHES
        .iter()
        .find(|bench| bench.name == *name)
        .ok_or_else(|| format!("no benchmark `{name}`; there are: {}", names()))?;
    let [kind, target] = bench.target;
    let mut cargo = vec!["run", "--release", "-p", bench.package, kind, target, "--"];
    cargo.extend_from_slice(rest);
    Ok(cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_release_run_with_the_rest_as_arguments() {
        let args = cargo_args(&["store", "--json", "out.json"]).expect("known");
        assert_eq!(
            args.join(" "),
            "run --release -p crore-store --example bench_store -- --json out.json"
        );
    }

    #[test]
    fn without_a_known_name_the_names_are_listed() {
        for args in [&[][..], &["stoer"]] {
            assert!(cargo_args(args).expect_err("refused").contains("store"));
        }
    }
}
