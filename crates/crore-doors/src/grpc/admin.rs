//! For those who look after a server.

use std::pin::Pin;

use crore::events::Heard;
use crore::store::views;
use crore_api::Fault;
use crore_api::audit::About;
use crore_api::calls::{self, BulkAct, BulkStep, HandlerList, HandlerView, ScheduleView};
use crore_core::schedule::Timing;
use crore_core::{Code, Invalid, Name, State, Time};
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

use super::fault::{invalid, missing};
use crate::Doors;

/// The service.
#[derive(Debug, Clone)]
pub(super) struct Service(pub(super) Doors);

type Answer<T> = Result<Response<T>, Status>;
/// Answers, one after the other.
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl admin_server::Admin for Service {
    async fn info(&self, _: Request<v1::InfoRequest>) -> Answer<v1::InfoResponse> {
        let info = self.0.api().info();
        let now_ms = self.0.engine().status().now().as_millis();
        let (version, durability) = (info.version, info.durability);
        Ok(Response::new(v1::InfoResponse { version, durability, now_ms }))
    }

    async fn counts(&self, request: Request<v1::QueueRef>) -> Answer<v1::CountsResponse> {
        let queue = some(request.into_inner().queue);
        let counts = self.0.api().counts(queue.as_deref()).await?;
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
        done(format!("queue {queue}"), self.0.api().pause_queue(&queue).await)
    }

    async fn resume_queue(&self, request: Request<v1::QueueRef>) -> Answer<v1::Nothing> {
        let queue = name("queue", &request.into_inner().queue)?;
        done(format!("queue {queue}"), self.0.api().resume_queue(&queue).await)
    }

    async fn list_schedules(&self, _: Request<v1::Nothing>) -> Answer<v1::Schedules> {
        let schedules = self.0.api().list_schedules().await?;
        let schedules = schedules.iter().map(schedule).collect();
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
        done(about, self.0.api().set_schedule(name, timing, missed, job).await)
    }

    async fn delete_schedule(&self, request: Request<v1::Named>) -> Answer<v1::Nothing> {
        let name = name("name", &request.into_inner().name)?;
        done(format!("schedule {name}"), self.0.api().delete_schedule(name).await)
    }

    async fn list_limits(&self, _: Request<v1::Nothing>) -> Answer<v1::Limits> {
        let limits = self.0.api().list_limits().await?.limits.into_iter();
        let limits = limits.map(|shown| v1::Limit { name: shown.name, limit: shown.limit });
        Ok(Response::new(v1::Limits { limits: limits.collect() }))
    }

    async fn set_limit(&self, request: Request<v1::Limit>) -> Answer<v1::Nothing> {
        let ask = request.into_inner();
        let name = name("name", &ask.name)?;
        let set = self.0.api().set_limit(name, &ask.limit).await;
        let about = set.as_ref().map(|set| format!("limit {}: {}", set.name, set.limit));
        done(about.unwrap_or_default(), set)
    }

    async fn delete_limit(&self, request: Request<v1::Named>) -> Answer<v1::Nothing> {
        let name = name("name", &request.into_inner().name)?;
        done(format!("limit {name}"), self.0.api().delete_limit(name).await)
    }

    async fn list_handlers(&self, _: Request<v1::Nothing>) -> Answer<v1::Handlers> {
        let HandlerList { handlers, unreadable } = self.0.api().list_handlers().await?;
        let handlers = handlers.iter().map(handler).collect();
        Ok(Response::new(v1::Handlers { handlers, unreadable }))
    }

    async fn set_handler(&self, request: Request<v1::Handler>) -> Answer<v1::Handler> {
        let ask = request.into_inner();
        let kind = name("kind", &ask.kind)?;
        let says: SetHandler = Format::Json.decode(ask.handler.as_bytes()).map_err(invalid)?;
        let set = self.0.api().set_handler(kind.clone(), says).await?;
        let mut response = Response::new(handler(&set));
        response.extensions_mut().insert(About(format!("handler {kind}")));
        Ok(response)
    }

    async fn delete_handler(&self, request: Request<v1::Named>) -> Answer<v1::Nothing> {
        let kind = name("name", &request.into_inner().name)?;
        done(format!("handler {kind}"), self.0.api().delete_handler(kind).await)
    }

    async fn list_workers(&self, _: Request<v1::Nothing>) -> Answer<v1::Workers> {
        let workers = self.0.api().list_workers(Format::Json).await?;
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
        let bulk = BulkAct::try_from(&ask).map_err(|bad| invalid(outside("filter", bad)))?;
        let steps = self.0.api().act_on_all_in_steps(bulk).map(|step| match step {
            BulkStep::Progress(progress) | BulkStep::Done(progress) => {
                let api::Progress { seen, matched, done } = progress;
                Ok(v1::ActProgress { seen, matched, done })
            }
            BulkStep::Failed(fault) => Err(fault.into()),
        });
        let mut response = Response::new(Box::pin(steps) as Answers<_>);
        response.extensions_mut().insert(About::many(&ask));
        Ok(response)
    }

    type ListenStream = Answers<v1::Event>;

    async fn listen(&self, request: Request<v1::ListenRequest>) -> Answer<Answers<v1::Event>> {
        let ask = request.into_inner();
        let which = WhichEvents { queue: some(ask.queue), kind: some(ask.kind) };
        let subscription = self.0.api().subscribe(&which)?;
        let events = unfold(subscription, |mut subscription| async {
            let event = event(&subscription.next().await?);
            Some((Ok(event), subscription))
        });
        Ok(Response::new(Box::pin(events)))
    }
}

/// It is done, and there is nothing to say about it but in the audit log, where the path alone says too little.
fn done<T>(about: String, result: Result<T, Fault>) -> Answer<v1::Nothing> {
    result?;
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

/// The same error, where the fields of `outer` stand by themselves.
fn outside(outer: &str, mut invalid: Invalid) -> Invalid {
    let field = invalid.field.strip_prefix(outer).unwrap_or(&invalid.field);
    invalid.field = field.strip_prefix('.').unwrap_or(field).to_owned();
    invalid
}

fn handler(view: &HandlerView) -> v1::Handler {
    let shown = Format::Json.encode(&view.to_wire(Format::Json));
    let handler = String::from_utf8_lossy(&shown).into_owned();
    v1::Handler { kind: view.kind.to_string(), handler }
}

fn schedule(view: &ScheduleView) -> v1::Schedule {
    let ScheduleView { name, schedule, next_at } = view;
    v1::Schedule {
        name: name.to_string(),
        timing: schedule.timing.to_string(),
        missed: word(&Missed::from(schedule.missed)),
        job: Some(v1::NewJob::of(&schedule.job)),
        next_at_ms: next_at.map(Time::as_millis),
        paused: schedule.paused,
    }
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
            let told = calls::event(event);
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
