//! The HTTP status of each error code.

use axum::response::Response;
use crore_core::Code;
use http::StatusCode;

use crate::Fault;

/// The HTTP status of an error code. The match is exhaustive, so that a new code has to be added here.
pub const fn status(code: Code) -> StatusCode {
    match code {
        Code::NameEmpty
        | Code::NameTooLong
        | Code::NameControl
        | Code::KeyEmpty
        | Code::KeyTooLong
        | Code::KeyControl
        | Code::KeyReserved
        | Code::PayloadMalformed
        | Code::BatchReference
        | Code::TimeRange
        | Code::LeaseRange
        | Code::TimeoutRange
        | Code::RetryRange
        | Code::LabelRange
        | Code::TooManyDependencies
        | Code::CountRange
        | Code::ScheduleSyntax
        | Code::ScheduleNever
        | Code::ScheduleTooOften
        | Code::ZoneUnknown
        | Code::LimitSyntax
        | Code::LimitTooLong
        | Code::LimitTooDeep
        | Code::LimitRange
        | Code::CostRange
        | Code::FairField
        | Code::IndexField
        | Code::VersionInvalid
        | Code::VersionRequirement
        | Code::FilterSyntax
        | Code::FilterTooLong
        | Code::FilterRange
        | Code::FieldMasked
        | Code::Malformed
        | Code::FieldUnknown
        | Code::OutboundDenied
        | Code::RunnerUnknown
        | Code::CursorInvalid => StatusCode::BAD_REQUEST,
        Code::TokenNeeded => StatusCode::UNAUTHORIZED,
        Code::ScopeMissing | Code::CrossSite | Code::RunnerForbidden => StatusCode::FORBIDDEN,
        Code::HostUnknown => StatusCode::MISDIRECTED_REQUEST,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
        Code::TooSlow | Code::NotYet => StatusCode::REQUEST_TIMEOUT,
        Code::Refused | Code::KeyReused | Code::GroupSealed => StatusCode::CONFLICT,
        Code::PreconditionFailed => StatusCode::PRECONDITION_FAILED,
        Code::PayloadTooLarge | Code::BatchTooLarge | Code::BodyTooLarge => {
            StatusCode::PAYLOAD_TOO_LARGE
        }
        Code::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::TooMany => StatusCode::TOO_MANY_REQUESTS,
        Code::Stopping | Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::Full => StatusCode::INSUFFICIENT_STORAGE,
        Code::Foreign | Code::Corrupt | Code::Poisoned => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The status of a response. A gRPC error, whose HTTP status is always 200, has that of its problem.
pub(crate) fn response_status(response: &Response) -> u16 {
    let fault = response.extensions().get::<Fault>();
    fault.map_or(response.status().as_u16(), |fault| fault.problem().status)
}
