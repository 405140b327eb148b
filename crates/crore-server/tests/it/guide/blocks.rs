//! The fenced code blocks of a Markdown page.

const MARKER: &str = "<!-- not run:";

/// A fenced code block.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The first word after the fence.
    pub(super) language: String,
    pub(super) text: String,
    /// Number of its first line, from 1.
    pub(super) line: usize,
    /// Whether a marker says that it cannot run.
    is_marked: bool,
}

impl Block {
    /// Whether its text is commands that the test runs: a shell script, or a configuration file to check.
    pub(super) fn is_run(&self) -> bool {
        !self.is_marked && (self.is_shell() || self.is_config())
    }

    fn is_shell(&self) -> bool {
        self.language == "sh"
    }

    /// Whether it is a configuration of crore, and not a manifest of Cargo.
    pub(super) fn is_config(&self) -> bool {
        let is_manifest = ["[dependencies]", "[lib]"].iter().any(|part| self.text.contains(part));
        self.language == "toml" && !is_manifest
    }

    /// Whether it starts a server.
    pub(super) fn starts_server(&self) -> bool {
        let starts = ["crore serve", "crore dev", "cargo run -p crore-server -- dev"];
        self.text.lines().any(|line| starts.iter().any(|command| line.starts_with(command)))
    }

    /// Output of its commands that the page shows: comment lines with JSON.
    pub(super) fn expected_output(&self) -> impl Iterator<Item = &str> {
        let lines = self.text.lines().filter(|_| self.is_shell());
        lines.filter_map(|line| line.strip_prefix("# ")).filter(|shown| shown.starts_with('{'))
    }
}

/// The blocks of a page. An error begins with its line number.
pub(super) fn parse(markdown: &str) -> Result<Vec<Block>, String> {
    let (mut blocks, mut open, mut marked) = (Vec::new(), None::<Block>, false);
    for (n, line) in (1..).zip(markdown.lines()) {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let language = language.split([',', ' ']).next().unwrap_or_default().to_owned();
                open = Some(Block { language, line: n + 1, is_marked: marked, ..Block::default() });
                marked = false;
            }
            (None, None) if line.starts_with(MARKER) => marked = true,
            (None, None) if marked => {
                return Err(format!("{n}: the marker is not on the line before a block"));
            }
            (None, None) => {}
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
        }
    }
    match blocks.iter().find(|block| block.is_marked && !block.is_shell()) {
        Some(block) => Err(format!("{}: only shell blocks run", block.line)),
        None => Ok(blocks),
    }
}

/// Whether the output contains the expected text, in which `…` stands for anything; spaces are ignored.
pub(super) fn matches(expected: &str, output: &str) -> bool {
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    let (expected, output) = (dense(expected), dense(output));
    let mut rest = output.as_str();
    expected.split('…').all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[test]
fn blocks_are_found_with_their_language_line_and_marker() {
    let page = "text\n\n```sh\ncrore serve\n# {\"a\": 1, …}\n```\n\n<!-- not run: needs Docker -->\n```sh\ndocker ps\n```\n";
    let blocks = parse(page).expect("well-formed");
    let found: Vec<_> = blocks.iter().map(|block| (block.line, block.is_run())).collect();
    assert_eq!(found, [(4, true), (10, false)]);
    assert!(blocks[0].starts_server() && !blocks[1].starts_server());
    assert_eq!(blocks[0].expected_output().collect::<Vec<_>>(), ["{\"a\": 1, …}"]);
    assert!(parse("<!-- not run: far away -->\n\n```sh\n```\n").is_err());
    assert!(parse("<!-- not run: no shell -->\n```json\n```\n").is_err());
}

#[test]
fn expected_output_may_leave_out_parts() {
    assert!(matches("{\"a\": 1, …}", "{\"a\":1,\"b\":2}"));
    assert!(!matches("{\"a\": 1, …}", "{\"a\":2,\"b\":2}"));
}
