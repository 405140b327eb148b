//! How bodies are encoded: in MessagePack unless somebody says JSON.

use axum::extract::{FromRequest, FromRequestParts, Request};
use crore_api::Fault;
use crore_api::body::collect;
use crore_api::negotiation::{Reply, content_type};
use crore_wire::Format;
use http::HeaderMap;
use http::header::ACCEPT;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::Doors;

/// The encoding of a body.
pub(super) fn of_body(headers: &HeaderMap) -> Result<Format, Fault> {
    Ok(content_type(headers)?.unwrap_or(Format::Msgpack))
}

/// The encoding of an answer: as the caller asks for it, else as it speaks itself.
pub(super) fn of_answer(headers: &HeaderMap) -> Format {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let named = |item: &str| {
        let name = item.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match name.as_str() {
            "application/json" => Some(Format::Json),
            "application/msgpack" | "application/x-msgpack" => Some(Format::Msgpack),
            _ => None,
        }
    };
    let accepted = accept.split(',').find_map(named);
    accepted.unwrap_or_else(|| of_body(headers).unwrap_or(Format::Msgpack))
}

/// A body that was read, and what came with it.
#[derive(Debug)]
pub(super) struct Read<T> {
    pub(super) value: T,
    pub(super) parts: Parts,
}

impl<T: DeserializeOwned> FromRequest<Doors> for Read<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let format = of_body(&parts.headers)?;
        let bytes = collect(body, doors.api()).await?;
        Ok(Self { value: format.decode(&bytes)?, parts })
    }
}

impl<T> Read<T> {
    /// How the caller is answered.
    pub(super) fn reply(&self) -> Reply {
        Reply(of_answer(&self.parts.headers))
    }
}

/// How a caller without a body is answered.
pub(super) struct Answers(pub(super) Format);

impl<S: Sync> FromRequestParts<S> for Answers {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(of_answer(&parts.headers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{CONTENT_TYPE, HeaderName};

    #[test]
    fn whoever_says_nothing_speaks_messagepack() {
        let headers = |pairs: &[(HeaderName, &'static str)]| -> HeaderMap {
            let value = |(name, text): &(HeaderName, &'static str)| {
                (name.clone(), http::HeaderValue::from_static(text))
            };
            pairs.iter().map(value).collect()
        };
        let (json, any) = ("application/json; charset=utf-8", "*/*");
        assert_eq!(of_answer(&headers(&[])), Format::Msgpack);
        assert_eq!(of_answer(&headers(&[(ACCEPT, any)])), Format::Msgpack);
        assert_eq!(of_answer(&headers(&[(ACCEPT, any), (CONTENT_TYPE, json)])), Format::Json);
        assert_eq!(of_answer(&headers(&[(ACCEPT, "text/html, application/json")])), Format::Json);
        assert_eq!(of_answer(&headers(&[(ACCEPT, "application/x-msgpack")])), Format::Msgpack);
        assert!(matches!(of_body(&headers(&[])), Ok(Format::Msgpack)));
        assert!(of_body(&headers(&[(CONTENT_TYPE, "text/html")])).is_err());
    }
}
