//! Request bodies, with size and time limits.

use std::iter::successors;

use axum::body::Body as Incoming;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use crore_core::Code;
use crore_wire::Format;
use http::HeaderMap;
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::negotiation::content_type;
use crate::{Api, Fault};

/// A request body and its encoding, not decoded yet.
#[derive(Debug)]
pub struct RawBody {
    /// The encoding.
    pub format: Format,
    /// The bytes.
    pub bytes: Bytes,
    /// The headers of the request.
    pub headers: HeaderMap,
}

impl FromRequest<Api> for RawBody {
    type Rejection = Fault;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Fault> {
        let (parts, body) = request.into_parts();
        let needed = || Fault::new(Code::MediaType, "the header `content-type` is missing");
        let format = content_type(&parts.headers)?.ok_or_else(needed)?;
        let bytes = collect(body, api).await?;
        Ok(Self { format, bytes, headers: parts.headers })
    }
}

/// A decoded request body.
#[derive(Debug)]
pub struct Decoded<T> {
    /// The encoding.
    pub format: Format,
    /// The value.
    pub value: T,
}

impl<T: DeserializeOwned> FromRequest<Api> for Decoded<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, api: &Api) -> Result<Self, Fault> {
        let RawBody { format, bytes, .. } = RawBody::from_request(request, api).await?;
        Ok(Self { format, value: format.decode(&bytes)? })
    }
}

/// Reads the whole body, within the size limit and the timeout.
pub async fn collect(body: Incoming, api: &Api) -> Result<Bytes, Fault> {
    let options = api.options();
    let max = options.max_body.bytes();
    let too_large = || {
        let max = options.max_body;
        Fault::new(Code::BodyTooLarge, format!("the body is larger than {max}"))
    };
    if body.size_hint().lower() > options.max_body.0 {
        return Err(too_large());
    }
    let collected = timeout(options.body_time.into(), Limited::new(body, max).collect()).await;
    match collected {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => {
            // The budget for bytes in flight refuses a body with a fault.
            let refused = successors(error.source(), |error| error.source())
                .find_map(|error| error.downcast_ref::<Fault>());
            Err(refused
                .cloned()
                .unwrap_or_else(|| Fault::new(Code::Malformed, "the body is incomplete")))
        }
        Err(_) => {
            let detail = format!("the body did not arrive within {}", options.body_time);
            Err(Fault::new(Code::TooSlow, detail))
        }
    }
}
