//! Converts OpenMetrics to the classic Prometheus text format.

/// Converts to text format 0.0.4, where the family name of a counter includes `_total` and there is no end marker.
pub(super) fn convert(open: &str) -> String {
    let mut text = String::with_capacity(open.len() + 1024);
    let mut help: Option<(&str, &str)> = None;
    for line in open.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let total = if kind == "counter" { "_total" } else { "" };
            let about = help.take().map_or("", |(_, about)| about);
            text.push_str(&format!("# HELP {name}{total} {about}\n# TYPE {name}{total} {kind}\n"));
            continue;
        }
        if line != "# EOF" {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn counters_keep_their_suffix_and_the_end_marker_is_dropped() {
        let open =
            "# HELP a A.\n# TYPE a counter\na_total 1\n# HELP b B.\n# TYPE b gauge\nb 2\n# EOF\n";
        let classic = "# HELP a_total A.\n# TYPE a_total counter\na_total 1\n# HELP b B.\n# TYPE b gauge\nb 2\n";
        assert_eq!(super::convert(open), classic);
    }
}
