//! The OpenAPI description, generated from the code.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use crore_wire::Format;
use crore_wire::api::{JobPathId, Problem};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use utoipa::openapi::path::{Operation, PathItem, Paths};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ComponentsBuilder, Content, ContentBuilder, Info, InfoBuilder, LicenseBuilder, OpenApi,
    OpenApiBuilder, Ref, RefOr, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crore_api::Scope;

/// Problem responses that every call can return.
const PROBLEMS: [(&str, &str); 16] = [
    ("400", "Invalid request; `field` names the offending field."),
    ("401", "Missing or invalid token."),
    ("403", "The token lacks the required scope, or the request is cross-site."),
    ("404", "Not found."),
    ("405", "Method not allowed."),
    ("406", "None of the accepted content types is available."),
    ("408", "The body did not arrive in time."),
    ("409", "Conflict with the current state."),
    ("412", "The resource is not in the state that `If-Match` names."),
    ("413", "Body, batch or payload too large."),
    ("415", "Unsupported content type."),
    ("421", "Unknown host name in the request."),
    ("429", "Too many concurrent or failed requests."),
    ("500", "The store is damaged or has failed."),
    ("503", "The server is shutting down, or its store is unavailable; retry."),
    ("507", "The store is full."),
];

/// Calls that always respond in plain JSON, without content negotiation or problem documents.
const PLAIN_JSON_PATHS: [&str; 2] = ["/livez", "/readyz"];

/// An empty description with title, version and license.
pub(crate) fn base() -> OpenApi {
    OpenApiBuilder::new().info(info()).build()
}

fn info() -> Info {
    let about = "A job queue: programs push jobs, crore stores them durably, leases each to one worker at a time, \
                 and retries it until it ends. Bodies are JSON or MessagePack, by `Content-Type` and \
                 `Accept`; ids are strings; problems are RFC 9457 documents with a stable `code`.";
    InfoBuilder::new()
        .title("crore")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(about))
        .license(Some(
            LicenseBuilder::new()
                .name("MIT OR Apache-2.0")
                .identifier(Some("MIT OR Apache-2.0"))
                .build(),
        ))
        .build()
}

/// Name of the security scheme in the description.
const SCHEME: &str = "token";

/// Adds the required scope to each operation; several are alternatives.
pub(crate) fn require_scope(paths: &mut Paths, scopes: &[Scope]) {
    let requirement = |scope: &Scope| SecurityRequirement::new(SCHEME, [scope.as_str()]);
    for item in paths.paths.values_mut() {
        for operation in operations(item) {
            operation.security = Some(scopes.iter().map(requirement).collect());
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let all = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
    all.into_iter().flatten()
}

fn scheme() -> SecurityScheme {
    let about = "A token created by `POST /v1/tokens` or `crore token create`, with the scope that the call \
                 requires. While no token exists, calls from the server's own machine need none.";
    let mut http = Http::new(HttpAuthScheme::Bearer);
    http.description = Some(about.to_owned());
    SecurityScheme::Http(http)
}

/// Adds the parts common to every call: both encodings, and the problem responses.
fn complete(mut api: OpenApi) -> OpenApi {
    let components = api.components.take().unwrap_or_else(|| ComponentsBuilder::new().build());
    let mut schemas = Vec::new();
    Problem::schemas(&mut schemas);
    let mut components = components;
    components.schemas.extend(schemas);
    components.schemas.insert(Problem::name().into_owned(), Problem::schema());
    // Only paths refer to it, and their schemas are not collected.
    components.schemas.insert(JobPathId::name().into_owned(), JobPathId::schema());
    components.add_security_scheme(SCHEME, scheme());
    api.components = Some(components);
    for (path, item) in &mut api.paths.paths {
        for operation in operations(item).filter(|_| !PLAIN_JSON_PATHS.contains(&path.as_str())) {
            add_msgpack(operation);
            add_problems(operation);
        }
    }
    api
}

/// Adds MessagePack wherever JSON is described.
fn add_msgpack(operation: &mut Operation) {
    if let Some(RefOr::T(body)) = &mut operation.request_body {
        let same = body.content.get(Format::Json.media_type()).cloned();
        body.content.extend(same.map(|same| (Format::Msgpack.media_type().to_owned(), same)));
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            let same = response.content.get(Format::Json.media_type()).cloned();
            response
                .content
                .extend(same.map(|same| (Format::Msgpack.media_type().to_owned(), same)));
        }
    }
}

fn add_problems(operation: &mut Operation) {
    for (status, about) in PROBLEMS {
        let content = || -> Content {
            ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build()
        };
        let response = ResponseBuilder::new()
            .description(about)
            .content(Format::Json.problem_type(), content())
            .content(Format::Msgpack.problem_type(), content())
            .build();
        operation.responses.responses.entry(status.to_owned()).or_insert(RefOr::T(response));
    }
}

/// The complete description as JSON text.
pub(crate) fn to_json_text(api: OpenApi) -> String {
    complete(api).to_json().unwrap_or_default()
}

/// The complete description, serialized once.
pub(crate) fn to_bytes(api: OpenApi) -> Bytes {
    Bytes::from(to_json_text(api))
}

/// The description as a response.
pub(crate) fn response(document: Bytes) -> Response {
    let mut response = Response::new(Body::from(document));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
