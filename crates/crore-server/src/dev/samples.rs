//! Sample definitions and jobs of `crore dev`, so that the pages of the Web UI and the lists of the command line have
//! something to show: also errors, limits that hold jobs back, jobs that wait, and handlers.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crore::core::fair::{FairField, FairShare};
use crore::core::job::DependencyCondition;
use crore::core::limit::Limit;
use crore::core::push::{GroupRef, NewDependency, NewDependencyTarget, NewGroup};
use crore::core::schedule::{Missed, Timing};
use crore::core::{Batch, Handler, Name, NewJob, Payload, Span, Spec};
use crore::store::registry::QueueSettings;
use crore::{Engine, Push, Work, block_on};
use serde_json::{Value, json};

/// Interval between sample jobs.
const PUSH_INTERVAL: Duration = Duration::from_millis(400);
const HOUR: Duration = Duration::from_secs(60 * 60);
const TENANTS: [&str; 3] = ["acme", "globex", "initech"];

/// Creates limits, a shared queue, schedules, handlers, and jobs that wait.
pub(super) async fn create(engine: &Engine) -> Result<(), crore::Error> {
    for (name, limit) in [
        ("two-thumbnails", r#"where kind = "thumbnail" concurrency 2"#),
        ("one-import-per-tenant", r#"where kind = "import" concurrency 1 per payload.tenant"#),
        ("smtp", r#"where kind = "mail" rate 600/1m burst 20"#),
    ] {
        engine.limits().set(Name::new("limit", name)?, Limit::parse(limit)?).await?;
    }
    let by = FairField::parse("payload.tenant")?;
    let fair = FairShare { by, weights: [("acme".to_owned(), 2)].into() };
    let settings = QueueSettings { fair: Some(Arc::new(fair)), ..QueueSettings::default() };
    engine.queues().set(Name::new("queue", "imports")?, settings).await?;
    for (name, timing, about) in
        [("reports", "every 10s", "everything"), ("nightly", "cron 0 3 * * *", "yesterday")]
    {
        let timing = Timing::parse("timing", timing)?;
        let job = spec("reports", "report", &format!(r#"{{"about": "{about}"}}"#))?;
        let name = Name::new("schedule", name)?;
        engine.schedules().set(name, timing, Missed::Skip, job.into()).await?;
    }
    for (kind, program, args) in
        [("words", "wc", json!(["-w"])), ("greet", "echo", json!(["hello"]))]
    {
        let settings = json!({ "program": program, "args": args });
        let Value::Object(settings) = settings else { continue };
        let mut handler = Handler::new(Name::new("runner", "command")?, settings);
        handler.timeout = Some(Span::from_secs(10));
        engine.handlers().set(Name::new("kind", kind)?, handler).await?;
    }
    sample(engine, "shop", "ship", r#"{"order": 17}"#).wait_for("order-17-paid").wait()?;
    sample(engine, "shop", "remind", r#"{"order": 16}"#).after(2 * HOUR).wait()?;
    engine.push_all(album()?).await?;
    Ok(())
}

fn spec(queue: &str, kind: &str, json: &str) -> Result<Spec, crore::Error> {
    let (queue, kind) = (Name::new("queue", queue)?, Name::new("kind", kind)?);
    Ok(Spec::new(queue, kind, Payload::json(json)))
}

/// A group of thumbnails, and a job that waits for all of them.
fn album() -> Result<Batch, crore::Error> {
    let thumbnail = |n: usize| {
        let spec = spec("images", "thumbnail", &format!(r#"{{"image": "album-{n}.png"}}"#))?;
        Ok(NewJob { group: Some(GroupRef::New(0)), ..spec.into() })
    };
    let mut jobs = (1..=5).map(thumbnail).collect::<Result<Vec<NewJob>, crore::Error>>()?;
    let on = NewDependencyTarget::Group(GroupRef::New(0));
    let after = vec![NewDependency { on, needs: DependencyCondition::Success }];
    jobs.push(NewJob { after, ..spec("reports", "album", r#"{"images": 5}"#)?.into() });
    Ok(Batch { groups: vec![NewGroup::default()], jobs })
}

fn sample<'a>(engine: &'a Engine, queue: &str, kind: &str, json: &str) -> Push<'a> {
    engine.push_payload(queue, Payload::json(json)).kind(kind).retain()
}

/// Pushes sample jobs until `stopped` is closed.
pub(super) fn push(engine: &Engine, stopped: &Receiver<()>) {
    for n in 0_usize.. {
        let tenant = TENANTS[n / 8 % TENANTS.len()];
        let pushed = match n % 8 {
            0 | 4 => mail(engine, &format!("user-{n}@example.com"), tenant),
            3 => mail(engine, &format!("nobody-{n}"), tenant).attempts(2),
            7 => {
                let json = format!(r#"{{"tenant": "{tenant}", "rows": {}}}"#, 1000 + n);
                sample(engine, "imports", "import", &json).label("tenant", tenant).attempts(3)
            }
            5 => {
                let json = format!(r#""the words of document {n}""#);
                sample(engine, "default", "words", &json).keep_result(HOUR)
            }
            _ => {
                let json = format!(r#"{{"image": "cat-{n}.png", "width": 320}}"#);
                sample(engine, "images", "thumbnail", &json).keep_result(HOUR).attempts(3)
            }
        };
        if pushed.wait().is_err() {
            return;
        }
        match stopped.recv_timeout(PUSH_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn mail<'a>(engine: &'a Engine, to: &str, tenant: &str) -> Push<'a> {
    let json = format!(r#"{{"to": "{to}", "subject": "Your invoice"}}"#);
    sample(engine, "mail", "mail", &json).label("tenant", tenant)
}

/// Runs the sample jobs.
pub(super) fn work(engine: &Engine) {
    let worker = engine.worker(["mail", "images", "imports", "reports"]).parallel(4);
    if let Err(error) = worker.run_blocking(run) {
        tracing::debug!(%error, "sample worker stopped");
    }
}

/// Takes up to 600 ms, or three seconds for an import. Mail to `nobody` fails, and so do some first attempts.
fn run(work: &Work<'_>) -> Result<Payload, String> {
    let takes = Duration::from_millis(100 + work.id.0 * 37 % 500);
    let payload = String::from_utf8_lossy(work.payload()).into_owned();
    match work.spec.kind.as_str() {
        "import" => {
            for part in 1..=5_u8 {
                thread::park_timeout(Duration::from_millis(600));
                _ = block_on(work.line(&format!("part {part} of 5 imported")));
                _ = block_on(work.progress(part * 20, "importing"));
            }
            if work.attempt() == 1 && work.id.0.is_multiple_of(3) {
                let n = work.id.0 % 7;
                return Err(format!("timeout after 3000 ms: no answer from db-{n}"));
            }
        }
        "thumbnail" if work.attempt() == 1 && work.id.0.is_multiple_of(13) => {
            thread::park_timeout(takes);
            return Err(format!("image {} is truncated at byte {}", work.id, work.id.0 * 97));
        }
        _ => thread::park_timeout(takes),
    }
    if payload.contains("nobody") {
        return Err("no such address".to_owned());
    }
    let millis = takes.as_millis();
    Ok(Payload::json(&format!(r#"{{"took_ms": {millis}}}"#)))
}
