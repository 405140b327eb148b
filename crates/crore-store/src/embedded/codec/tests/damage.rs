//! Bytes that nobody wrote.

use crore_core::Time;

use super::stored::{plain_live, plain_spec};
use super::*;

#[test]
fn other_versions_and_unknown_fields_are_refused() {
    let unknown_version = Damaged("its version is unknown");
    let unknown_field = Damaged("it has a field that is unknown");
    for version in [0, 2, 255] {
        let bytes = [&[version][..], &form(&plain_spec(), put_spec)[1..]].concat();
        assert_eq!(whole(&bytes, get_spec), Err(unknown_version));
        assert_eq!(peek_spec(&mut Reader::new(&bytes)), Err(unknown_version));
        let bytes = [&[version][..], &form(&plain_live(), put_live)[1..]].concat();
        assert_eq!(whole(&bytes, get_live), Err(unknown_version));
        let bytes = [&[version][..], &form(&Group::default(), put_group)[1..]].concat();
        assert_eq!(whole(&bytes, get_group), Err(unknown_version));
    }
    let with_bit = |bit: u32| {
        let mut bytes = vec![1];
        bytes.put_var(1 << bit);
        bytes.extend([1; 100]);
        bytes
    };
    for bit in 16..64 {
        assert_eq!(get_spec(&mut Reader::new(&with_bit(bit))), Err(unknown_field), "{bit}");
        assert_eq!(get_live(&mut Reader::new(&with_bit(bit))), Err(unknown_field), "{bit}");
        assert_eq!(get_group(&mut Reader::new(&with_bit(bit))), Err(unknown_field), "{bit}");
    }
    assert_eq!(get_live(&mut Reader::new(&with_bit(15))), Err(unknown_field));
    assert_eq!(get_group(&mut Reader::new(&with_bit(2))), Err(unknown_field));
    let once_of_nothing = Damaged("a result that is not there can be read once");
    assert_eq!(get_live(&mut Reader::new(&with_bit(8))), Err(once_of_nothing));
}

#[test]
fn instants_out_of_range_are_damage_and_not_clamped() {
    let read = |base: Time, millis: i64| {
        let mut bytes = Vec::new();
        bytes.put_zig(millis);
        Reader::new(&bytes).time(base)
    };
    let outside = Err(Damaged("an instant is outside of all time"));
    let last = Time::MAX.as_millis();
    assert_eq!(read(Time::ZERO, last), Ok(Time::MAX));
    assert_eq!(read(Time::MAX, -last), Ok(Time::ZERO));
    for (base, millis) in [
        (Time::ZERO, last + 1),
        (Time::ZERO, -1),
        (Time::MAX, 1),
        (Time::MAX, i64::MAX),
        (Time::MAX, -last - 1),
        (Time::ZERO, i64::MIN),
    ] {
        assert_eq!(read(base, millis), outside, "{base:?} {millis}");
    }
}

#[test]
fn a_number_has_one_form() {
    let var = |bytes: &[u8]| whole(bytes, Reader::var);
    assert_eq!(var(&[0x7f]), Ok(127));
    assert_eq!(var(&[0x80, 1]), Ok(128));
    let most = [&[255; 9][..], &[1]].concat();
    assert_eq!(var(&most), Ok(u64::MAX));
    for (long, why) in [
        (&[0x80, 0][..], "a number is longer than it needs to be"),
        (&[255, 255, 0], "a number is longer than it needs to be"),
        (&[&[255; 9][..], &[2]].concat(), "a number has more than 64 bits"),
        (&[&[255; 9][..], &[0x81, 0]].concat(), "a number has more than 64 bits"),
        (&[128; 11], "a number has more than 64 bits"),
    ] {
        assert_eq!(var(long), Err(Damaged(why)), "{long:?}");
    }
    assert!(whole(&form(&(1 << 32), |n, out| out.put_var(*n)), Reader::var32).is_err());
    for outside in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
        assert!(whole(&form(&outside, |n, out| out.put_zig(*n)), Reader::zig32).is_err());
    }
}

#[test]
fn counts_and_lengths_beyond_the_bytes_are_refused_before_any_room_is_made() {
    for n in [4, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        bytes.put_var(n);
        bytes.extend([1, 2, 3]);
        let cut = Damaged("it ends too early");
        let unread = |_: &mut Reader<'_>| -> Result<(), _> { panic!("a value was read") };
        assert_eq!(Reader::new(&bytes).list(1, unread), Err(cut));
        assert_eq!(Reader::new(&bytes).count(1), Err(cut));
        assert_eq!(Reader::new(&bytes).chunk(), Err(cut));
    }
    assert_eq!(Reader::new(&[3, 1, 2, 3]).count(1), Ok(3));
    assert!(Reader::new(&[2, 1, 2, 3]).count(2).is_err());
}

#[test]
fn texts_names_and_labels_are_checked() {
    assert_eq!(whole(&[2, 0xc3, 0xa9], Reader::text), Ok("é"));
    assert_eq!(whole(&[1, 0xc3], Reader::text), Err(Damaged("a text is not UTF-8")));
    for bad in [&[0][..], &[1, 0], &[&[0x80, 2][..], &[b'q'; 256]].concat()] {
        assert_eq!(whole(bad, Reader::name), Err(Damaged("a name breaks the rules of names")));
    }
    let labels = [("a".to_owned(), String::new()), ("b".to_owned(), String::new())].into();
    let bytes = form(&Spec { labels, ..plain_spec() }, put_spec);
    for (from, to) in [(b'a', b'b'), (b'b', b'a'), (b'a', b'c')] {
        let at = bytes.windows(3).position(|three| three == [1, from, 0]).expect("a label");
        let mut bytes = bytes.clone();
        bytes[at + 1] = to;
        assert_eq!(whole(&bytes, get_spec), Err(Damaged("its labels are out of order")));
    }
}

#[test]
fn fixed_numbers_are_little_endian() {
    let mut bytes = Vec::new();
    bytes.put_u32(1);
    bytes.put_u64(u64::MAX - 1);
    assert_eq!(hex(&bytes), "01000000feffffffffffffff");
    let mut reader = Reader::new(&bytes);
    assert_eq!((reader.u32(), reader.u64()), (Ok(1), Ok(u64::MAX - 1)));
    assert!(reader.rest().is_empty() && reader.u32().is_err());
}

proptest! {
    #[test]
    fn any_bytes_give_a_value_or_damage(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_all(&bytes);
        read_all(&[&[1][..], &bytes].concat());
    }

    #[test]
    fn changed_bytes_give_a_value_or_damage(
        spec in sample::spec(), live in sample::live(),
        at: proptest::sample::Index, byte: u8,
    ) {
        for mut bytes in [form(&spec, put_spec), form(&live, put_live)] {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            read_all(&bytes);
        }
    }
}

/// Reads `bytes` as everything. What can be read at all can be written and read again.
fn read_all(bytes: &[u8]) {
    let reader = Reader::new(bytes);
    let _ = peek_spec(&mut reader.clone());
    let _ = get_spec_with(&mut reader.clone(), name("q"), name("k"));
    let _ = peek_live(&mut reader.clone());
    if let Ok(spec) = get_spec(&mut reader.clone()) {
        assert_eq!(whole(&form(&spec, put_spec), get_spec), Ok(spec));
    }
    if let Ok(live) = get_live(&mut reader.clone()) {
        assert_eq!(whole(&form(&live, put_live), get_live), Ok(live));
    }
    if let Ok(group) = get_group(&mut reader.clone()) {
        assert_eq!(whole(&form(&group, put_group), get_group), Ok(group));
    }
}
