//! `crore dev`.

use crore_testkit::eventually;

use crate::binary::{LONG, Server, dir};

#[test]
fn jobs_flow_and_nothing_is_left_behind() {
    let dir = dir();
    let mut server = Server::start_with(dir.path(), "dev", &[]);
    eventually(LONG, || {
        let output = server.stdout();
        let seen =
            |what: &str| output.lines().any(|line| line.starts_with('#') && line.ends_with(what));
        (seen("pushed") && seen("done")).then_some(()).ok_or(output)
    });
    let queues = server.run(&["queue", "ls"]).success();
    assert!(queues.contains("mail"), "{queues}");
    eventually(LONG, || {
        let done = server.run(&["job", "ls", "kind:words state:done"]).success();
        done.contains("words").then_some(()).ok_or(done)
    });
    assert!(server.run(&["handler", "ls"]).success().contains("greet"));
    server.signal("INT");
    assert!(server.wait().success(), "{}", server.log());
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
}
