//! For those who look after a server.

use std::pin::Pin;

use crore::events::Heard;
use crore::store::registry::{Entry, Value};
use crore::store::views;
use crore_core::schedule::Timing;
use crore_core::{Code, Handler, Invalid, Name, State, Time, limit};
use crore_wire::Format;
use crore_wire::api::events::WhichEvents;
use crore_wire::api::handlers::SetHandler;
use crore_wire::api::words::Missed;
use crore_wire::api::{Labels, act as api};
use crore_wire::grpc::v1::{self, act_request, admin_server};
use crore_wire::grpc::{read_word, word};
use crore_wire::words::Moment;
use futures_util::stream::{Stream, StreamExt, unfold};
use tonic::{Request, Response, Status};

use super::fault::{failed, invalid, missing};
use crate::Doors;
use crate::audit::About;
use crate::http::{
    Far, Hearing, about, all_workers, asked, far, next_at, set_handler, shown_handler, shown_limit,
    told_event,
};

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Service(pub(super) Doors);

type Answer<T> = Result<Response<T>, Status>;
/// Answers, one after the other.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl admin_server::Admin for Service {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Answer<v1::InfoResponse> {
        let info = about(&self.0);
        let now_ms = self.0.engine().now().as_millis();
        let (version, durability) = (info.version, info.durability);
        Ok(Response::new(v1::InfoResponse { version, durability, now_ms }))
    }

    async fn counts(&self, request: Request<v1::QueueRef>) -> Answer<v1::CountsResponse> {
        let queue = maybe("queue", &request.into_inner().queue)?;
        let counts = self.0.engine().counts(queue).await.map_err(failed)?;
        let shown = |count: &views::Count| v1::Count {
            queue: count.queue.to_string(),
            kind: count.kind.to_string(),
            state: v1::State::from(count.state).into(),
            n: count.n,
        };
        Ok(Response::new(v1::CountsResponse { counts: counts.iter().map(shown).collect() }))
    }

    async fn pause_queue(&self, request: Request<v1::QueueRef>) -> Answer<v1::Nothing> {
        let queue = name("queue", &request.into_inner().queue)?;
        done(format!("queue {queue}"), self.0.engine().pause(queue).await)
    }

    async fn resume_queue(&self, request: Request<v1::QueueRef>) -> Answer<v1::Nothing> {
        let queue = name("queue", &request.into_inner().queue)?;
        done(format!("queue {queue}"), self.0.engine().resume(queue).await)
    }

    async fn list_schedules(&self, _: Request<v1::Nothing>) -> Answer<v1::Schedules> {
        let entries = self.0.engine().schedules().await.map_err(failed)?;
        let schedules = entries.iter().filter_map(|entry| schedule(&self.0, entry)).collect();
        Ok(Response::new(v1::Schedules { schedules }))
    }

    async fn set_schedule(&self, request: Request<v1::Schedule>) -> Answer<v1::Nothing> {
        let ask = request.into_inner();
        let name = name("name", &ask.name)?;
        let timing = Timing::parse("timing", &ask.timing).map_err(invalid)?;
        let missed = match ask.missed.as_str() {
            "" => Missed::Skip,
            text => read_word("missed", text).map_err(invalid)?,
        };
        let job = ask.job.ok_or_else(|| missing("job"))?;
        let job = job.read().map_err(|bad| invalid(bad.inside("job")))?;
        let about = format!("schedule {name}: {timing}");
        done(about, self.0.engine().set_schedule(name, timing, missed.into(), job).await)
    }

    async fn delete_schedule(&self, request: Request<v1::Named>) -> Answer<v1::Nothing> {
        let name = name("name", &request.into_inner().name)?;
        done(format!("schedule {name}"), self.0.engine().remove_schedule(name).await)
    }

    async fn list_limits(&self, _: Request<v1::Nothing>) -> Answer<v1::Limits> {
        let entries = self.0.engine().limits().await.map_err(failed)?;
        let limits = entries.iter().filter_map(shown_limit);
        let limits = limits.map(|shown| v1::Limit { name: shown.name, limit: shown.limit });
        Ok(Response::new(v1::Limits { limits: limits.collect() }))
    }

    async fn set_limit(&self, request: Request<v1::Limit>) -> Answer<v1::Nothing> {
        let ask = request.into_inner();
        let name = name("name", &ask.name)?;
        let limit = limit::Limit::parse(&ask.limit).map_err(invalid)?;
        let about = format!("limit {name}: {limit}");
        done(about, self.0.engine().set_limit(name, limit).await)
    }

    async fn delete_limit(&self, request: Request<v1::Named>) -> Answer<v1::Nothing> {
        let name = name("name", &request.into_inner().name)?;
        done(format!("limit {name}"), self.0.engine().remove_limit(name).await)
    }

    async fn list_handlers(&self, _: Request<v1::Nothing>) -> Answer<v1::Handlers> {
        let all = self.0.engine().handlers().await.map_err(failed)?;
        let shown = all.iter().map(|(kind, known)| handler(&self.0, kind, &known.handler));
        let unreadable = self.0.engine().unreadable_handlers().await.map_err(failed)?;
        let unreadable = unreadable.iter().map(ToString::to_string).collect();
        Ok(Response::new(v1::Handlers { handlers: shown.collect(), unreadable }))
    }

    async fn set_handler(&self, request: Request<v1::Handler>) -> Answer<v1::Handler> {
        let ask = request.into_inner();
        let kind = name("kind", &ask.kind)?;
        let says: SetHandler = Format::Json.decode(ask.handler.as_bytes()).map_err(invalid)?;
        let set = set_handler(&self.0, &kind, says).await?;
        let mut response = Response::new(handler(&self.0, &kind, &set));
        response.extensions_mut().insert(About(format!("handler {kind}")));
        Ok(response)
    }

    async fn delete_handler(&self, request: Request<v1::Named>) -> Answer<v1::Nothing> {
        let kind = name("name", &request.into_inner().name)?;
        done(format!("handler {kind}"), self.0.engine().remove_handler(kind).await)
    }

    async fn list_workers(&self, _: Request<v1::Nothing>) -> Answer<v1::Workers> {
        let workers = all_workers(&self.0, Format::Json).await.map_err(failed)?;
        let workers = workers.into_iter().map(|shown| v1::Worker {
            name: shown.name,
            about: String::from_utf8_lossy(shown.about.bytes()).into_owned(),
            until_ms: shown.until.map(|until| until.0.as_millis()),
            stream: shown.stream.map(|stream| v1::WorkerStream {
                incarnation: stream.incarnation,
                version: stream.version.unwrap_or_default(),
                queues: stream.queues,
                kinds: stream.kinds,
                slots: stream.slots as u32,
                running: stream.running as u32,
                since_ms: stream.since.0.as_millis(),
                heard_ms: stream.heard.0.as_millis(),
            }),
        });
        Ok(Response::new(v1::Workers { workers: workers.collect() }))
    }

    type ActOnAllStream = Answers<v1::ActProgress>;

    async fn act_on_all(
        &self,
        request: Request<v1::ActRequest>,
    ) -> Answer<Answers<v1::ActProgress>> {
        let ask = act(request.into_inner()).map_err(invalid)?;
        let (filter, act, run) = asked(&ask).map_err(|bad| invalid(outside("filter", bad)))?;
        let steps = far(self.0.clone(), filter, act, run).map(|far| match far {
            Far::Yet(progress) | Far::Done(progress) => {
                let api::Progress { seen, matched, done } = progress;
                Ok(v1::ActProgress { seen, matched, done })
            }
            Far::Failed(fault) => Err(fault.into()),
        });
        let mut response = Response::new(Box::pin(steps) as Answers<_>);
        response.extensions_mut().insert(About::many(&ask));
        Ok(response)
    }

    type ListenStream = Answers<v1::Event>;

    async fn listen(&self, request: Request<v1::ListenRequest>) -> Answer<Answers<v1::Event>> {
        let ask = request.into_inner();
        let which = WhichEvents { queue: some(ask.queue), kind: some(ask.kind) };
        let hearing = Hearing::new(self.0.clone(), &which)?;
        let events = unfold(hearing, |mut hearing| async {
            let event = event(&hearing.next().await?);
            Some((Ok(event), hearing))
        });
        Ok(Response::new(Box::pin(events)))
    }
}

