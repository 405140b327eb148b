//! The summary of a soak in Markdown, beside its file.

use std::path::Path;

use super::part::SoakPart;
use super::progress::SoakProgress;

/// Writes the summary.
pub(super) fn save(progress: &SoakProgress, file: &Path) -> Result<(), String> {
    let file = file.with_extension("md");
    std::fs::write(&file, text(progress))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))
}

fn text(progress: &SoakProgress) -> String {
    let rows = SoakPart::ALL.map(|part| {
        let skipped =
            progress.skipped_of(part).map(|(name, why)| format!("; {name} skipped: {why}"));
        let amount = progress.amount(part) + &skipped.collect::<String>();
        format!("| {} | {} | {amount} | {} |\n", part.name(), part.about(), state(progress, part))
    });
    let mut text = format!(
        "# Soak of {}\n\n| part | what | amount | state |\n|---|---|---|---|\n{}",
        progress.code,
        rows.concat()
    );
    if !progress.failures.is_empty() {
        text += "\nThese commands repeat what failed:\n\n```sh\n";
        text += &progress.failures.join("\n");
        text += "\n```\n";
    }
    text
}

fn state(progress: &SoakProgress, part: SoakPart) -> &'static str {
    if progress.has_failed(part) {
        "**failed**"
    } else if progress.is_done(part) {
        "done"
    } else {
        "not done"
    }
}

#[cfg(test)]
mod tests {
    use super::super::progress::{PartOutcome, SoakGoals};
    use super::*;

    #[test]
    fn every_part_has_a_row_with_its_state() {
        let nowhere = Path::new("/nonexistent/soak.json");
        let mut progress =
            SoakProgress::load_or_new(nowhere, "abc", SoakGoals::default()).expect("new");
        progress.parts.insert("docs".to_owned(), PartOutcome::Passed);
        progress.skipped.insert("harm power".to_owned(), "no loop devices".to_owned());
        progress.failures.push("cargo xtask sim --seed 7".to_owned());
        let text = text(&progress);
        let row = |part: &str| {
            let row = text.lines().find(|line| line.starts_with(&format!("| {part} |")));
            row.unwrap_or_default().to_owned()
        };
        assert!(row("docs").ends_with("| passed | done |"), "{text}");
        assert!(row("seeds").ends_with("| **failed** |"), "{text}");
        assert!(row("harm").contains("no loop devices") && row("harm").ends_with("| not done |"));
        assert!(text.contains("\ncargo xtask sim --seed 7\n"), "{text}");
    }
}
