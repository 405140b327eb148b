//! `crore.v1.Admin`: administration.

use std::pin::Pin;

use crore::events::ListenerItem;
use crore::store::views;
use crore_api::audit::AuditDetails;
use crore_api::calls::{
    self, BulkAction, BulkStep, HandlerList, HandlerView, NewSchedule, ScheduleView,
};
use crore_api::if_match::IfMatch;
use crore_api::{Fault, grpc};
use crore_core::schedule::Timing;
use crore_core::{Code, Invalid, Name, Span, State, Time};
use crore_wire::Format;
use crore_wire::api::enums::Missed;
use crore_wire::api::events::EventsQuery;
use crore_wire::api::handlers::SetHandler;
use crore_wire::api::job::JobView;
use crore_wire::api::{Labels, act as api};
use crore_wire::grpc::v1::{self, act_request, admin_server};
use crore_wire::grpc::{enum_text, parse_enum_text};
use crore_wire::units::{Moment, Period};
use futures_util::stream::{Stream, StreamExt, unfold};
use tonic::{Request, Response, Status};

use super::fault::{invalid, missing};
use super::{grant, named_events, stats};
use crate::Doors;

#[derive(Debug, Clone)]
pub(super) struct AdminService(pub(super) Doors);

type AdminReply<T> = Result<Response<T>, Status>;
/// A response stream.
type AdminStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl admin_server::Admin for AdminService {
    async fn info(&self, _: Request<v1::InfoRequest>) -> AdminReply<v1::InfoResponse> {
        let info = self.0.api().info();
        let now_ms = self.0.engine().status().now().as_millis();
        let (version, durability) = (info.version, info.durability);
        Ok(Response::new(v1::InfoResponse { version, durability, now_ms }))
    }

    async fn counts(&self, request: Request<v1::QueueRef>) -> AdminReply<v1::CountsResponse> {
        let grant = grant(&request)?;
        let queue = non_empty(request.into_inner().queue);
        let counts = self.0.api().counts(&grant, queue.as_deref()).await?;
        let shown = |count: &views::JobCount| v1::Count {
            queue: count.queue.to_string(),
            kind: count.kind.to_string(),
            state: v1::State::from(count.state).into(),
            n: count.n,
        };
        Ok(Response::new(v1::CountsResponse { counts: counts.iter().map(shown).collect() }))
    }

    async fn stats(&self, request: Request<v1::StatsRequest>) -> AdminReply<v1::StatsResponse> {
        let grant = grant(&request)?;
        let query = stats::query(request.into_inner()).map_err(invalid)?;
        let statistics = self.0.api().job_statistics(&grant, query).await?;
        Ok(Response::new(stats::response(statistics)))
    }

    async fn pause_queue(&self, request: Request<v1::QueueRef>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let queue = name("queue", &request.into_inner().queue)?;
        let done = self.0.api().pause_queue(&grant, &queue).await;
        empty_response(format!("queue {queue}"), done)
    }

    async fn resume_queue(&self, request: Request<v1::QueueRef>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let queue = name("queue", &request.into_inner().queue)?;
        let done = self.0.api().resume_queue(&grant, &queue).await;
        empty_response(format!("queue {queue}"), done)
    }

    async fn get_queue(&self, request: Request<v1::QueueRef>) -> AdminReply<v1::Queue> {
        let grant = grant(&request)?;
        let queue = name("queue", &request.into_inner().queue)?;
        let queue = self.0.api().get_queue(&grant, &queue).await?.value;
        Ok(Response::new(queue.into()))
    }

    async fn change_queue(
        &self,
        request: Request<v1::ChangeQueueRequest>,
    ) -> AdminReply<v1::Queue> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let queue = name("queue", &request.queue)?;
        let changes = request.read().map_err(invalid)?;
        let api = self.0.api();
        let changed = api.change_queue(&grant, &queue, changes, &IfMatch::ANY).await?.value;
        let mut response = Response::new(changed.into());
        response.extensions_mut().insert(AuditDetails(format!("queue {queue}")));
        Ok(response)
    }

    async fn list_schedules(&self, request: Request<v1::Nothing>) -> AdminReply<v1::Schedules> {
        let grant = grant(&request)?;
        let schedules = self.0.api().list_schedules(&grant).await?;
        let schedules = schedules.iter().map(schedule).collect();
        Ok(Response::new(v1::Schedules { schedules }))
    }

    async fn set_schedule(&self, request: Request<v1::Schedule>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let name = name("name", &request.name)?;
        let timing = Timing::parse("timing", &request.timing).map_err(invalid)?;
        let missed = match request.missed.as_str() {
            "" => Missed::Skip,
            text => parse_enum_text("missed", text).map_err(invalid)?,
        };
        let job = request.job.ok_or_else(|| missing("job"))?;
        let job = job.read().map_err(|bad| invalid(bad.inside("job")))?;
        let about = format!("schedule {name}: {timing}");
        let new = NewSchedule { timing, missed, job };
        empty_response(about, self.0.api().set_schedule(&grant, name, new, &IfMatch::ANY).await)
    }

    async fn delete_schedule(&self, request: Request<v1::Named>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let name = name("name", &request.into_inner().name)?;
        let about = format!("schedule {name}");
        empty_response(about, self.0.api().delete_schedule(&grant, name).await)
    }

    async fn list_limits(&self, request: Request<v1::Nothing>) -> AdminReply<v1::Limits> {
        let grant = grant(&request)?;
        let limits = self.0.api().list_limits(&grant).await?.limits.into_iter();
        let limits = limits.map(|shown| v1::Limit { name: shown.name, limit: shown.limit });
        Ok(Response::new(v1::Limits { limits: limits.collect() }))
    }

    async fn set_limit(&self, request: Request<v1::Limit>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let name = name("name", &request.name)?;
        let set = self.0.api().set_limit(&grant, name, &request.limit, &IfMatch::ANY).await;
        let set = set.map(|set| set.value);
        let about = set.as_ref().map(|set| format!("limit {}: {}", set.name, set.limit));
        empty_response(about.unwrap_or_default(), set)
    }

    async fn delete_limit(&self, request: Request<v1::Named>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let name = name("name", &request.into_inner().name)?;
        let about = format!("limit {name}");
        empty_response(about, self.0.api().delete_limit(&grant, name).await)
    }

    async fn list_handlers(&self, request: Request<v1::Nothing>) -> AdminReply<v1::Handlers> {
        let grant = grant(&request)?;
        let HandlerList { handlers, unreadable } = self.0.api().list_handlers(&grant).await?;
        let handlers = handlers.iter().map(handler).collect();
        Ok(Response::new(v1::Handlers { handlers, unreadable }))
    }

    async fn set_handler(&self, request: Request<v1::Handler>) -> AdminReply<v1::Handler> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let kind = name("kind", &request.kind)?;
        let definition: SetHandler =
            Format::Json.decode(request.handler.as_bytes()).map_err(invalid)?;
        let set =
            self.0.api().set_handler(&grant, kind.clone(), definition, &IfMatch::ANY).await?.value;
        let mut response = Response::new(handler(&set));
        response.extensions_mut().insert(AuditDetails(format!("handler {kind}")));
        Ok(response)
    }

    async fn delete_handler(&self, request: Request<v1::Named>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let kind = name("name", &request.into_inner().name)?;
        let about = format!("handler {kind}");
        empty_response(about, self.0.api().delete_handler(&grant, kind).await)
    }

    async fn list_workers(&self, request: Request<v1::Nothing>) -> AdminReply<v1::Workers> {
        let grant = grant(&request)?;
        let workers = self.0.api().list_workers(&grant, Format::Json).await?;
        let workers = workers.into_iter().map(|shown| v1::Worker {
            name: shown.name,
            about: String::from_utf8_lossy(shown.about.bytes()).into_owned(),
            until_ms: shown.until.map(|until| until.0.as_millis()),
            stream: shown.stream.map(|stream| v1::WorkerStream {
                incarnation: stream.incarnation,
                version: stream.version.unwrap_or_default(),
                queues: stream.queues,
                kinds: stream.kinds,
                versions: stream.versions,
                slots: stream.slots as u32,
                running: stream.running as u32,
                since_ms: stream.since.0.as_millis(),
                heard_ms: stream.heard.0.as_millis(),
            }),
        });
        Ok(Response::new(v1::Workers { workers: workers.collect() }))
    }

    type ActOnAllStream = AdminStream<v1::ActProgress>;

    async fn act_on_all(
        &self,
        request: Request<v1::ActRequest>,
    ) -> AdminReply<AdminStream<v1::ActProgress>> {
        let grant = grant(&request)?;
        let request = act_on_all_request(request.into_inner()).map_err(invalid)?;
        let outside = |bad| invalid(without_prefix("filter", bad));
        let bulk = BulkAction::try_from(&request).map_err(outside)?;
        let steps = self.0.api().act_on_all_in_steps(&grant, bulk).map_err(outside)?;
        let steps = steps.map(|step| match step {
            BulkStep::Progress(progress) | BulkStep::Done(progress) => {
                let api::Progress { seen, matched, done } = progress;
                Ok(v1::ActProgress { seen, matched, done })
            }
            BulkStep::Failed(fault) => Err(fault.into()),
        });
        let mut response = Response::new(Box::pin(steps) as AdminStream<_>);
        response.extensions_mut().insert(AuditDetails::bulk_action(&request));
        Ok(response)
    }

    async fn start_operation(&self, request: Request<v1::ActRequest>) -> AdminReply<v1::Operation> {
        let grant = grant(&request)?;
        let request = act_on_all_request(request.into_inner()).map_err(invalid)?;
        let started = self.0.api().start_operation(&grant, &request).await;
        let mut response =
            Response::new((&started.map_err(|fault| without_filter(&fault))?).into());
        response.extensions_mut().insert(AuditDetails::bulk_action(&request));
        Ok(response)
    }

    async fn list_operations(&self, request: Request<v1::Nothing>) -> AdminReply<v1::Operations> {
        let operations = self.0.api().list_operations(&grant(&request)?).await?;
        let operations = operations.iter().map(Into::into).collect();
        Ok(Response::new(v1::Operations { operations }))
    }

    async fn get_operation(&self, request: Request<v1::OperationRef>) -> AdminReply<v1::Operation> {
        let grant = grant(&request)?;
        let v1::OperationRef { id, wait_ms } = request.into_inner();
        let wait = Some(Period(Span::from_millis(wait_ms)));
        let operation = self.0.api().get_operation(&grant, &name("id", &id)?, wait).await?;
        Ok(Response::new((&operation).into()))
    }

    async fn cancel_operation(
        &self,
        request: Request<v1::OperationRef>,
    ) -> AdminReply<v1::Operation> {
        let grant = grant(&request)?;
        let id = name("id", &request.into_inner().id)?;
        let operation = self.0.api().cancel_operation(&grant, &id).await?;
        let mut response = Response::new((&operation).into());
        response.extensions_mut().insert(AuditDetails(format!("operation {id}")));
        Ok(response)
    }

    type ListenStream = AdminStream<v1::Event>;

    async fn listen(
        &self,
        request: Request<v1::ListenRequest>,
    ) -> AdminReply<AdminStream<v1::Event>> {
        let grant = grant(&request)?;
        let request = request.into_inner();
        let which = EventsQuery { queue: non_empty(request.queue), kind: non_empty(request.kind) };
        let subscription = self.0.api().subscribe(&grant, &which)?;
        let events = unfold(subscription, |mut subscription| async {
            let event = event(&subscription.next().await?);
            Some((Ok(event), subscription))
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn send_event(&self, request: Request<v1::NewEvent>) -> AdminReply<v1::EventSent> {
        let grant = grant(&request)?;
        let event = named_events::read(request.into_inner()).map_err(invalid)?;
        let sent = self.0.api().send_event(&grant, event).await?;
        Ok(Response::new(named_events::sent(&sent)))
    }

    async fn get_event(&self, request: Request<v1::Named>) -> AdminReply<v1::NamedEvent> {
        let grant = grant(&request)?;
        let name = name("name", &request.into_inner().name)?;
        let event = self.0.api().get_event(&grant, name).await?;
        Ok(Response::new(named_events::event(&event, JobView::Full)))
    }

    async fn list_events(
        &self,
        request: Request<v1::ListEventsRequest>,
    ) -> AdminReply<v1::NamedEvents> {
        let grant = grant(&request)?;
        let v1::ListEventsRequest { after, limit } = request.into_inner();
        let (after, limit) = (non_empty(after), limit.map(|limit| limit as usize));
        let (events, next) = self.0.api().list_events(&grant, after.as_deref(), limit).await?;
        let events = events.iter().map(|event| named_events::event(event, JobView::Summary));
        let next = next.map_or_else(String::new, |name| name.to_string());
        Ok(Response::new(v1::NamedEvents { events: events.collect(), next }))
    }

    async fn remove_event(&self, request: Request<v1::Named>) -> AdminReply<v1::Nothing> {
        let grant = grant(&request)?;
        let name = name("name", &request.into_inner().name)?;
        let about = format!("event {name}");
        empty_response(about, self.0.api().remove_event(&grant, name).await)
    }
}

/// An empty response, with an entry for the audit log: the path alone does not name the resource.
fn empty_response<T>(about: String, result: Result<T, Fault>) -> AdminReply<v1::Nothing> {
    result?;
    let mut response = Response::new(v1::Nothing {});
    response.extensions_mut().insert(AuditDetails(about));
    Ok(response)
}

/// `None` for an empty string.
fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn name(field: &str, text: &str) -> Result<Name, Status> {
    Name::new(field, text).map_err(invalid)
}

/// Removes `outer` from the front of the error's field: these requests have its fields at the top level.
fn without_prefix(outer: &str, mut invalid: Invalid) -> Invalid {
    let field = invalid.field.strip_prefix(outer).unwrap_or(&invalid.field);
    invalid.field = field.strip_prefix('.').unwrap_or(field).to_owned();
    invalid
}

/// The status of a fault, without `filter` at the front of its field.
fn without_filter(fault: &Fault) -> Status {
    let outside = |field: &str| {
        let field = field.strip_prefix("filter").unwrap_or(field);
        field.strip_prefix('.').unwrap_or(field).to_owned()
    };
    grpc::status_of(grpc::code(fault.code()), fault, outside)
}

fn handler(view: &HandlerView) -> v1::Handler {
    let shown = Format::Json.encode(&view.to_wire(Format::Json));
    let handler = String::from_utf8_lossy(&shown).into_owned();
    v1::Handler { kind: view.kind.to_string(), handler }
}

fn schedule(view: &ScheduleView) -> v1::Schedule {
    let ScheduleView { name, schedule, next_at, .. } = view;
    v1::Schedule {
        name: name.to_string(),
        timing: schedule.timing.to_string(),
        missed: enum_text(&Missed::from(schedule.missed)),
        job: Some(v1::NewJob::of(&schedule.job)),
        next_at_ms: next_at.map(Time::as_millis),
        paused: schedule.paused,
    }
}

/// The request in the types of the native API.
fn act_on_all_request(request: v1::ActRequest) -> Result<api::ActOnAll, Invalid> {
    let act = match act_request::Act::try_from(request.act) {
        Ok(act_request::Act::Cancel) => api::Verb::Cancel,
        Ok(act_request::Act::Retry) => api::Verb::Retry,
        Ok(act_request::Act::Delete) => api::Verb::Delete,
        Ok(act_request::Act::Replay) => api::Verb::Replay,
        Ok(act_request::Act::Unspecified) => {
            return Err(Invalid::new(Code::Malformed, "act", "is required"));
        }
        Err(_) => {
            let why = format!("`{}` is not a known value", request.act);
            return Err(Invalid::new(Code::Malformed, "act", why));
        }
    };
    let mut states = Vec::with_capacity(request.states.len());
    for (n, state) in request.states.into_iter().enumerate() {
        let wrong = |why: &str| Invalid::new(Code::Malformed, format!("states[{n}]"), why);
        let state = v1::State::read(state).map_err(|bad| wrong(&bad.message))?;
        states.push(state.ok_or_else(|| wrong("is required"))?.into());
    }
    let filter = api::Filter {
        states,
        queue: non_empty(request.queue),
        kind: non_empty(request.kind),
        labels: Labels(request.labels),
        pushed_before: request.pushed_before_ms.map(|at| Moment(Time::from_millis(at))),
        q: non_empty(request.q),
        all: request.all,
    };
    let replay = request.replay.map(Into::into);
    Ok(api::ActOnAll { act, filter, change: None, replay, dry_run: request.dry_run })
}

fn event(item: &ListenerItem) -> v1::Event {
    match item {
        ListenerItem::Sent(sent) => v1::Event {
            what: "event.sent".to_owned(),
            at_ms: sent.at.as_millis(),
            name: sent.name.to_string(),
            ..v1::Event::default()
        },
        ListenerItem::Missed(missed) => v1::Event { missed: *missed, ..v1::Event::default() },
        ListenerItem::Event(event) => {
            let wire = calls::event(event);
            v1::Event {
                id: event.id.0,
                queue: wire.queue,
                kind: wire.kind,
                what: enum_text(&wire.what),
                at_ms: event.at.as_millis(),
                missed: 0,
                name: String::new(),
                state: wire.state.map_or(0, |state| v1::State::from(State::from(state)).into()),
            }
        }
    }
}
