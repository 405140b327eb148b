//! The reference page of the configuration, made from what the sections say.

use crore_core::settings::text;

use super::INFOS;

const HEAD: &str = "\
# Configuration

crore runs without any. What is chosen comes from four places, and the later ones win: the defaults below,
a TOML file (`--config FILE`, or `crore.toml` where crore is started), the environment, and flags.

```toml
[listen]
address = \"127.0.0.1:9000\"

[store]
data = \"/var/lib/crore\"
```

In the environment the same key is `CRORE_LISTEN__ADDRESS`, with two underscores behind the section. On the
command line it is a flag if there is one, and `--set listen.address=127.0.0.1:9000` always.

Durations are numbers with units (`d`, `h`, `m`, `s`, `ms`), as in `30s` or `1h30m`, and so are sizes (`B`, `KiB`,
`MiB`, `GiB`). A secret is never written into the file: say `file:PATH` or `env:NAME`.

`crore config check` says everything that is wrong, `crore config show` says what is chosen and by what, and
`crore config schema` prints a JSON Schema for editors.
";

/// The page, in Markdown.
pub(crate) fn page() -> String {
    let mut page = HEAD.to_owned();
    for info in INFOS {
        page += &format!(
            "\n## {}\n\n{}\n\n| key | default | meaning |\n|---|---|---|\n",
            info.name,
            text(info.about)
        );
        for key in info.keys {
            let default = key.default.map_or_else(String::new, |text| format!("`{text}`"));
            page += &format!("| `{}` | {default} | {} |\n", key.name(), text(key.about));
        }
    }
    page
}
