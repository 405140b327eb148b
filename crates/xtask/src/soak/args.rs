//! The command line of a soak.

use std::path::PathBuf;
use std::time::Duration;

use super::part::SoakPart;
use super::progress::SoakGoals;

/// A parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SoakArgs {
    pub(super) file: Option<PathBuf>,
    /// The chosen parts, in the order of [`SoakPart::ALL`].
    pub(super) parts: Vec<SoakPart>,
    pub(super) wanted: SoakGoals,
    /// After this long no new turn starts.
    pub(super) time: Option<Duration>,
}

/// The usage, with the list of parts.
pub(super) fn usage() -> String {
    let parts =
        SoakPart::ALL.map(|part| format!("  {:<7} {}", part.name(), part.about())).join("\n");
    format!(
        "usage: soak [PART …] [--for MINUTES] [--file FILE]\n            \
         [--store SEEDS] [--engine SEEDS] [--fuzz MINUTES] [--chaos MINUTES] [--harm ROUNDS]\n\
         a soak continues from its file, which is under bench/results unless --file names another\n\
         parts (default: all):\n{parts}"
    )
}

/// Parses the command line; `None` if it is invalid.
pub(super) fn parse(args: &[&str]) -> Option<SoakArgs> {
    let mut parsed =
        SoakArgs { file: None, parts: Vec::new(), wanted: SoakGoals::default(), time: None };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if !arg.starts_with('-') {
            parsed.parts.push(SoakPart::named(arg)?);
            continue;
        }
        let value = args.next()?;
        let number = || value.parse::<u64>().ok();
        match *arg {
            "--file" => parsed.file = Some(PathBuf::from(value)),
            "--store" => parsed.wanted.store_seeds = number()?,
            "--engine" => parsed.wanted.engine_seeds = number()?,
            "--fuzz" => parsed.wanted.fuzz_seconds = number()?.checked_mul(60)?,
            "--chaos" => parsed.wanted.chaos_seconds = number()?.checked_mul(60)?,
            "--harm" => parsed.wanted.harm_rounds = number()?,
            "--for" => parsed.time = Some(Duration::from_secs(number()?.checked_mul(60)?)),
            _ => return None,
        }
    }
    if parsed.parts.is_empty() {
        parsed.parts = SoakPart::ALL.into();
    }
    parsed.parts.sort_unstable();
    parsed.parts.dedup();
    Some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_strictly() {
        let args = parse(&["--store", "10", "--chaos", "2", "--for", "1"]).expect("read");
        assert_eq!((args.wanted.store_seeds, args.wanted.chaos_seconds), (10, 120));
        assert_eq!(args.time, Some(Duration::from_secs(60)));
        assert_eq!(args.parts, SoakPart::ALL);
        let args = parse(&["fuzz", "--fuzz", "3"]).expect("read");
        assert_eq!((args.parts, args.wanted.fuzz_seconds), (vec![SoakPart::Fuzz], 180));
        for wrong in [&["--store"][..], &["--store", "many"], &["--stor", "1"], &["sedes"]] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn parts_are_chosen_by_name_beside_options() {
        let args = parse(&["chaos", "seeds", "--for", "30", "seeds"]).expect("read");
        assert_eq!(args.parts, [SoakPart::Seeds, SoakPart::Chaos]);
        assert_eq!(args.time, Some(Duration::from_secs(1800)));
    }

    #[test]
    fn the_usage_names_every_part() {
        let usage = usage();
        assert!(SoakPart::ALL.iter().all(|part| usage.contains(part.name())), "{usage}");
    }
}
