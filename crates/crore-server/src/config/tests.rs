use super::*;

fn from_file(text: &str) -> Raw {
    let mut raw = Raw::default();
    file::parse("crore.toml", text, &mut raw);
    raw
}

fn faults(raw: &mut Raw) -> Vec<String> {
    match understand(raw) {
        Ok(_) => Vec::new(),
        Err(error) => {
            error.to_string().lines().skip(1).map(|line| line.trim().to_owned()).collect()
        }
    }
}

#[test]
fn nothing_has_to_be_chosen() {
    let config = understand(&mut Raw::default()).expect("the defaults");
    assert_eq!(config, Config::default());
}

#[test]
fn push_workers_may_answer_as_long_as_a_drain_lasts() {
    let mut raw = from_file("[listen]\ndrain-for = \"90s\"\n");
    let doors = understand(&mut raw).expect("it is good").doors(Vec::new());
    assert_eq!(doors.lightjq.workers.drain_time.to_string(), "90s");
}

#[test]
fn scopes_of_certificates_are_words_of_the_one_table() {
    let mut raw = from_file("[access]\ncertificate-scopes = [\"push\", \"read\"]\n");
    let doors = understand(&mut raw).expect("it is good").doors(Vec::new());
    assert_eq!(
        doors.api.access.certificate_scopes,
        [crore_api::Scope::Push, crore_api::Scope::Read].into_iter().collect()
    );
    let usual = understand(&mut Raw::default()).expect("the defaults").doors(Vec::new());
    assert_eq!(usual.api.access, access::Options::default());
    let wrong = faults(&mut from_file("[access]\ncertificate-scopes = \"push,pull\"\n"));
    assert!(wrong[0].contains("`pull` is not one of push"), "{wrong:?}");
}

#[test]
fn the_later_layer_wins() {
    let mut raw = from_file("[log]\nlevel = \"warn\"\nformat = \"json\"\nkeep = 3\n");
    let variables = [("CRORE_LOG__FORMAT", "text"), ("CRORE_LOG__KEEP", "4")];
    raw.put_variables(variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    raw.put("log.keep", Given::One("5".to_owned()), Source::Flag("--set"));
    let config = understand(&mut raw).expect("it is good");
    assert_eq!((config.log.format, config.log.keep), (Format::Text, 5));
    assert_eq!(raw.chosen("log.level").1.to_string(), "crore.toml:2");
    assert_eq!(raw.chosen("log.format").1.to_string(), "CRORE_LOG__FORMAT");
    assert_eq!(raw.chosen("log.keep").1.to_string(), "--set");
    assert_eq!(raw.chosen("log.rotate").1, Source::Default);
}

#[test]
fn all_faults_are_told_at_once_with_place_key_and_value() {
    let mut raw = from_file(
        "[listen]\nadress = \"127.0.0.1:9000\"\ndrain-for = \"soon\"\n\n[log]\nlevle = \"info\"\n\
         payload = \"1MiB\"\n[lisen]\n[stroe]\ndata = \"x\"\n",
    );
    raw.put_variables([("CRORE_CAPS__PAYLAOD".to_owned(), "2MiB".to_owned())].into_iter());
    raw.put("doors.joober", Given::One("3000".to_owned()), Source::Flag("--door"));
    assert_eq!(
        faults(&mut raw),
        [
            "crore.toml:1: lisen = ``: there is no such key; did you mean `listen`?",
            "crore.toml:2: listen.adress = `127.0.0.1:9000`: there is no such key; did you mean `listen.address`?",
            "crore.toml:3: listen.drain-for = `soon`: write numbers with units (d, h, m, s, ms), as in `30s` or `1h30m`",
            "crore.toml:6: log.levle = `info`: there is no such key; did you mean `log.level`?",
            "crore.toml:7: log.payload = `1MiB`: there is no such key; did you mean `caps.payload`?",
            "crore.toml:10: stroe.data = `x`: there is no such key; did you mean `store.data`?",
            "CRORE_CAPS__PAYLAOD: `2MiB`: it means no key; did you mean `CRORE_CAPS__PAYLOAD`?",
            "--door: doors.joober = `3000`: there is no such key; did you mean `doors.jobber`?",
        ]
    );
}

#[test]
fn a_file_that_is_no_toml_says_where() {
    let told =
        faults(&mut from_file("[listen]\naddress = \n[log]\nlevel = \"info\"\nlevel = \"warn\"\n"));
    assert!(told.iter().any(|fault| fault.starts_with("crore.toml:2: ")), "{told:?}");
    assert!(told.iter().any(|fault| fault.starts_with("crore.toml:5: ")), "{told:?}");
}

#[test]
fn what_does_not_go_together_is_told() {
    let mut raw = from_file(
        "[listen]\naddress = \"0.0.0.0:9000\"\n[store]\nmemory = true\ndata = \"x\"\n\
         [doors]\njobber = 9000\nlightjq = \"127.0.0.1:6400\"\n[caps]\npayload = \"17MiB\"\n",
    );
    let told = faults(&mut raw);
    for key in ["store.data", "doors.jobber", "caps.payload"] {
        assert!(
            told.iter().any(|fault| fault.contains(&format!(": {key} = "))),
            "{key}: {told:#?}"
        );
    }
    assert!(!told.iter().any(|fault| fault.contains("doors.lightjq")), "{told:#?}");
}

#[test]
fn half_of_tls_is_told() {
    let told = faults(&mut from_file("[tls]\ncertificate = \"a.pem\"\n"));
    assert!(told.iter().any(|fault| fault.contains("`tls.key`")), "{told:?}");
}

#[test]
fn variables_with_one_underscore_are_not_ours_unless_they_lack_the_other() {
    let mut raw = Raw::default();
    raw.put_variables([("CRORE_STORE_DATA".to_owned(), "x".to_owned())].into_iter());
    assert_eq!(
        faults(&mut raw),
        ["CRORE_STORE_DATA: `x`: it means no key; did you mean `CRORE_STORE__DATA`?"]
    );
    let mut raw = Raw::default();
    let theirs = [("CRORE_PORT", "tcp://10.0.0.1:9000"), ("CRORE_SERVICE_HOST", "10.0.0.1")];
    raw.put_variables(theirs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    assert!(understand(&mut raw).is_ok());
}

#[test]
fn what_is_shown_can_be_read_again() {
    let raw =
        from_file("[listen]\naddress = [\"127.0.0.1:1\", \"[::1]:2\"]\n[doors]\njobber = 3000\n");
    let shown = show::text(&raw);
    assert!(shown.contains("jobber = 3000"), "{shown}");
    let mut again = from_file(&shown);
    assert_eq!(
        understand(&mut again).ok(),
        understand(&mut from_file(
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
        let said = schema.pointer(&place).unwrap_or_else(|| panic!("{place} is missing"));
        assert_eq!(said.get("default").is_some(), key.default.is_some(), "{place}");
        let is_number = said.get("type").is_some_and(|kind| kind == "integer");
        assert_eq!(
            said.get("default").is_some_and(serde_json::Value::is_u64),
            is_number && key.default.is_some()
        );
    }
}

/// The reference page is made from the sections; a test that fails prints what it should be.
#[test]
fn the_reference_page_explains_every_key() {
    let written = include_str!("../../../../docs/reference/config.md");
    assert!(written == page::page(), "docs/reference/config.md should be:\n{}", page::page());
}
