//! The description of the API, from the code.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use crore_wire::Format;
use crore_wire::api::Problem;
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

/// What any call may answer when it is not to be had, and why.
const PROBLEMS: [(&str, &str); 15] = [
    ("400", "The request breaks a rule; `field` says where."),
    ("401", "A token is needed that is valid here."),
    ("403", "The caller does not have the scope that this needs, or a page of another site asks."),
    ("404", "What is asked for is not there."),
    ("405", "Not by this method."),
    ("406", "None of the content types that are accepted can be had."),
    ("408", "The body did not arrive in time."),
    ("409", "What is there is in the way."),
    ("413", "A body, batch or payload is larger than the cap."),
    ("415", "The content type of the body is none that is understood."),
    ("421", "The host that is addressed is not a name of this server."),
    ("429", "There are too many at once, or too many that failed."),
    ("500", "The store is damaged, or gave up."),
    ("503", "The server is stopping, or its store cannot be reached; try again."),
    ("507", "The store is full."),
];

/// The calls that answer with a plain text, whatever is asked for.
const OPEN: [&str; 2] = ["/livez", "/readyz"];

/// What the description says of itself.
pub(crate) fn base() -> OpenApi {
    OpenApiBuilder::new().info(info()).build()
}

fn info() -> Info {
    let about = "A job queue: programs push jobs, crore keeps them safe, hands each to one worker at a time, \
                 and sees it through to an end. Bodies are JSON or MessagePack, by `Content-Type` and \
                 `Accept`; ids are texts; problems are RFC 9457 documents with a stable `code`.";
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

/// The scheme by which callers are known, as the description names it.
const SCHEME: &str = "token";

/// Says which scope a call needs.
pub(crate) fn needs(paths: &mut Paths, scope: Scope) {
    for item in paths.paths.values_mut() {
        for operation in operations(item) {
            operation.security = Some(vec![SecurityRequirement::new(SCHEME, [scope.as_str()])]);
        }
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let all = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
    all.into_iter().flatten()
}

fn scheme() -> SecurityScheme {
    let about = "A token that `POST /v1/tokens` or `crore token create` has made, with the scope that the call \
                 names. While there is none, calls from the server's own machine need none.";
    let mut http = Http::new(HttpAuthScheme::Bearer);
    http.description = Some(about.to_owned());
    SecurityScheme::Http(http)
}

/// The description with what holds for every call: both encodings, and the problems.
fn complete(mut api: OpenApi) -> OpenApi {
    let components = api.components.take().unwrap_or_else(|| ComponentsBuilder::new().build());
    let mut schemas = Vec::new();
    Problem::schemas(&mut schemas);
    let mut components = components;
    components.schemas.extend(schemas);
    components.schemas.insert(Problem::name().into_owned(), Problem::schema());
    components.add_security_scheme(SCHEME, scheme());
    api.components = Some(components);
    for (path, item) in &mut api.paths.paths {
        for operation in operations(item).filter(|_| !OPEN.contains(&path.as_str())) {
            in_both(operation);
            problems(operation);
        }
    }
    api
}

/// Whatever is said in JSON can be said in MessagePack.
fn in_both(operation: &mut Operation) {
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

fn problems(operation: &mut Operation) {
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

/// The whole description as a text.
pub(crate) fn text(api: OpenApi) -> String {
    complete(api).to_json().unwrap_or_default()
}

/// The whole description, made once.
pub(crate) fn finished(api: OpenApi) -> Bytes {
    Bytes::from(text(api))
}

/// The description as an answer.
pub(crate) fn answer(document: Bytes) -> Response {
    let mut response = Response::new(Body::from(document));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
