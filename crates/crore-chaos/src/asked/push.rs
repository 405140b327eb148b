//! Pushing: one job, perhaps under a name, or a batch.

use crore_testkit::history::answer::Pushed;
use crore_testkit::history::{Answer, Op};
use crore_wire::Raw;
use crore_wire::api::push::{self, PushedAll};

use super::Caller;
use crate::client::{Ask, Heard};
use crate::desk::Unanswered;
use crate::draft::Draft;

impl Caller {
    /// Pushes one job; under a name, it is said again until it is answered.
    pub(crate) async fn push(&mut self, draft: Draft, key: Option<String>) {
        let draft = if let Some(key) = &key { draft.under(key) } else { draft };
        let known = self.desk.remember(&draft);
        let mut ask = Ask::post("/v1/jobs", self.format(), &draft.said(self.format()));
        ask.key = key;
        let call = self.begin(Op::Push { groups: 0, items: vec![draft.item()] });
        let format = self.format();
        self.push_said(Unanswered { ask, format, call, known }).await;
    }

    /// Sends a push, perhaps not for the first time.
    pub(crate) async fn push_said(&mut self, push: Unanswered) {
        let heard = self.client.call::<push::Pushed>(&push.ask).await;
        match heard {
            Heard::Yes(pushed) => {
                let items = vec![self.pushed(&pushed)];
                if let Pushed::New(id) = items[0] {
                    self.desk.has(id, push.known);
                }
                self.answered(push.call, Answer::Pushed { groups: Vec::new(), items });
            }
            // A refusal of what is said again says nothing of what was said before.
            Heard::No(..) | Heard::Nothing(_) if push.ask.key.is_some() => {
                if let Heard::Nothing(why) = &heard {
                    self.desk.heard_nothing("push", why);
                }
                self.desk.unanswered(push);
            }
            heard => self.unheard(push.call, "push", &heard),
        }
    }

    /// Pushes a batch.
    pub(crate) async fn push_all(&mut self, drafts: &[Draft]) {
        let known: Vec<_> = drafts.iter().map(|draft| self.desk.remember(draft)).collect();
        let format = self.format();
        let raw = |draft: &Draft| Raw::new(format, format.encode(&draft.said(format)));
        let jobs = drafts.iter().map(raw).collect();
        let ask = Ask::post("/v1/jobs", format, &push::NewJobs { jobs, groups: Vec::new() });
        let items = drafts.iter().map(Draft::item).collect();
        let call = self.begin(Op::Push { groups: 0, items });
        match self.client.call::<PushedAll>(&ask).await {
            Heard::Yes(pushed) => {
                let items: Vec<_> = pushed.jobs.iter().map(|pushed| self.pushed(pushed)).collect();
                for (item, known) in items.iter().zip(known) {
                    if let Pushed::New(id) = item {
                        self.desk.has(*id, known);
                    }
                }
                self.answered(call, Answer::Pushed { groups: Vec::new(), items });
            }
            heard => self.unheard(call, "push", &heard),
        }
    }

    pub(super) fn pushed(&self, pushed: &push::Pushed) -> Pushed {
        match (pushed.status, pushed.id) {
            (push::Took::New, Some(id)) => Pushed::New(id.into()),
            (push::Took::Duplicate, Some(id)) => Pushed::Duplicate(id.into()),
            _ => {
                self.desk.wrong(format!("a good job was refused: {pushed:?}"));
                Pushed::Broken
            }
        }
    }
}
