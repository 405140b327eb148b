use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::time::Span;
use crate::units::Size;

one_of! {
    /// Verbosity.
    enum Level {
        /// Errors only.
        Low = "low",
        /// Everything.
        High = "high",
    }
}

section! {
    /// How files are kept,
    /// and where.
    struct Options = "files" {
        //! For programs.

        /// Retention.
        keep_for: Span = "1h30m",
        /// Maximum size.
        bytes: usize as max_size: Size = "64KiB",
        /// Verbosity.
        level: Level = "low",
        /// Directory.
        dir: Option<PathBuf> = none,
        /// Names.
        names: Vec<u32> = none,
        /// Maximum number.
        most: u64 as most: Unlimited = none,
        /// Random seed.
        seed: u64 => 7,
        /// Rotation.
        ..rotation: Rotation,
    }
    shown every, keep_for, max_size, level, names, dir, most;
}

section! {
    /// File rotation.
    struct Rotation = "files" {
        /// Rotation interval.
        every: Span = "1d",
    }
}

#[derive(Default)]
struct TestValues {
    values: BTreeMap<&'static str, SettingValue>,
    refused: Vec<(String, String)>,
}

impl ValueSource for TestValues {
    fn given(&mut self, key: &SettingKey) -> Option<SettingValue> {
        self.values.get(key.ident).cloned()
    }

    fn refuse(&mut self, key: &SettingKey, message: String) {
        self.refused.push((key.path(), message));
    }
}

fn test_values(values: &[(&'static str, &str)]) -> TestValues {
    let one = |(key, value): &(&'static str, &str)| (*key, SettingValue::One((*value).to_owned()));
    TestValues { values: values.iter().map(one).collect(), refused: Vec::new() }
}

#[test]
fn defaults_equal_the_declaration() {
    let usual = Options::default();
    assert_eq!((usual.keep_for, usual.bytes), (Span::from_secs(5400), 64 << 10));
    assert_eq!((usual.level, usual.dir.clone(), usual.names.len()), (Level::Low, None, 0));
    assert_eq!((usual.most, usual.seed), (u64::MAX, 7));
    assert_eq!(usual.rotation.every, Span::from_secs(86_400));
    assert_eq!(Options::read(&mut TestValues::default()), usual);
}

#[test]
fn keys_are_shown_in_the_declared_order_including_parts() {
    let info = Options::INFO;
    assert_eq!(
        (info.name, doc_text(info.about)),
        ("files", "How files are kept, and where.".into())
    );
    let names: Vec<String> = info.keys.iter().map(SettingKey::name).collect();
    assert_eq!(names, ["every", "keep-for", "max-size", "level", "names", "dir", "most"]);
    let size = info.keys[2];
    assert_eq!(
        (size.path(), size.variable()),
        ("files.max-size".into(), "CRORE_FILES__MAX_SIZE".into())
    );
    assert_eq!((size.shape, size.default), (Shape::Size, Some("64KiB")));
    assert_eq!(info.keys[3].shape, Shape::OneOf(&["low", "high"]));
}

#[test]
fn given_values_win_and_invalid_ones_are_reported_and_defaulted() {
    let mut given = test_values(&[
        ("keep_for", "2s"),
        ("max_size", "much"),
        ("level", "high"),
        ("names", "1, 2,99999999999"),
        ("most", "1_000"),
        ("every", "never"),
    ]);
    let read = Options::read(&mut given);
    assert_eq!((read.keep_for, read.level), (Span::from_secs(2), Level::High));
    assert_eq!((read.bytes, read.most), (64 << 10, 1000));
    assert!(read.names.is_empty(), "one of them is too large");
    let refused: Vec<&str> = given.refused.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(refused, ["files.max-size", "files.names", "files.every"]);
}

#[test]
fn a_list_is_one_text_with_commas_or_several_texts() {
    let many = SettingValue::Many(vec!["3".to_owned(), "4".to_owned()]);
    assert_eq!(Vec::<u32>::read(&many), Ok(vec![3, 4]));
    assert_eq!(Vec::<u32>::read(&SettingValue::One("3 ,4".to_owned())), Ok(vec![3, 4]));
    assert!(SettingValue::One("a,,b".to_owned()).words().is_err());
    assert!(u64::read(&many).is_err(), "a list is not one value");
}

#[test]
fn numbers_that_are_too_large_saturate() {
    assert_eq!(u32::read(&SettingValue::One("4_294_967_296".to_owned())), Ok(u32::MAX));
    assert!(u32::read(&SettingValue::One("-1".to_owned())).is_err());
}