/// It is done, and there is nothing to say about it but in the audit log, where the path alone says too little.
fn done<T>(about: String, result: Result<T, crore::Error>) -> Answer<v1::Nothing> {
    result.map_err(failed)?;
    let mut response = Response::new(v1::Nothing {});
    response.extensions_mut().insert(About(about));
    Ok(response)
}

/// What a text says, if it says anything.
fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn name(field: &str, text: &str) -> Result<Name, Status> {
    Name::new(field, text).map_err(invalid)
}

fn maybe(field: &str, text: &str) -> Result<Option<Name>, Status> {
    if text.is_empty() { Ok(None) } else { name(field, text).map(Some) }
}

/// The same error, where the fields of `outer` stand by themselves.
fn outside(outer: &str, mut invalid: Invalid) -> Invalid {
    let field = invalid.field.strip_prefix(outer).unwrap_or(&invalid.field);
    invalid.field = field.strip_prefix('.').unwrap_or(field).to_owned();
    invalid
}

/// A handler, as it is shown.
fn handler(doors: &Doors, kind: &Name, known: &Handler) -> v1::Handler {
    let shown = shown_handler(doors, kind, known, Format::Json);
    let handler = String::from_utf8_lossy(&Format::Json.encode(&shown)).into_owned();
    v1::Handler { kind: kind.to_string(), handler }
}

