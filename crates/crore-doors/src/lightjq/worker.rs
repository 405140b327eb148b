//! `/worker`: a push worker comes and goes.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use crore_api::Fault;
use crore_api::negotiation::Reply;
use crore_core::code::excerpt;
use crore_core::{Code, Invalid, Name};
use crore_dispatch::Registration;
use crore_outbound::{Failed, Target};
use http::{HeaderMap, StatusCode};

use super::body::Read;
use super::words;
use crate::Doors;

/// How a worker says who it is.
const HEADER: &str = "worker-id";
/// The most jobs that one worker may take at once.
const MOST: u32 = 10_000;

/// A push worker registers: from now on jobs are posted to it.
#[utoipa::path(
    post, path = "/worker", operation_id = "lightjqJoin", tag = "lightjq",
    request_body = words::NewWorker,
    responses((status = 201, description = "It is known.", body = words::Registered)),
)]
pub(super) async fn join(
    State(doors): State<Doors>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    body: Read<words::NewWorker>,
) -> Result<Response, Fault> {
    let reply = body.reply();
    let said = body.value;
    let name = Name::new("name", &said.name)?.to_string();
    let max_jobs = said.max_jobs;
    if !(1..=MOST).contains(&max_jobs) {
        let message = format!("`{max_jobs}` lies outside 1 to {MOST}");
        return Err(Invalid::new(Code::CountRange, "max_jobs", message).into());
    }
    let target = place(said, peer, doors.options().lightjq.worker_port)?;
    if let Err(failed) = doors.workers().outbound().addresses(&target).await {
        let invalid = match failed {
            Failed::Denied(denied) => denied.into_invalid("url"),
            Failed::Unreachable(why) | Failed::Broken(why) => {
                Invalid::new(Code::OutboundDenied, "url", why)
            }
        };
        return Err(invalid.into());
    }
    let id = new_id()?;
    let worker = Registration { name, target, max_jobs };
    if !doors.workers().join(id.clone(), worker).await? {
        return Err(Fault::new(Code::TooMany, "there are too many workers"));
    }
    Ok(reply.with(StatusCode::CREATED, &words::Registered { worker_id: id.to_string() }))
}

/// Where a worker is called: at its `url`; else at its `host`, or at the address that it calls from, and
/// at its `port`, or the usual one.
fn place(said: words::NewWorker, peer: SocketAddr, usual: u16) -> Result<Target, Invalid> {
    if let Some(url) = said.url {
        return Target::parse("url", &url);
    }
    let host = said.host.unwrap_or_else(|| peer.ip().to_canonical().to_string());
    let bare = host.contains(':') && !host.starts_with('[');
    let host = if bare { format!("[{host}]") } else { host };
    let target = Target::parse("url", &format!("http://{host}:{}", said.port.unwrap_or(usual)))?;
    if target.has_path() {
        let message = format!("host `{}` is no host", excerpt(&host));
        return Err(Invalid::new(Code::OutboundDenied, "url", message));
    }
    Ok(target)
}

/// An id that nobody can guess: whoever knows it may report on the worker's jobs.
fn new_id() -> Result<Name, Fault> {
    let mut bits = [0; 16];
    let fault = |_| Fault::new(Code::Unavailable, "the system has no randomness to give");
    getrandom::fill(&mut bits).map_err(fault)?;
    Ok(Name::new("worker", &format!("lightjq-{:032x}", u128::from_be_bytes(bits)))?)
}

/// A push worker leaves: it is given no more jobs, and may still report on those that it has.
#[utoipa::path(
    delete, path = "/worker", operation_id = "lightjqLeave", tag = "lightjq",
    params(("worker-id" = String, Header, description = "The worker.")),
    responses((status = 204, description = "It is not known any more.")),
)]
pub(super) async fn leave(
    State(doors): State<Doors>,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    let id = id(&headers)?;
    if doors.workers().leave(&id).await? {
        Ok(Reply::nothing())
    } else {
        Err(Fault::new(Code::NotFound, "this worker is not there"))
    }
}

/// The worker that a request says to be from. What cannot be an id is the id of no worker.
pub(super) fn id(headers: &HeaderMap) -> Result<Name, Fault> {
    let missing =
        || Invalid::new(Code::Malformed, HEADER, format!("the header `{HEADER}` is missing"));
    let value = headers.get(HEADER).ok_or_else(missing)?;
    let name = value.to_str().ok().and_then(|text| Name::new(HEADER, text).ok());
    name.ok_or_else(|| Fault::new(Code::NotFound, "this worker is not there"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(url: Option<&str>, host: Option<&str>, port: Option<u16>, peer: &str) -> String {
        let (url, host) = (url.map(str::to_owned), host.map(str::to_owned));
        let said = words::NewWorker { name: "w".to_owned(), max_jobs: 1, url, host, port };
        let place = place(said, peer.parse().expect("an address"), 8080);
        place.map_or_else(|invalid| invalid.field, |target| target.to_string())
    }

    #[test]
    fn a_worker_is_called_where_it_says_or_where_it_calls_from() {
        let peer = "10.0.0.7:55555";
        assert_eq!(called(None, None, None, peer), "http://10.0.0.7:8080");
        assert_eq!(called(None, None, Some(9999), peer), "http://10.0.0.7:9999");
        assert_eq!(called(None, Some("worker"), None, peer), "http://worker:8080");
        assert_eq!(called(None, Some("::1"), Some(9999), peer), "http://[::1]:9999");
        assert_eq!(called(Some("https://w/jobs"), Some("x"), Some(1), peer), "https://w:443/jobs");
        assert_eq!(called(None, None, None, "[::ffff:10.0.0.7]:5"), "http://10.0.0.7:8080");
        assert_eq!(called(None, None, None, "[fd00::7]:5"), "http://[fd00::7]:8080");
        for (url, host, port) in [
            (Some("ftp://w"), None, None),
            (None, Some("a/b"), None),
            (None, Some("u@w"), None),
            (None, None, Some(22)),
        ] {
            assert_eq!(called(url, host, port, peer), "url");
        }
    }
}
