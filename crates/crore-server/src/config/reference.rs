//! Generates the reference page of the configuration from the declared sections.

use crore_core::settings::doc_text;

use super::SECTIONS;

const HEAD: &str = "\
# Configuration

crore runs without any configuration. Values come from four sources; each overrides the ones before it: the defaults
below, a TOML file (`--config FILE`, or `crore.toml` in the current directory), environment variables, and flags.

```toml
[listen]
address = \"127.0.0.1:9000\"

[store]
data = \"/var/lib/crore\"
```

The environment variable of the first key is `CRORE_LISTEN__ADDRESS`, with two underscores after the section. On the
command line, use the key's own flag if it has one (`--listen`), or `--set listen.address=127.0.0.1:9000`.

A duration is a number with a unit (`d`, `h`, `m`, `s`, `ms`), or several: `30s`, `1h30m`. A size has the unit `B`, `KiB`,
`MiB` or `GiB`. A list is a TOML array; in variables and flags, its items are separated by commas. A secret is never
written in the file: use a reference, `file:PATH` or `env:NAME`.

`crore config check` reports all errors, `crore config show` prints the effective values and their sources, and
`crore config schema` prints a JSON Schema for editors.
";

/// The page, in Markdown.
pub(crate) fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for info in SECTIONS {
        page += &format!(
            "\n## {}\n\n{}\n\n| key | default | meaning |\n|---|---|---|\n",
            info.name,
            doc_text(info.about)
        );
        for key in info.keys {
            let default = key.default.map_or_else(String::new, |text| format!("`{text}`"));
            page += &format!("| `{}` | {default} | {} |\n", key.name(), doc_text(key.about));
        }
    }
    page
}
