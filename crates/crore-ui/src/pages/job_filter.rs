//! Terms of filters for names.

/// The term `field:name`, with the name in quotes if it needs them.
pub(super) fn named_filter(field: &str, name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./@".contains(c);
    match !name.is_empty() && name.chars().all(is_plain) {
        true => format!("{field}:{name}"),
        false => {
            let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
            format!("{field}:\"{escaped}\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_term_that_selects_it() {
        for name in ["mail", "a b", "a\"b\\", "a*", "x,y"] {
            let term = named_filter("queue", name);
            let filter = crore_core::SearchFilter::parse("q", &term).unwrap();
            assert_eq!(filter.queues().unwrap().first().unwrap().as_str(), name);
        }
    }
}
