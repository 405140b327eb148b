//! The child process rejects a start by hand and invalid requests.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crore_plugin_host::frame::{HostReply, HostRequest, read};

fn host(library: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crore-plugin-host"));
    command.arg(library).env_clear();
    command
}

/// A child whose standard output is a socket, and the other end of that socket.
fn child(library: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let child = host(library)
        .stdin(Stdio::piped())
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    (child, ours)
}

#[test]
fn start_by_hand_is_refused() {
    let output = host("any.so").output().expect("it runs");
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!output.status.success());
    let expected = "plugin host: standard output is not a socket; crore starts this program, do not run it by hand\n";
    assert_eq!(stderr, expected);
}

#[test]
fn missing_library_is_reported_in_a_reply() {
    let (mut child, mut stream) = child("/no/such/library.so");
    let mut requests = child.stdin.take().expect("piped");
    requests.write_all(&HostRequest::Load { memory: 0 }.encode()).expect("it listens");
    let frame = read(&mut stream, 1 << 20).expect("a frame").expect("an answer");
    let reply = HostReply::decode(frame).expect("it is decoded");
    let HostReply::Unusable(why) = reply else { panic!("{reply:?}") };
    assert!(why.starts_with("`/no/such/library.so` cannot be loaded: "), "{why}");
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn invalid_requests_are_refused() {
    let run = HostRequest::Run { run: 1, max_output: 1, argument: Vec::new().into() }.encode();
    let cases: [(&[u8], &str); 4] = [
        (&[255, 255, 255, 255, b'L'], "frame with invalid length 4294967295"),
        (&[1, 0, 0, 0, b'?'], "frame with unknown tag 63"),
        (&[3, 0, 0, 0, b'L', 1, 2], "frame with invalid body"),
        (&run, "the first request must load a plugin"),
    ];
    for (bytes, why) in cases {
        let (mut child, _stream) = child("any.so");
        child.stdin.take().expect("piped").write_all(bytes).expect("it listens");
        assert!(!child.wait().expect("it ends").success());
        let mut stderr = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
        assert!(stderr.contains(why), "{stderr}");
    }
}
