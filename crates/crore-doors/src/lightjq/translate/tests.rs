use super::*;
use crore_core::{Caps, JobId};
use crore_wire::Format::{Json, Msgpack};

const DAY: Span = Span::from_secs(86_400);

fn read(text: &str) -> Result<Spec, Invalid> {
    Json.decode::<LightJqNewJob>(text.as_bytes()).and_then(|job| spec(&job, DAY))
}

#[test]
fn defaults_are_as_documented() {
    let spec = read(r#"{"name":"mail","argument":{}}"#).expect("good");
    assert_eq!((spec.queue.as_str(), spec.kind.as_str(), spec.priority), ("lightjq", "mail", 0));
    assert_eq!(spec.retry.max_attempts, Some(11));
    assert_eq!((spec.timeout, spec.lease), (Some(Span::from_secs(30)), Some(Span::from_secs(40))));
    assert_eq!((spec.keep, spec.lapse), (ResultRetention::Discard, Lapse::Failure));
    let job: crore_core::NewJob = spec.into();
    assert_eq!(job.check(&Caps::default(), Time::ZERO), Ok(()));
}

#[test]
fn all_fields_are_read() {
    let spec = read(
        r#"{"name":"mail","argument":{"to":"ada"},"priority":-5,"max_retry":0,"keep_result":true,
            "timeout":86390,"colour":"blue"}"#,
    )
    .expect("good");
    assert_eq!((spec.priority, spec.retry.max_attempts), (-5, Some(1)));
    assert_eq!((spec.keep, spec.lease), (ResultRetention::Once(DAY), Some(DAY)));
    assert_eq!(&*spec.payload.bytes, b"\x81\xa2to\xa3ada");
    let job: crore_core::NewJob = spec.into();
    assert_eq!(job.check(&Caps::default(), Time::ZERO), Ok(()));
}

#[test]
fn a_messagepack_argument_keeps_its_bytes() {
    // A map with a 16-bit length, and an integer in a wider form than needed.
    let argument = b"\xde\x00\x01\xa1n\xce\x00\x00\x00\x07";
    let body = [&b"\x82\xa4name\xa1a\xa8argument"[..], argument].concat();
    let job: LightJqNewJob = Msgpack.decode(&body).expect("good");
    assert_eq!(&*spec(&job, DAY).expect("good").payload.bytes, argument);
}

