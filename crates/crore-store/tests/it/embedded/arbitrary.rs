//! The body of the fuzz target `recover`, on real stores. `crore-fuzz` runs it on the corpus.

use crore_conformance::fuzz::recover;

use super::script::record_script;

/// Real stores with changed bytes, with and without corrected checksums.
#[test]
fn real_files_with_changes_are_opened_or_refused() {
    let (chapters, _) = record_script(4, 24, 20);
    let mut random = 1_u64;
    for chapter in &chapters {
        let image = chapter.disk.image();
        for mode in [0, 1, 3] {
            let whole = pack(&image, mode);
            recover(&whole);
            for _ in 0..100 {
                let mut changed = whole.clone();
                for _ in 0..4 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (random >> 33) as usize % changed.len();
                    changed[at] = (random >> 20) as u8;
                }
                recover(&changed);
            }
        }
    }
}

/// Packs files as input of the fuzz target.
fn pack(image: &std::collections::BTreeMap<String, Vec<u8>>, mode: u8) -> Vec<u8> {
    let mut out = vec![mode];
    for (name, bytes) in image {
        let (kind, number) = name.split_once('-').expect("a name and a number");
        out.push(u8::from(kind == "hint"));
        out.push(number.parse().expect("a small number"));
        let len = u16::try_from(bytes.len()).expect("a small file");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out
}
