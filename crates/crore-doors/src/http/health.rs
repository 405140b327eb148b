//! Whether the server lives, and whether it can be used.

use axum::extract::State;
use axum::response::Response;
use crore::store::Ailment;
use crore_wire::Format;
use crore_wire::api::info::Health;
use http::StatusCode;

use super::wants::Reply;
use crate::Doors;

/// Whether the server lives.
#[utoipa::path(
    get, path = "/livez", operation_id = "livez", tag = "server",
    responses((status = 200, description = "It does.", body = Health)),
)]
pub(super) async fn livez() -> Response {
    Reply(Format::Json).ok(&Health { ok: true, faults: Vec::new() })
}

/// Whether the server can be used: its store is sound and has room, and it is not about to stop.
#[utoipa::path(
    get, path = "/readyz", operation_id = "readyz", tag = "server",
    responses(
        (status = 200, description = "It can.", body = Health),
        (status = 503, description = "It cannot.", body = Health),
    ),
)]
pub(super) async fn readyz(State(doors): State<Doors>) -> Response {
    let health = health_of(&doors);
    let status = if health.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Reply(Format::Json).with(status, &health)
}

/// Whether a server can be used, and if not, why.
pub(crate) fn health_of(doors: &Doors) -> Health {
    let is_ending = doors.engine().is_stopping() || doors.is_closing();
    health(doors.engine().ailment().as_ref(), is_ending)
}

fn health(ailment: Option<&Ailment>, is_ending: bool) -> Health {
    let ailment = ailment.map(|ailment| match ailment {
        Ailment::Poisoned => "the store gave up after a failed write",
        Ailment::Full(_) => "the store is full",
    });
    let ending = is_ending.then_some("the server is stopping");
    let faults: Vec<String> = ailment.into_iter().chain(ending).map(str::to_owned).collect();
    Health { ok: faults.is_empty(), faults }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_whose_store_is_full_or_poisoned_cannot_be_used() {
        assert!(health(None, false).ok && !health(None, true).ok);
        let full = Ailment::Full("a place that is nobody's business".to_owned());
        let said = health(Some(&full), true);
        assert_eq!(said.faults, ["the store is full", "the server is stopping"]);
        assert!(!said.ok && !health(Some(&Ailment::Poisoned), false).ok);
    }
}
