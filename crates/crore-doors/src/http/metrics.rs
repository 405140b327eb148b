//! Prometheus metrics.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use crore_api::metrics::MetricsFormat;
use crore_api::{Api, Fault, Grant};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

/// Gets metrics.
///
/// In the Prometheus text format 0.0.4, or as OpenMetrics if the client accepts that.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "server",
    responses((
        status = 200, description = "The metrics, one per line.", body = String,
        content_type = "text/plain",
    )),
)]
pub(super) async fn metrics(
    State(api): State<Api>,
    grant: Grant,
    headers: HeaderMap,
) -> Result<Response, Fault> {
    grant.check_unrestricted("metrics")?;
    let accepted = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (form, kind) = match accepted.contains("application/openmetrics-text") {
        true => (MetricsFormat::Open, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        false => (MetricsFormat::Classic, "text/plain; version=0.0.4; charset=utf-8"),
    };
    let text = api.metrics().text(api.engine(), form).await?;
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}