fn schedule(doors: &Doors, entry: &Entry) -> Option<v1::Schedule> {
    let Value::Schedule(schedule) = &entry.value else { return None };
    Some(v1::Schedule {
        name: entry.name.to_string(),
        timing: schedule.timing.to_string(),
        missed: word(&Missed::from(schedule.missed)),
        job: Some(v1::NewJob::of(&schedule.job)),
        next_at_ms: next_at(doors, schedule).map(Time::as_millis),
        paused: schedule.paused,
    })
}

/// What is asked for, as the native API says it.
fn act(ask: v1::ActRequest) -> Result<api::ActOnAll, Invalid> {
    let act = match act_request::Act::try_from(ask.act) {
        Ok(act_request::Act::Cancel) => api::Verb::Cancel,
        Ok(act_request::Act::Retry) => api::Verb::Retry,
        Ok(act_request::Act::Delete) => api::Verb::Delete,
        Ok(act_request::Act::Unspecified) => {
            return Err(Invalid::new(Code::Malformed, "act", "has to be said"));
        }
        Err(_) => {
            let why = format!("`{}` stands for nothing", ask.act);
            return Err(Invalid::new(Code::Malformed, "act", why));
        }
    };
    let mut states = Vec::with_capacity(ask.states.len());
    for (n, state) in ask.states.into_iter().enumerate() {
        let wrong = |why: &str| Invalid::new(Code::Malformed, format!("states[{n}]"), why);
        let state = v1::State::read(state).map_err(|bad| wrong(&bad.message))?;
        states.push(state.ok_or_else(|| wrong("has to be said"))?.into());
    }
    let filter = api::Filter {
        states,
        queue: some(ask.queue),
        kind: some(ask.kind),
        labels: Labels(ask.labels),
        pushed_before: ask.pushed_before_ms.map(|at| Moment(Time::from_millis(at))),
        all: ask.all,
    };
    Ok(api::ActOnAll { act, filter, change: None, dry_run: ask.dry_run })
}

fn event(heard: &Heard) -> v1::Event {
    match heard {
        Heard::Missed(missed) => v1::Event { missed: *missed, ..v1::Event::default() },
        Heard::Event(event) => {
            let told = told_event(event);
            v1::Event {
                id: event.id.0,
                queue: told.queue,
                kind: told.kind,
                what: word(&told.what),
                at_ms: event.at.as_millis(),
                missed: 0,
                state: told.state.map_or(0, |state| v1::State::from(State::from(state)).into()),
            }
        }
    }
}
