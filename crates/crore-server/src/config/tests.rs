use super::*;

fn from_file(text: &str) -> RawConfig {
    let mut raw = RawConfig::default();
    file::parse("crore.toml", text, &mut raw);
    raw
}

fn faults(raw: &mut RawConfig) -> Vec<String> {
    match parse(raw) {
        Ok(_) => Vec::new(),
        Err(error) => {
            error.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect()
        }
    }
}

#[test]
fn the_defaults_are_a_valid_configuration() {
    let config = parse(&mut RawConfig::default()).expect("the defaults");
    assert_eq!(config, Config::default());
}

#[test]
fn push_workers_get_the_drain_timeout() {
    let mut raw = from_file("[listen]\ndrain-for = \"90s\"\n");
    let doors = parse(&mut raw).expect("it is valid").doors(Vec::new());
    assert_eq!(doors.lightjq.workers.drain_time.to_string(), "90s");
}

#[test]
fn certificate_scopes_are_parsed() {
    let mut raw = from_file("[access]\ncertificate-scopes = [\"push\", \"read\"]\n");
    let doors = parse(&mut raw).expect("it is valid").doors(Vec::new());
    assert_eq!(
        doors.api.access.certificate_scopes,
        [crore_api::Scope::Push, crore_api::Scope::Read].into_iter().collect()
    );
    let usual = parse(&mut RawConfig::default()).expect("the defaults").doors(Vec::new());
    assert_eq!(usual.api.access, access::Options::default());
    let wrong = faults(&mut from_file("[access]\ncertificate-scopes = \"push,pull\"\n"));
    assert!(wrong[0].contains("`pull` is not one of push"), "{wrong:?}");
}

