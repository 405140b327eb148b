//! Redirects, where a handler wants them followed.

use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, LOCATION, USER_AGENT};
use http::{Method, StatusCode};

use super::client::{Answer, Question};
use crate::reach::{Reach, denied};
use crate::runner::Failure;

/// The question that an answer leads to, if it leads anywhere.
pub(super) fn next(
    question: &Question,
    answer: &Answer,
    reach: &Reach,
) -> Result<Option<Question>, Failure> {
    let keeps_body = match answer.status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => question.method != Method::POST,
        StatusCode::SEE_OTHER => question.method == Method::HEAD,
        _ => return Ok(None),
    };
    let location = answer.headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let Some(location) = location else {
        return Ok(None);
    };
    // A place inside the page means nothing to us.
    let location = location.split('#').next().unwrap_or_default();
    let url = question.url.join("location", location).map_err(denied)?;
    if question.url.is_tls() && !url.is_tls() {
        return Err(denied(format!("`{}` leads away from TLS", question.url.origin())));
    }
    reach.check("location", &url).map_err(denied)?;
    let mut next = Question { url, ..question.clone() };
    if !keeps_body {
        next.method = Method::GET;
        next.body = bytes::Bytes::new();
        next.headers.remove(CONTENT_TYPE);
    }
    if !next.url.is_beside(&question.url) {
        next.headers = for_strangers(&next.headers);
    }
    Ok(Some(next))
}

/// What somebody else may know: any other header may hold a secret, whatever its name.
fn for_strangers(headers: &HeaderMap) -> HeaderMap {
    let mut known = HeaderMap::new();
    for name in [ACCEPT, CONTENT_TYPE, USER_AGENT] {
        if let Some(value) = headers.get(&name) {
            known.insert(name, value.clone());
        }
    }
    known
}
