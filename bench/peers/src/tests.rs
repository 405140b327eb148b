//! The `crore` client on the built server, without peers.

use std::sync::Arc;

use crore_testkit::server_binary;

use crate::crore::{self, CrorePeer};
use crate::ledger::{LedgerPlan, PeerLedger};
use crate::peer::{ALL, QueuePeer};

#[test]
fn every_job_that_goes_through_the_built_server_is_accounted_for() {
    let program = server_binary().expect("a server");
    let dir = tempfile::tempdir().expect("a directory");
    for setting in CrorePeer.settings().expect("settings") {
        let server = crore::start(&program, &setting, dir.path()).expect("started");
        let ledger = Arc::new(PeerLedger::new(LedgerPlan::PickUp(20)));
        let left = CrorePeer.drive(&setting, server.port(), &ledger).expect("driven");
        let (account, _, times) = ledger.close(left);
        assert!(account.is_balanced(), "{}: {account:?}", setting.name);
        assert_eq!((account.finished, account.doubled, times.len()), (20, 0, 20));
    }
}

#[test]
fn names_of_peers_are_different() {
    let mut names = ALL.map(QueuePeer::name);
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
}
