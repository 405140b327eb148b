//! The interface in Rust and the header in C are the same.

use std::fmt::Write;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use crore_plugin::abi::{
    AGAIN, Buffer, Bytes, FATAL, OK, OTHER, Outcome, SYMBOL, Surroundings, Table, VERSION,
};
use crore_testkit::{Package, install_missing};

/// As [`Table`] is laid out, and as C says it.
macro_rules! layout {
    ($said:ident; $($c:literal = $rust:ty { $($field:ident),+ })+) => {$(
        let _ = writeln!($said, "{} {}", $c, size_of::<$rust>());
        $(let _ = writeln!($said, "{}.{} {}", $c, stringify!($field), offset_of!($rust, $field));)+
    )+};
}

fn in_rust() -> String {
    let mut said = format!("{VERSION} {OK} {AGAIN} {OTHER} {FATAL}\n");
    layout! { said;
        "crore_bytes" = Bytes { data, len }
        "crore_buffer" = Buffer { data, len }
        "crore_result" = Outcome { items, count, error }
        "crore_context" = Surroundings { host, is_cancelled, log }
        "crore_plugin" = Table { abi, name, create, run, cancel, destroy, free_result }
    }
    said
}

/// A program in C that says the same of the header.
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
fn the_header_and_the_crate_agree_on_every_number_size_and_place() {
    install_missing(&[Package::Other { name: "gcc", programs: &["cc"] }]).expect("a compiler");
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
    let said = Command::new(built).output().expect("it runs").stdout;
    assert_eq!(String::from_utf8(said).expect("UTF-8"), in_rust());
    let header = fs::read_to_string(sdk.join("crore_plugin.h")).expect("the header");
    assert!(header.contains(&format!("const crore_plugin *{SYMBOL}(void);")));
}
