//! Reflection and health, as tools use them.

use crore_api::Scope;
use crore_doors::{Options, grpc, listen};
use futures_util::stream::iter;
use prost::Message;
use prost_types::FileDescriptorProto;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::{v1, v1alpha};

use super::{connect, problem};
use crate::access::token;
use crate::server::Server;

const SERVICES: [&str; 11] = [
    "crore.v1.Admin",
    "crore.v1.Jobs",
    "crore.v1.Work",
    "grpc.health.v1.Health",
    "grpc.reflection.v1.ServerReflection",
    "jobworkerp.service.JobRestoreService",
    "jobworkerp.service.JobResultService",
    "jobworkerp.service.JobService",
    "jobworkerp.service.JobStatusService",
    "jobworkerp.service.WorkerService",
    "lakh.Lakh",
];

/// Asks one version of reflection for all services, for the file of one service, and for an unknown symbol.
macro_rules! reflected {
    ($version:ident, $server:expr) => {{
        use $version::server_reflection_client::ServerReflectionClient;
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;
        let ask = |message| $version::ServerReflectionRequest {
            host: String::new(),
            message_request: Some(message),
        };
        let requests = [
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("crore.v1.Work".to_owned())),
            ask(MessageRequest::FileContainingSymbol("no.such.Thing".to_owned())),
        ];
        let mut client = ServerReflectionClient::new(connect($server).await);
        let answers = client.server_reflection_info(iter(requests)).await;
        match answers {
            Err(status) => Err(status),
            Ok(answers) => {
                let mut answers = answers.into_inner();
                let mut responses = Vec::new();
                while let Ok(Some(answer)) = answers.message().await {
                    responses.push(match answer.message_response.expect("an answer") {
                        MessageResponse::ListServicesResponse(list) => {
                            list.service.into_iter().map(|one| one.name).collect()
                        }
                        MessageResponse::FileDescriptorResponse(file) => {
                            let bytes = &file.file_descriptor_proto[0];
                            let file = FileDescriptorProto::decode(&**bytes).expect("a file");
                            vec![file.name().to_owned()]
                        }
                        MessageResponse::ErrorResponse(error) => vec![error.error_code.to_string()],
                        other => panic!("{other:?}"),
                    });
                }
                Ok(responses)
            }
        }
    }};
}

#[tokio::test]
async fn both_versions_of_reflection_list_every_service_and_its_files() {
    let server = Server::start().await;
    let new = reflected!(v1, &server).expect("a response");
    let old = reflected!(v1alpha, &server).expect("a response");
    for (version, responses) in [("v1", new), ("v1alpha", old)] {
        let mut services = responses[0].clone();
        services.retain(|name| !name.starts_with("grpc.reflection."));
        services.push("grpc.reflection.v1.ServerReflection".to_owned());
        services.sort_unstable();
        assert_eq!(services, SERVICES, "{version}");
        assert_eq!(responses[1], ["crore/v1/work.proto"], "{version}");
        // An unknown symbol ends the stream, or is answered with NOT_FOUND.
        assert!(
            responses.get(2).is_none_or(|responses| responses == &["5"]),
            "{version}: {responses:?}"
        );
    }
}

#[tokio::test]
async fn reflection_needs_any_valid_token_and_can_be_disabled() {
    let server = Server::start().await;
    token(&server.engine, "ada", &[Scope::Work]).await;
    let status = reflected!(v1, &server).expect_err("unauthenticated");
    assert_eq!(status.code(), Code::Unauthenticated);
    assert_eq!(problem(&status).code, "token-needed");
    let grpc = grpc::Options { reflection: false, ..grpc::Options::default() };
    let options = Options { grpc, ..Options::default() };
    let server = Server::start_with(options, listen::Options::default()).await;
    let status = reflected!(v1, &server).expect_err("disabled");
    assert_eq!(status.code(), Code::Unimplemented);
    let status = reflected!(v1alpha, &server).expect_err("disabled");
    assert_eq!(status.code(), Code::Unimplemented);
}

fn about(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

#[tokio::test]
async fn health_needs_no_token_and_watchers_see_the_shutdown() {
    let server = Server::start().await;
    token(&server.engine, "ada", Scope::ALL).await;
    let mut health = HealthClient::new(connect(&server).await);
    for service in ["", "crore.v1.Jobs", "crore.v1.Work"] {
        let response = health.check(about(service)).await.expect("a response").into_inner();
        assert_eq!(response.status(), ServingStatus::Serving, "{service}");
    }
    let status = health.check(about("no.such.Service")).await.expect_err("unknown");
    assert_eq!((status.code(), problem(&status).code.as_str()), (Code::NotFound, "not-found"));
    let mut watch = health.watch(about("")).await.expect("a stream").into_inner();
    let status = health.watch(about("no.such.Service")).await.expect_err("unknown");
    assert_eq!((status.code(), problem(&status).code.as_str()), (Code::NotFound, "not-found"));
    let next = async |watch: &mut tonic::Streaming<tonic_health::pb::HealthCheckResponse>| {
        watch.message().await.expect("a response").expect("the stream continues").status()
    };
    assert_eq!(next(&mut watch).await, ServingStatus::Serving);
    server.doors.close();
    assert_eq!(next(&mut watch).await, ServingStatus::NotServing);
    let response = health.check(about("")).await.expect("a response").into_inner();
    assert_eq!(response.status(), ServingStatus::NotServing);
}
