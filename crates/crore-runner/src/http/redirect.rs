//! HTTP redirects.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION, USER_AGENT};
use http::{Method, StatusCode};

use super::client::{HttpRequest, HttpResponse};
use crate::network::{NetworkAccess, denied};
use crate::runner::RunFailure;

/// The request to follow a redirect with; none if the response is no redirect.
pub(super) fn redirected_request(
    request: &HttpRequest,
    response: &HttpResponse,
    network: &NetworkAccess,
) -> Result<Option<HttpRequest>, RunFailure> {
    let keeps_body = match response.status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => request.method != Method::POST,
        StatusCode::SEE_OTHER => request.method == Method::HEAD,
        _ => return Ok(None),
    };
    let location = response.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let Some(location) = location else {
        return Ok(None);
    };
    // Drop the fragment.
    let location = location.split('#').next().unwrap_or_default();
    let url = request.url.join("location", location).map_err(denied)?;
    if request.url.is_tls() && !url.is_tls() {
        return Err(denied(format!("`{}` redirects from https to http", request.url.origin())));
    }
    network.check("location", &url).map_err(denied)?;
    let mut next = HttpRequest { url, ..request.clone() };
    if !keeps_body {
        next.method = Method::GET;
        next.body = bytes::Bytes::new();
        next.headers.remove(CONTENT_TYPE);
    }
    if !next.url.is_same_origin(&request.url) {
        next.headers = without_private_headers(&next.headers);
    }
    Ok(Some(next))
}

/// Headers that another host may see. All others are dropped: any of them may hold a secret.
fn without_private_headers(headers: &HeaderMap) -> HeaderMap {
    let mut known = HeaderMap::new();
    for name in [ACCEPT, CONTENT_TYPE, USER_AGENT] {
        if let Some(value) = headers.get(&name) {
            known.insert(name, value.clone());
        }
    }
    known
}