#[test]
fn an_argument_is_any_value() {
    for (text, bytes) in [
        ("null", &b"\xc0"[..]),
        ("[1,[]]", b"\x92\x01\x90"),
        ("7", b"\x07"),
        ("\"ada\"", b"\xa3ada"),
        ("true", b"\xc3"),
    ] {
        let spec = read(&format!(r#"{{"name":"mail","argument":{text}}}"#)).expect(text);
        assert_eq!(&*spec.payload.bytes, bytes, "{text}");
    }
    // Bytes, keys that are no strings, and extension types.
    for bytes in [
        &b"\xc4\x02\x00\xff"[..],
        b"\x82\x01\xa1a\x90\xc0",
        b"\xd6\xff\x00\x00\x00\x01",
        b"\xc7\x00\x05",
        b"\x91\xc7\x03\x05abc",
    ] {
        let body = [&b"\x82\xa4name\xa1a\xa8argument"[..], bytes].concat();
        let job: LightJqNewJob = Msgpack.decode(&body).expect("a body");
        let spec = spec(&job, DAY).expect("a job");
        assert_eq!(&*spec.payload.bytes, bytes);
        let new: crore_core::NewJob = spec.clone().into();
        assert_eq!(new.check(&Caps::default(), Time::ZERO), Ok(()));
        let live = Live::pushed(Time::ZERO, Time::ZERO, 0);
        let sent = worker_job(&Job { id: JobId(7), spec: spec.into(), live });
        assert!(sent.windows(bytes.len()).any(|part| part == bytes), "{bytes:?}");
    }
}

#[test]
fn a_report_may_say_when_the_worker_finished() {
    let read = |at: &str| {
        let text = format!(r#"{{"type":"success","finished_at":{at}}}"#);
        Json.decode::<LightJqReport>(text.as_bytes()).and_then(report)
    };
    for at in ["1970-01-01T00:00:01.5Z", "1970-01-01T01:00:01.500+01:00", "1970-01-01T00:00:01.5"] {
        let finished_at = read(&format!("\"{at}\"")).expect(at).details.finished_at;
        assert_eq!(finished_at, Some(Time::from_millis(1500)), "{at}");
    }
    assert_eq!(read("null").expect("absent").details, ReportDetails::default());
    for bad in ["\"\"", "\"yesterday\"", "\"2026-02-30T00:00:00Z\"", "1500"] {
        assert_eq!(read(bad).expect_err(bad).field, "finished_at", "{bad}");
    }
}

#[test]
fn the_reason_of_a_failure_is_shown() {
    let ended = |ended, reason: Option<&str>| {
        let mut job = job(State::Dead, 1);
        job.live.history.push(Attempt {
            delivery: crore_core::Delivery(1),
            started_at: Time::ZERO,
            ended_at: Time::ZERO,
            worker: None,
            ended,
            error: Some("no".into()),
            details: ReportDetails { finished_at: None, reason: reason.map(Into::into) },
        });
        status(&job, None).reason
    };
    use FailureReason::{Other, Timeout};
    assert_eq!(ended(DeliveryEnd::Failed, Some("timeout")), Some(Timeout));
    assert_eq!(ended(DeliveryEnd::Failed, Some("other")), Some(Other));
    assert_eq!(ended(DeliveryEnd::Failed, None), Some(Other));
    assert_eq!(ended(DeliveryEnd::TimedOut, None), Some(Timeout));
    assert_eq!(status(&job(State::Done, 1), None).reason, None);
}

#[test]
fn every_mistake_names_its_field() {
    for (body, field) in [
        (r#"{"argument":{}}"#, "name"),
        (r#"{"name":"","argument":{}}"#, "name"),
        (r#"{"name":5,"argument":{}}"#, "name"),
        (r#"{"name":"a"}"#, "argument"),
        (r#"{"name":"a","argument":{"x":1,"x":2}}"#, "argument"),
        (r#"{"name":"a","argument":{},"priority":2147483648}"#, "priority"),
        (r#"{"name":"a","argument":{},"priority":1.5}"#, "priority"),
        (r#"{"name":"a","argument":{},"priority":"1"}"#, "priority"),
        (r#"{"name":"a","argument":{},"max_retry":-1}"#, "max_retry"),
        (r#"{"name":"a","argument":{},"max_retry":1000}"#, "max_retry"),
        (r#"{"name":"a","argument":{},"keep_result":1}"#, "keep_result"),
        (r#"{"name":"a","argument":{},"timeout":0}"#, "timeout"),
        (r#"{"name":"a","argument":{},"timeout":86391}"#, "timeout"),
        (r#"{"name":"a","argument":{},"timeout":-1}"#, "timeout"),
    ] {
        assert_eq!(read(body).expect_err(body).field, field, "{body}");
    }
}

fn job(state: State, attempt: u32) -> Job {
    let spec = read(r#"{"name":"mail","argument":{}}"#).expect("good");
    let mut live = Live::pushed(Time::ZERO, Time::ZERO, 0);
    (live.state, live.attempt) = (state, attempt);
    live.worker = Some(Name::new("worker", "w1").expect("good"));
    live.ended_at = state.has_ended().then_some(Time::from_millis(1500));
    Job { id: JobId(7), spec: spec.into(), live }
}

#[test]
fn states_map_to_the_five_of_lightjq() {
    for (state, attempt, word, retries) in [
        (State::Waiting, 0, "queued", 0),
        (State::Scheduled, 0, "queued", 0),
        (State::Ready, 0, "queued", 0),
        (State::Running, 1, "running", 0),
        (State::Scheduled, 1, "retrying", 1),
        (State::Ready, 1, "retrying", 1),
        (State::Running, 2, "running", 1),
        (State::Done, 3, "done", 2),
        (State::Dead, 3, "error", 2),
        (State::Cancelled, 0, "error", 0),
    ] {
        let body = Json.encode(&status(&job(state, attempt), None));
        let said: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
        assert_eq!((&said["status"], &said["retry_count"]), (&word.into(), &retries.into()));
        let worker = if word == "queued" { serde_json::Value::Null } else { "w1".into() };
        assert_eq!(said["worker_id"], worker, "{state:?}");
        let is_over = said["finished_at"] == "1970-01-01T00:00:01.500Z";
        assert_eq!(is_over, state.has_ended(), "{said}");
    }
}

#[test]
fn a_kept_payload_is_a_result_or_an_error() {
    let kept = Payload::new(Encoding::Msgpack, &b"\x93\x01\x02\x03"[..]);
    let said = |state, kept: &Payload| -> serde_json::Value {
        let body = Json.encode(&status(&job(state, 1), Some(kept)));
        serde_json::from_slice(&body).expect("JSON")
    };
    let done = said(State::Done, &kept);
    assert_eq!((&done["result"], &done["error"]), (&serde_json::json!([1, 2, 3]), &().into()));
    let dead = said(State::Dead, &kept);
    assert_eq!((&dead["error"], &dead["result"]), (&serde_json::json!([1, 2, 3]), &().into()));
    let text = Payload::new(Encoding::Text, &b"hello"[..]);
    assert_eq!(said(State::Done, &text)["result"], "hello");
    let bytes = Payload::new(Encoding::Bytes, &b"\x00\xff"[..]);
    let body = Msgpack.encode(&status(&job(State::Done, 1), Some(&bytes)));
    assert!(body.windows(4).any(|part| part == b"\xc4\x02\x00\xff"), "bytes stay bytes");
}

#[test]
fn a_worker_job_has_id_and_job_id() {
    let mut running = job(State::Running, 3);
    running.live.delivery = crore_core::Delivery(9);
    let said: serde_json::Value =
        rmp_serde::from_slice(&worker_job(&running)).expect("MessagePack");
    let expected = serde_json::json!({
        "id": "7", "job_id": "7", "name": "mail", "argument": {}, "timeout": 30, "delivery": "9",
        "retry_count": 2,
    });
    assert_eq!(said, expected);
}

#[test]
fn incomplete_reports_are_refused() {
    let read = |text: &str| Json.decode::<LightJqReport>(text.as_bytes()).and_then(outcome);
    let nothing = Outcome::Done { result: None };
    assert_eq!(read(r#"{"type":"success"}"#), Ok(nothing.clone()));
    assert_eq!(read(r#"{"type":"success","result":null}"#), Ok(nothing));
    let result = Some(Payload::new(Encoding::Msgpack, &b"\x07"[..]));
    assert_eq!(read(r#"{"type":"success","result":7}"#), Ok(Outcome::Done { result }));
    let failure = r#"{"type":"failure","reason":"timeout","should_retry":true,"message":"late"}"#;
    let again = RetryDirective::ByPolicy;
    let late = Outcome::Failed { error: "late".into(), detail: None, again };
    assert_eq!(read(failure), Ok(late));
    for (body, field) in [
        (r#"{}"#, "type"),
        (r#"{"type":"maybe"}"#, "type"),
        (r#"{"type":"failure","should_retry":true,"message":"late"}"#, "reason"),
        (r#"{"type":"failure","reason":"tired","should_retry":true,"message":""}"#, "reason"),
        (r#"{"type":"failure","reason":"other","message":"late"}"#, "should_retry"),
        (r#"{"type":"failure","reason":"other","should_retry":true}"#, "message"),
    ] {
        assert_eq!(read(body).expect_err(body).field, field, "{body}");
    }
}

#[test]
fn a_retrying_job_shows_message_and_error() {
    let error = Raw::new(Json, &br#"{"code":[5]}"#[..]);
    let text = error_text("no\nluck".to_owned(), Some(&error));
    assert_eq!(text, "no\nluck\nerror: {\"code\":[5]}");
    assert_eq!(split_error_text(&text), ("no\nluck", Some(error)));
    assert_eq!(split_error_text("no luck"), ("no luck", None));
    let cut = &text[..text.len() - 1];
    assert_eq!(split_error_text(cut), (cut, None), "half an error is none");
    let mut retrying = job(State::Scheduled, 1);
    retrying.live.history.push(Attempt {
        delivery: crore_core::Delivery(1),
        started_at: Time::ZERO,
        ended_at: Time::ZERO,
        worker: None,
        ended: DeliveryEnd::Failed,
        error: Some(text.into()),
        details: ReportDetails::default(),
    });
    let said: serde_json::Value =
        serde_json::from_slice(&Json.encode(&status(&retrying, None))).expect("JSON");
    assert_eq!(said["message"], "no\nluck");
    assert_eq!(said["error"], serde_json::json!({"code": [5]}));
}
