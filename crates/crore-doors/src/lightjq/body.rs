//! Encodings of bodies: MessagePack, unless the client names JSON.

use axum::extract::{FromRequest, FromRequestParts, Request};
use crore_api::Fault;
use crore_api::body::collect;
use crore_api::negotiation::{Responder, content_type};
use crore_wire::Format;
use http::HeaderMap;
use http::header::ACCEPT;
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::Doors;

/// The encoding of a request body.
pub(super) fn request_format(headers: &HeaderMap) -> Result<Format, Fault> {
    Ok(content_type(headers)?.unwrap_or(Format::Msgpack))
}

/// The encoding of a response: the first accepted one, else that of the request.
pub(super) fn response_format(headers: &HeaderMap) -> Format {
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
    accepted.unwrap_or_else(|| request_format(headers).unwrap_or(Format::Msgpack))
}

/// A decoded body, with the head of its request.
#[derive(Debug)]
pub(super) struct DecodedBody<T> {
    pub(super) value: T,
    pub(super) parts: Parts,
}

impl<T: DeserializeOwned> FromRequest<Doors> for DecodedBody<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, doors: &Doors) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let format = request_format(&parts.headers)?;
        let bytes = collect(body, doors.api()).await?;
        Ok(Self { value: format.decode(&bytes)?, parts })
    }
}

impl<T> DecodedBody<T> {
    /// The reply format for the caller.
    pub(super) fn reply(&self) -> Responder {
        Responder(response_format(&self.parts.headers))
    }
}

/// The response format for a request without a body.
pub(super) struct ResponseFormat(pub(super) Format);

impl<S: Sync> FromRequestParts<S> for ResponseFormat {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(response_format(&parts.headers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{CONTENT_TYPE, HeaderName};

    #[test]
    fn messagepack_is_the_default() {
        let headers = |pairs: &[(HeaderName, &'static str)]| -> HeaderMap {
            let value = |(name, text): &(HeaderName, &'static str)| {
                (name.clone(), http::HeaderValue::from_static(text))
            };
            pairs.iter().map(value).collect()
        };
        let (json, any) = ("application/json; charset=utf-8", "*/*");
        assert_eq!(response_format(&headers(&[])), Format::Msgpack);
        assert_eq!(response_format(&headers(&[(ACCEPT, any)])), Format::Msgpack);
        assert_eq!(response_format(&headers(&[(ACCEPT, any), (CONTENT_TYPE, json)])), Format::Json);
        assert_eq!(
            response_format(&headers(&[(ACCEPT, "text/html, application/json")])),
            Format::Json
        );
        assert_eq!(
            response_format(&headers(&[(ACCEPT, "application/x-msgpack")])),
            Format::Msgpack
        );
        assert!(matches!(request_format(&headers(&[])), Ok(Format::Msgpack)));
        assert!(request_format(&headers(&[(CONTENT_TYPE, "text/html")])).is_err());
    }
}
