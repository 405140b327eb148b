//! Every call of every door: with each scope, and with tokens that are restricted to queues and kinds.
//!
//! A call without a row fails the test of its door. A row names the scopes (the call needs one of them), and
//! how a restriction applies to it.

mod grpc;
mod http;

use ::http::Method;
use crore::core::handler::ResultWaiter;
use crore::core::push::NewGroup;
use crore::core::schedule::{Missed, Timing};
use crore::core::{Batch, GroupId, Handler, JobId, Name, NewJob, Payload, Spec};
use crore_api::{Grant, Scope, access};
use crore_wire::api::tokens::NewToken;
use serde_json::json;

use crate::server::{BodyEncoding, Server};

/// How a restriction applies to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// It names a job, or a queue and a kind: both have to be covered.
    Job,
    /// It concerns all jobs of a queue: also, the token must not be restricted to kinds.
    WholeQueue,
    /// It concerns all jobs of a kind: also, the token must not be restricted to queues.
    WholeKind,
    /// It names a kind, which has to be covered.
    Kind,
    /// It names a queue, which has to be covered.
    Queue,
    /// It names a group, which the token has to have created.
    Group,
    /// It returns what is covered, and leaves out the rest.
    Filtered,
    /// It belongs to no queue and kind: restricted tokens are refused.
    Refused,
    /// It shows and changes nothing that belongs to a queue or kind.
    Open,
}

/// A queue and a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    queue: &'static str,
    kind: &'static str,
}

impl Place {
    const INSIDE: Self = Self { queue: "mail", kind: "send" };
    const OUTSIDE: Self = Self { queue: "sms", kind: "resize" };
}

const QUEUES: [&str; 3] = ["mail*", "lightjq", "job*"];
const KINDS: [&str; 2] = ["send*", "job*"];

/// A token.
#[derive(Debug, Clone)]
struct Bearer {
    scopes: Vec<Scope>,
    by_queue: bool,
    by_kind: bool,
    header: String,
}

impl Bearer {
    /// Whether the call of a row is allowed at this place, for a group of its own or another.
    fn may(&self, scopes: &[Scope], rule: Rule, place: Place) -> bool {
        let covers = |restricted: bool, names: &[&str], name: &str| {
            !restricted || names.iter().any(|known| name.starts_with(known.trim_end_matches('*')))
        };
        let queue = covers(self.by_queue, &QUEUES, place.queue);
        let kind = covers(self.by_kind, &KINDS, place.kind);
        let is_restricted = self.by_queue || self.by_kind;
        let within = match rule {
            Rule::Job => queue && kind,
            Rule::WholeQueue => queue && !self.by_kind,
            Rule::WholeKind => kind && !self.by_queue,
            Rule::Kind => kind,
            Rule::Queue => queue,
            Rule::Group => !is_restricted || place == Place::INSIDE,
            Rule::Filtered | Rule::Open => true,
            Rule::Refused => !is_restricted,
        };
        within && scopes.iter().any(|scope| self.scopes.contains(scope))
    }
}

/// The things that a call is about.
#[derive(Debug, Clone, Copy)]
struct Subject {
    place: Place,
    job: JobId,
    group: GroupId,
    /// Id of the handler of the kind.
    handler: u64,
    /// A number that no other call has, for new names.
    n: usize,
}

/// A server with tokens.
struct World {
    server: Server,
    n: std::cell::Cell<usize>,
}

fn name(text: &str) -> Name {
    Name::new("name", text).expect("a good name")
}

impl World {
    async fn start() -> Self {
        let world = Self { server: Server::start().await, n: std::cell::Cell::new(0) };
        for place in [Place::INSIDE, Place::OUTSIDE] {
            world.define(place).await;
        }
        world
    }

    /// Tokens with one scope each.
    async fn single_scopes(&self) -> Vec<Bearer> {
        let mut bearers = Vec::new();
        for scope in Scope::ALL {
            bearers.push(self.bearer(&format!("one-{scope}"), &[*scope], (false, false)).await);
        }
        bearers
    }

