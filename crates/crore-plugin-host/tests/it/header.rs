//! The Rust interface and the C header agree.

use std::fmt::Write;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use crore_plugin::abi::{
    AGAIN, AbiResult, BorrowedBytes, Buffer, FATAL, HostContext, OK, OTHER, PluginTable, SYMBOL,
    VERSION,
};
use crore_testkit::{DebianPackage, install_missing};

/// Writes the sizes and offsets of Rust structures, under the names of their C counterparts.
macro_rules! layout {
    ($text:ident; $($c:literal = $rust:ty { $($field:ident),+ })+) => {$(
        let _ = writeln!($text, "{} {}", $c, size_of::<$rust>());
        $(let _ = writeln!($text, "{}.{} {}", $c, stringify!($field), offset_of!($rust, $field));)+
    )+};
}

fn in_rust() -> String {
    let mut text = format!("{VERSION} {OK} {AGAIN} {OTHER} {FATAL}\n");
    layout! { text;
        "crore_bytes" = BorrowedBytes { data, len }
        "crore_buffer" = Buffer { data, len }
        "crore_result" = AbiResult { items, count, error }
        "crore_context" = HostContext { host, is_cancelled, log }
        "crore_plugin" = PluginTable { abi, name, create, run, cancel, destroy, free_result }
    }
    text
}

/// A C program that prints the same for the header.
fn program() -> String {
    let mut lines = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"crore_plugin.h\"\nint main(void) {\n\
         printf(\"%u %u %u %u %u\\n\", CRORE_PLUGIN_ABI, CRORE_OK, CRORE_AGAIN, CRORE_OTHER, CRORE_FATAL);\n",
    );
    for line in in_rust().lines().skip(1) {
        let thing = line.split(' ').next().expect("a first word");
        let value = match thing.split_once('.') {
            None => format!("sizeof({thing})"),
            Some((of, field)) => format!("offsetof({of}, {field})"),
        };
        let _ = writeln!(lines, "printf(\"{thing} %zu\\n\", {value});");
    }
    lines + "return 0; }\n"
}

#[test]
fn the_header_and_the_crate_agree_on_every_number_size_and_offset() {
    install_missing(&[DebianPackage::Other { name: "gcc", programs: &["cc"] }])
        .expect("a compiler");
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdks/plugin");
    let dir = tempfile::tempdir().expect("a directory");
    let (source, built) = (dir.path().join("layout.c"), dir.path().join("layout"));
    fs::write(&source, program()).expect("written");
    let strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"];
    let compiled = Command::new("cc")
        .args(strict)
        .arg("-I")
        .arg(&sdk)
        .arg(&source)
        .arg("-o")
        .arg(&built)
        .status();
    assert!(compiled.expect("cc runs").success());
    let printed = Command::new(built).output().expect("it runs").stdout;
    assert_eq!(String::from_utf8(printed).expect("UTF-8"), in_rust());
    let header = fs::read_to_string(sdk.join("crore_plugin.h")).expect("the header");
    assert!(header.contains(&format!("const crore_plugin *{SYMBOL}(void);")));
}
