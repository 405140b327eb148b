//! Decoding of bytes that no encoder wrote.

use crore_core::Time;

use super::stored::{plain_live, plain_spec};
use super::*;

#[test]
fn other_versions_and_unknown_fields_are_refused() {
    let unknown_version = Damaged("unknown version");
    let unknown_field = Damaged("unknown field");
    for version in [0, 2, 255] {
        let bytes = [&[version][..], &encode(&plain_spec(), put_spec)[1..]].concat();
        assert_eq!(decode_all(&bytes, get_spec), Err(unknown_version));
        assert_eq!(peek_spec(&mut ByteReader::new(&bytes)), Err(unknown_version));
        let bytes = [&[version][..], &encode(&plain_live(), put_live)[1..]].concat();
        assert_eq!(decode_all(&bytes, get_live), Err(unknown_version));
        let bytes = [&[version][..], &encode(&Group::default(), put_group)[1..]].concat();
        assert_eq!(decode_all(&bytes, get_group), Err(unknown_version));
    }
    let with_bit = |bit: u32| {
        let mut bytes = vec![1];
        bytes.put_var(1 << bit);
        bytes.extend([1; 100]);
        bytes
    };
    for bit in 17..64 {
        if ![17, 18, 19, 20, 21, 22, 23].contains(&bit) {
            assert_eq!(get_spec(&mut ByteReader::new(&with_bit(bit))), Err(unknown_field), "{bit}");
        }
        if ![17, 19].contains(&bit) {
            assert_eq!(get_live(&mut ByteReader::new(&with_bit(bit))), Err(unknown_field), "{bit}");
        }
        assert_eq!(get_group(&mut ByteReader::new(&with_bit(bit))), Err(unknown_field), "{bit}");
    }
    assert_eq!(get_group(&mut ByteReader::new(&with_bit(3))), Err(unknown_field));
    let once_of_nothing = Damaged("read-once flag without a result");
    assert_eq!(get_live(&mut ByteReader::new(&with_bit(8))), Err(once_of_nothing));
    let details_of_nothing = Damaged("details without a history");
    assert_eq!(get_live(&mut ByteReader::new(&with_bit(15))), Err(details_of_nothing));
}

#[test]
fn a_follow_up_of_a_follow_up_is_damage() {
    let nested = |spec: Spec, next: Spec| Spec { on_expired: Some(Box::new(next.into())), ..spec };
    let one = nested(plain_spec(), plain_spec());
    assert_eq!(decode_all(&encode(&one, put_spec), get_spec), Ok(one.clone()));
    let two = encode(&nested(plain_spec(), one), put_spec);
    assert_eq!(decode_all(&two, get_spec), Err(Damaged("follow-up of a follow-up")));
}

#[test]
fn instants_out_of_range_are_damage_and_not_clamped() {
    let read = |base: Time, millis: i64| {
        let mut bytes = Vec::new();
        bytes.put_zig(millis);
        ByteReader::new(&bytes).time(base)
    };
    let outside = Err(Damaged("time out of range"));
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
    let var = |bytes: &[u8]| decode_all(bytes, ByteReader::var);
    assert_eq!(var(&[0x7f]), Ok(127));
    assert_eq!(var(&[0x80, 1]), Ok(128));
    let most = [&[255; 9][..], &[1]].concat();
    assert_eq!(var(&most), Ok(u64::MAX));
    for (long, why) in [
        (&[0x80, 0][..], "number not in its shortest form"),
        (&[255, 255, 0], "number not in its shortest form"),
        (&[&[255; 9][..], &[2]].concat(), "number with more than 64 bits"),
        (&[&[255; 9][..], &[0x81, 0]].concat(), "number with more than 64 bits"),
        (&[128; 11], "number with more than 64 bits"),
    ] {
        assert_eq!(var(long), Err(Damaged(why)), "{long:?}");
    }
    assert!(decode_all(&encode(&(1 << 32), |n, out| out.put_var(*n)), ByteReader::var32).is_err());
    for outside in [i64::from(i32::MAX) + 1, i64::from(i32::MIN) - 1] {
        assert!(
            decode_all(&encode(&outside, |n, out| out.put_zig(*n)), ByteReader::zig32).is_err()
        );
    }
}

#[test]
fn lengths_beyond_the_input_are_refused_before_allocation() {
    for n in [4, u64::from(u32::MAX), u64::MAX] {
        let mut bytes = Vec::new();
        bytes.put_var(n);
        bytes.extend([1, 2, 3]);
        let cut = Damaged("truncated data");
        let unread = |_: &mut ByteReader<'_>| -> Result<(), _> { panic!("a value was read") };
        assert_eq!(ByteReader::new(&bytes).list(1, unread), Err(cut));
        assert_eq!(ByteReader::new(&bytes).count(1), Err(cut));
        assert_eq!(ByteReader::new(&bytes).chunk(), Err(cut));
    }
    assert_eq!(ByteReader::new(&[3, 1, 2, 3]).count(1), Ok(3));
    assert!(ByteReader::new(&[2, 1, 2, 3]).count(2).is_err());
}

#[test]
fn texts_names_and_labels_are_checked() {
    assert_eq!(decode_all(&[2, 0xc3, 0xa9], ByteReader::text), Ok("é"));
    assert_eq!(decode_all(&[1, 0xc3], ByteReader::text), Err(Damaged("text is not UTF-8")));
    for bad in [&[0][..], &[1, 0], &[&[0x80, 2][..], &[b'q'; 256]].concat()] {
        assert_eq!(decode_all(bad, ByteReader::name), Err(Damaged("invalid name")));
    }
    let labels = [("a".to_owned(), String::new()), ("b".to_owned(), String::new())].into();
    let bytes = encode(&Spec { labels, ..plain_spec() }, put_spec);
    for (from, to) in [(b'a', b'b'), (b'b', b'a'), (b'a', b'c')] {
        let at = bytes.windows(3).position(|three| three == [1, from, 0]).expect("a label");
        let mut bytes = bytes.clone();
        bytes[at + 1] = to;
        assert_eq!(decode_all(&bytes, get_spec), Err(Damaged("labels out of order")));
    }
}

#[test]
fn fixed_numbers_are_little_endian() {
    let mut bytes = Vec::new();
    bytes.put_u32(1);
    bytes.put_u64(u64::MAX - 1);
    assert_eq!(hex(&bytes), "01000000feffffffffffffff");
    let mut reader = ByteReader::new(&bytes);
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
        spec in sample::spec_and_follow_up(), live in sample::live(),
        at: proptest::sample::Index, byte: u8,
    ) {
        for mut bytes in [encode(&spec, put_spec), encode(&live, put_live)] {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            read_all(&bytes);
        }
    }
}

/// Decodes `bytes` as every type. A value that can be decoded can be encoded and decoded again.
fn read_all(bytes: &[u8]) {
    let reader = ByteReader::new(bytes);
    let _ = peek_spec(&mut reader.clone());
    let _ = get_spec_with(&mut reader.clone(), name("q"), name("k"));
    let _ = peek_live(&mut reader.clone());
    if let Ok(spec) = get_spec(&mut reader.clone()) {
        assert_eq!(decode_all(&encode(&spec, put_spec), get_spec), Ok(spec));
    }
    if let Ok(live) = get_live(&mut reader.clone()) {
        assert_eq!(decode_all(&encode(&live, put_live), get_live), Ok(live));
    }
    if let Ok(group) = get_group(&mut reader.clone()) {
        assert_eq!(decode_all(&encode(&group, put_group), get_group), Ok(group));
    }
}
