//! What is told to whoever starts the child in another way than crore does, and that a peer who lies
//! is not believed.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crore_plugin_host::frame::{Answer, Request, read};

fn host(library: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crore-plugin-host"));
    command.arg(library).env_clear();
    command
}

/// A child with its line, and the other end of it.
fn child(library: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a line");
    let child = host(library)
        .stdin(Stdio::piped())
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    (child, ours)
}

#[test]
fn who_starts_it_by_hand_is_told_that_it_is_not_for_him() {
    let output = host("any.so").output().expect("it runs");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!output.status.success());
    let expected =
        "plugin host: standard output is no socket; crore itself starts this, for plugins\n";
    assert_eq!(said, expected);
}

#[test]
fn a_library_that_is_not_there_is_told_in_an_answer() {
    let (mut child, mut line) = child("/no/such/library.so");
    let mut requests = child.stdin.take().expect("piped");
    requests.write_all(&Request::Load { memory: 0 }.encode()).expect("it listens");
    let frame = read(&mut line, 1 << 20).expect("a frame").expect("an answer");
    let answer = Answer::decode(frame).expect("it is understood");
    let Answer::Unusable(why) = answer else { panic!("{answer:?}") };
    assert!(why.starts_with("`/no/such/library.so` cannot be loaded: "), "{why}");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn a_peer_who_lies_about_a_length_or_says_what_is_not_known_is_refused() {
    let run = Request::Run { run: 1, max_output: 1, argument: Vec::new().into() }.encode();
    let cases: [(&[u8], &str); 4] = [
        (&[255, 255, 255, 255, b'L'], "a frame of 4294967295 bytes"),
        (&[1, 0, 0, 0, b'?'], "a frame of the unknown sort 63"),
        (&[3, 0, 0, 0, b'L', 1, 2], "a frame that does not hold what it says"),
        (&run, "nobody asks to load a plugin"),
    ];
    for (bytes, why) in cases {
        let (mut child, _line) = child("any.so");
        child.stdin.take().expect("piped").write_all(bytes).expect("it listens");
        assert!(!child.wait().expect("it ends").success());
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        assert!(said.contains(why), "{said}");
    }
}