    /// Tokens with all scopes that can be restricted, and each sort of restriction.
    async fn restricted(&self) -> Vec<Bearer> {
        let scopes: Vec<_> =
            Scope::ALL.iter().copied().filter(|scope| *scope != Scope::Admin).collect();
        let mut bearers = Vec::new();
        for by in [(true, true), (true, false), (false, true)] {
            bearers.push(self.bearer(&format!("restricted {by:?}"), &scopes, by).await);
        }
        bearers
    }

    async fn bearer(
        &self,
        name: &str,
        scopes: &[Scope],
        (by_queue, by_kind): (bool, bool),
    ) -> Bearer {
        let patterns = |restricted: bool, all: &[&str]| match restricted {
            true => all.iter().map(ToString::to_string).collect(),
            false => Vec::new(),
        };
        let new = NewToken {
            name: name.to_owned(),
            preset: None,
            scopes: scopes.to_vec(),
            expires_in: None,
            queues: patterns(by_queue, &QUEUES),
            kinds: patterns(by_kind, &KINDS),
        };
        let (_, secret) = access::create(&self.server.engine, &new).await.expect("made");
        let header = format!("Bearer {}", secret.reveal());
        Bearer { scopes: scopes.to_vec(), by_queue, by_kind, header }
    }

    /// A handler and a schedule of this place.
    async fn define(&self, place: Place) -> u64 {
        let engine = &self.server.engine;
        let settings = json!({"program": "date"}).as_object().cloned().unwrap_or_default();
        let mut handler = Handler::new(name("command"), settings);
        handler.queue = name(place.queue);
        handler.results.answer = ResultWaiter::Listen;
        let set = engine.handlers().set(name(place.kind), handler).await;
        let timing = Timing::parse("timing", "every 1h").expect("a timing");
        let job = Spec::new(name(place.queue), name(place.kind), Payload::json("1"));
        let schedules = engine.schedules();
        schedules.set(name(place.queue), timing, Missed::Skip, job.into()).await.expect("set");
        set.expect("set")
    }

    /// A fresh job and group, created by the bearer if it may and the place is inside, or else without a token.
    async fn subject(&self, bearer: &Bearer, place: Place) -> Subject {
        self.n.set(self.n.get() + 1);
        let handler = self.define(place).await;
        let is_own = bearer.may(&[Scope::Push], Rule::Job, place) && place != Place::OUTSIDE;
        let spec = Spec::new(name(place.queue), name(place.kind), Payload::json("{}"));
        let (job, group) = if is_own {
            self.push_as(bearer, place).await
        } else {
            let groups = vec![NewGroup { open: true, maker: None }];
            let batch = Batch { groups, jobs: vec![NewJob::from(spec)] };
            let api = self.server.doors.api();
            let pushed = api.push(&Grant::full(), batch, None).await.expect("pushed");
            (pushed.jobs[0].id().expect("stored"), pushed.groups[0])
        };
        Subject { place, job, group, handler, n: self.n.get() }
    }

    async fn push_as(&self, bearer: &Bearer, Place { queue, kind }: Place) -> (JobId, GroupId) {
        let body = json!({"jobs": [{"queue": queue, "kind": kind, "payload": {}}], "groups": [{"open": true}]});
        let json = BodyEncoding::Json;
        let headers =
            [("authorization", bearer.header.as_str()), ("content-type", json.media_type())];
        let path = (Method::POST, "/v1/jobs");
        let pushed = self.server.send(json, path, &headers, json.encode(&body)).await;
        let id = |value: &serde_json::Value| value.as_str().and_then(|text| text.parse().ok());
        let job = id(&pushed.body["jobs"][0]["id"]).unwrap_or_else(|| panic!("{pushed:?}"));
        (JobId(job), GroupId(id(&pushed.body["groups"][0]).expect("a group")))
    }
}