#[test]
fn later_sources_win() {
    let mut raw = from_file("[log]\nlevel = \"warn\"\nformat = \"json\"\nkeep = 3\n");
    let variables = [("CRORE_LOG__FORMAT", "text"), ("CRORE_LOG__KEEP", "4")];
    raw.add_variables(variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    raw.put("log.keep", SettingValue::One("5".to_owned()), ConfigSource::Flag("--set"));
    let config = parse(&mut raw).expect("it is valid");
    assert_eq!((config.log.format, config.log.keep), (LogFormat::Text, 5));
    assert_eq!(raw.effective("log.level").1.to_string(), "crore.toml:2");
    assert_eq!(raw.effective("log.format").1.to_string(), "CRORE_LOG__FORMAT");
    assert_eq!(raw.effective("log.keep").1.to_string(), "--set");
    assert_eq!(raw.effective("log.rotate").1, ConfigSource::Default);
}

#[test]
fn all_errors_are_reported_with_source_key_and_value() {
    let mut raw = from_file(
        "[listen]\nadress = \"127.0.0.1:9000\"\ndrain-for = \"soon\"\n\n[log]\nlevle = \"info\"\n\
         payload = \"1MiB\"\n[lisen]\n[stroe]\ndata = \"x\"\n",
    );
    raw.add_variables([("CRORE_CAPS__PAYLAOD".to_owned(), "2MiB".to_owned())].into_iter());
    raw.put("doors.joober", SettingValue::One("3000".to_owned()), ConfigSource::Flag("--door"));
    assert_eq!(
        faults(&mut raw),
        [
            "crore.toml:1: lisen = ``: unknown key; did you mean `listen`?",
            "crore.toml:2: listen.adress = `127.0.0.1:9000`: unknown key; did you mean `listen.address`?",
            "crore.toml:3: listen.drain-for = `soon`: expected a duration such as `30s` or `1h30m` (units: d, h, m, s, ms)",
            "crore.toml:6: log.levle = `info`: unknown key; did you mean `log.level`?",
            "crore.toml:7: log.payload = `1MiB`: unknown key; did you mean `caps.payload`?",
            "crore.toml:10: stroe.data = `x`: unknown key; did you mean `store.data`?",
            "CRORE_CAPS__PAYLAOD: `2MiB`: unknown variable; did you mean `CRORE_CAPS__PAYLOAD`?",
            "--door: doors.joober = `3000`: unknown key; did you mean `doors.jobber`?",
        ]
    );
}

#[test]
fn syntax_errors_have_a_line_number() {
    let errors =
        faults(&mut from_file("[listen]\naddress = \n[log]\nlevel = \"info\"\nlevel = \"warn\"\n"));
    assert!(errors.iter().any(|fault| fault.starts_with("crore.toml:2: ")), "{errors:?}");
    assert!(errors.iter().any(|fault| fault.starts_with("crore.toml:5: ")), "{errors:?}");
}

#[test]
fn conflicting_values_are_reported() {
    let mut raw = from_file(
        "[listen]\naddress = \"0.0.0.0:9000\"\n[store]\nmemory = true\ndata = \"x\"\n\
         [doors]\njobber = 9000\nlightjq = \"127.0.0.1:6400\"\n[caps]\npayload = \"17MiB\"\n",
    );
    let errors = faults(&mut raw);
    for key in ["store.data", "doors.jobber", "caps.payload"] {
        assert!(
            errors.iter().any(|fault| fault.contains(&format!(": {key} = "))),
            "{key}: {errors:#?}"
        );
    }
    assert!(!errors.iter().any(|fault| fault.contains("doors.lightjq")), "{errors:#?}");
}

#[test]
fn a_certificate_without_a_key_is_reported() {
    let errors = faults(&mut from_file("[tls]\ncertificate = \"a.pem\"\n"));
    assert!(errors.iter().any(|fault| fault.contains("`tls.key`")), "{errors:?}");
}

#[test]
fn variables_with_one_underscore_are_ignored_unless_they_are_typos() {
    let mut raw = RawConfig::default();
    raw.add_variables([("CRORE_STORE_DATA".to_owned(), "x".to_owned())].into_iter());
    assert_eq!(
        faults(&mut raw),
        ["CRORE_STORE_DATA: `x`: unknown variable; did you mean `CRORE_STORE__DATA`?"]
    );
    let mut raw = RawConfig::default();
    let theirs = [("CRORE_PORT", "tcp://10.0.0.1:9000"), ("CRORE_SERVICE_HOST", "10.0.0.1")];
    raw.add_variables(theirs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    assert!(parse(&mut raw).is_ok());
}

#[test]
fn shown_configuration_can_be_read_back() {
    let raw =
        from_file("[listen]\naddress = [\"127.0.0.1:1\", \"[::1]:2\"]\n[doors]\njobber = 3000\n");
    let shown = show::text(&raw);
    assert!(shown.contains("jobber = 3000"), "{shown}");
    let mut again = from_file(&shown);
    assert_eq!(
        parse(&mut again).ok(),
        parse(&mut from_file(
            "[listen]\naddress = [\"127.0.0.1:1\", \"[::1]:2\"]\n[doors]\njobber = 3000\n"
        ))
        .ok()
    );
}

#[test]
fn every_default_fits_its_own_schema() {
    let schema = schema::schema();
    for key in keys() {
        let place = format!("/properties/{}/properties/{}", key.section, key.name());
        let property = schema.pointer(&place).unwrap_or_else(|| panic!("{place} is missing"));
        assert_eq!(property.get("default").is_some(), key.default.is_some(), "{place}");
        let is_number = property.get("type").is_some_and(|kind| kind == "integer");
        assert_eq!(
            property.get("default").is_some_and(serde_json::Value::is_u64),
            is_number && key.default.is_some()
        );
    }
}

/// The reference page is generated; on failure, the test prints the expected page.
#[test]
fn the_reference_page_explains_every_key() {
    let written = include_str!("../../../../docs/reference/config.md");
    assert!(
        written == reference::markdown(),
        "docs/reference/config.md should be:\n{}",
        reference::markdown()
    );
}
