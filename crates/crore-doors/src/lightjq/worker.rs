//! `/worker`: registration of push workers.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, State};
use axum::response::Response;
use crore_api::negotiation::Responder;
use crore_api::{Fault, Grant};
use crore_core::code::excerpt;
use crore_core::{Code, Invalid, Name};
use crore_dispatch::{Registration, check_terms};
use crore_outbound::{CallError, Target};
use http::{HeaderMap, StatusCode};

use super::body::DecodedBody;
use super::messages;
use super::translate::QUEUE;
use crate::Doors;

/// Header with the id of the calling worker.
const HEADER: &str = "worker-id";

/// Registers a push worker: jobs are posted to it from now on.
#[utoipa::path(
    post, path = "/worker", operation_id = "lightjqJoin", tag = "lightjq",
    request_body = messages::LightJqNewWorker,
    responses((status = 201, description = "The worker is registered.", body = messages::LightJqRegistered)),
)]
pub(super) async fn join(
    State(doors): State<Doors>,
    grant: Grant,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    body: DecodedBody<messages::LightJqNewWorker>,
) -> Result<Response, Fault> {
    // Jobs of every kind are posted to a worker.
    grant.check_whole_queue(&Name::new("queue", QUEUE)?)?;
    let reply = body.reply();
    let request = body.value;
    let (name, max_jobs) = (request.name.clone(), request.max_jobs);
    check_terms(&name, max_jobs)?;
    let target = target_of(request, peer, doors.options().lightjq.worker_port)?;
    if let Err(failed) = doors.push_worker_handle().outbound().addresses(&target).await {
        let invalid = match failed {
            CallError::Denied(denied) => denied.into_invalid("url"),
            CallError::Unreachable(why) | CallError::Broken(why) => {
                Invalid::new(Code::OutboundDenied, "url", why)
            }
        };
        return Err(invalid.into());
    }
    let id = new_id()?;
    let worker = Registration { name, target, max_jobs };
    if !doors.push_worker_handle().join(id.clone(), worker).await? {
        return Err(Fault::new(Code::TooMany, "too many workers are registered"));
    }
    Ok(reply.with(StatusCode::CREATED, &messages::LightJqRegistered { worker_id: id.to_string() }))
}

/// The URL of a worker: its `url`; else `host` or the address it calls from, and `port` or the default port.
fn target_of(
    request: messages::LightJqNewWorker,
    peer: SocketAddr,
    default_port: u16,
) -> Result<Target, Invalid> {
    if let Some(url) = request.url {
        return Target::parse("url", &url);
    }
    let host = request.host.unwrap_or_else(|| peer.ip().to_canonical().to_string());
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    let host = if is_bare_ipv6 { format!("[{host}]") } else { host };
    let target =
        Target::parse("url", &format!("http://{host}:{}", request.port.unwrap_or(default_port)))?;
    if target.has_path() {
        let message = format!("`{}` is not a valid host", excerpt(&host));
        return Err(Invalid::new(Code::OutboundDenied, "url", message));
    }
    Ok(target)
}

/// A random id. A caller that knows it can report the worker's jobs.
fn new_id() -> Result<Name, Fault> {
    let mut bits = [0; 16];
    let fault =
        |_| Fault::new(Code::Unavailable, "the operating system's random source is unavailable");
    getrandom::fill(&mut bits).map_err(fault)?;
    Ok(Name::new("worker", &format!("lightjq-{:032x}", u128::from_be_bytes(bits)))?)
}

/// Unregisters a push worker: it receives no more jobs, and may still report those it has.
#[utoipa::path(
    delete, path = "/worker", operation_id = "lightjqLeave", tag = "lightjq",
    params(("worker-id" = String, Header, description = "The worker.")),
    responses((status = 204, description = "The worker is no longer registered.")),
)]
pub(super) async fn leave(
    State(doors): State<Doors>,
    grant: Grant,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    grant.check_whole_queue(&Name::new("queue", QUEUE)?)?;
    let id = id(&headers)?;
    if doors.push_worker_handle().leave(&id).await? {
        Ok(Responder::no_content())
    } else {
        Err(Fault::new(Code::NotFound, "worker not found"))
    }
}

/// The worker that sent a request. A header that cannot be an id names no worker.
pub(super) fn id(headers: &HeaderMap) -> Result<Name, Fault> {
    let missing =
        || Invalid::new(Code::Malformed, HEADER, format!("the header `{HEADER}` is missing"));
    let value = headers.get(HEADER).ok_or_else(missing)?;
    let name = value.to_str().ok().and_then(|text| Name::new(HEADER, text).ok());
    name.ok_or_else(|| Fault::new(Code::NotFound, "worker not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(url: Option<&str>, host: Option<&str>, port: Option<u16>, peer: &str) -> String {
        let (url, host) = (url.map(str::to_owned), host.map(str::to_owned));
        let request =
            messages::LightJqNewWorker { name: "w".to_owned(), max_jobs: 1, url, host, port };
        let target = target_of(request, peer.parse().expect("an address"), 8080);
        target.map_or_else(|invalid| invalid.field, |target| target.to_string())
    }

    #[test]
    fn a_worker_is_called_at_its_url_or_its_peer_address() {
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
