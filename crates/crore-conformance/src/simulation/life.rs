//! The life of the store's process: opened, driven, ended.

use std::sync::Arc;

use crore_testkit::history::{Fault as Injected, Node};

use super::coverage::Sometimes;
use super::watch::Watch;
use super::world::World;

/// The node, as the history calls it.
pub(super) const NODE: &str = "n1";

/// How often a store may fail to open in a row: each time the power goes again, or the disk heals.
const OPENINGS: usize = 20;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It is killed; what it wrote stays.
    Kill,
    /// The power goes; what was not synced may be lost.
    PowerCut,
    /// The power goes, and tears many of the sectors that were being written.
    Torn,
}

impl World<'_> {
    pub(super) fn commit(&mut self) -> bool {
        let Some(node) = &self.node else { return false };
        let turns = self.scene().dice.choose([0, 0, 0, 1, 5]);
        if turns > 0 {
            self.told.come_between(Arc::clone(&node.loops), turns);
        }
        let did = node.loops.commit_once();
        self.told.stay_away();
        if self.told.take_ended() {
            self.scene().gave_up = true;
        }
        self.scene().turned("commit", &did);
        self.hear_of_room();
        did.unwrap_or(false)
    }

    pub(super) fn keep(&mut self) -> bool {
        let Some(node) = &self.node else { return false };
        let did = node.loops.keep_once();
        self.scene().turned("keep", &did);
        if self.hear_of_room() {
            self.scene().happened(Sometimes::FullWhileTidying);
        }
        if self.told.take_reused() {
            self.scene().happened(Sometimes::FileUsedAgain);
        }
        did.unwrap_or(false)
    }

    /// Tidies up for some turns, or until there is nothing to do.
    pub(super) fn keep_on(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.keep() {
                return;
            }
        }
    }

    /// Notes it if the store was told that there is no room. The history does not hear of it: a store
    /// that tidies up makes room on a full disk, and may say yes again.
    fn hear_of_room(&mut self) -> bool {
        let told = self.told.take_full();
        self.failed |= told;
        told
    }

    /// The process ends, and with it all that was under way.
    pub(super) fn end(&mut self, how: End) {
        let seed = self.scene().dice.roll();
        let (disk, fault) = match how {
            End::Kill => (self.disk.kill(), Injected::Crash),
            End::PowerCut => (self.disk.crash(seed), Injected::PowerCut),
            End::Torn => (self.disk.tear(seed), Injected::PowerCut),
        };
        {
            let mut scene = self.scene();
            scene.say("store", format_args!("ends: {how:?}"));
            scene.recorder.fault(NODE, fault);
            scene.gave_up = false;
            let keys = std::mem::take(&mut scene.known.keys_under_way);
            scene.known.cut_keys.extend(keys);
        }
        self.disk = disk;
        self.node = None;
        self.failed = false;
        self.broken = false;
        self.lingers_until = 0;
        // Nobody hears of these any more.
        self.under_way.clear();
    }

    /// Opens the store on what the disk has kept, again and again if the power goes meanwhile.
    pub(super) fn open(&mut self) {
        for _ in 0..OPENINGS {
            let cut = self.cut_ahead();
            let clock = Arc::new(self.scene().clock.clone());
            let config = self.scene().config.clone();
            let disk = Arc::new(Watch::new(&self.disk, &self.told));
            let opened = self.subject.open(disk, clock, &config);
            self.hear_of_room();
            let died = cut.is_some_and(|at| self.disk.calls() >= at);
            self.disk.crash_at(u64::MAX);
            match opened {
                Ok(node) if !died => {
                    self.node = Some(node);
                    let mut scene = self.scene();
                    scene.recorder.node(NODE, Node::Opened);
                    scene.say("store", format_args!("opened"));
                    drop(scene);
                    return self.look_over();
                }
                _ if died => {
                    self.scene().happened(Sometimes::CutWhileOpening);
                    self.end(End::PowerCut);
                }
                Err(error) if self.full_until.is_some() => {
                    self.scene().say("store", format_args!("does not open: {error}"));
                    self.free();
                }
                Ok(_) => {}
                Err(error) => {
                    let message = error.to_string();
                    let mut scene = self.scene();
                    scene.wrong(format!("the store does not open: {error:?}"));
                    scene.recorder.node(NODE, Node::Refused { message });
                    return;
                }
            }
        }
    }

    /// Whether the power is to go while the store opens, and at which call.
    fn cut_ahead(&self) -> Option<u64> {
        let mut scene = self.scene();
        let often = scene.config.faults.cut_inside;
        if often == 0 || !scene.dice.one_in(4) {
            return None;
        }
        let at = self.disk.calls() + scene.dice.from(1, 12);
        self.disk.crash_at(at);
        Some(at)
    }
}
