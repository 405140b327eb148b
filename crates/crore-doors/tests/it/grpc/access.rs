//! Authorization by tokens and certificates, TLS, audit log and metrics.

use std::sync::Arc;

use crore::Engine;
use crore_api::Scope;
use crore_api::audit::{self, Audit};
use crore_doors::tls;
use crore_doors::{Doors, Options, listen};
use crore_wire::TokenSecret;
use crore_wire::grpc::v1;
use crore_wire::grpc::v1::admin_client::AdminClient;
use crore_wire::grpc::v1::jobs_client::JobsClient;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tower::service_fn;

use super::{connect, job, problem, push};
use crate::access::token;
use crate::server::Server;
use crate::tls::{CertificateAuthority, CertificateUse, Pair};

/// A request with a token.
fn with<T>(token: &TokenSecret, ask: T) -> Request<T> {
    let mut request = Request::new(ask);
    let text = format!("Bearer {}", token.reveal());
    request.metadata_mut().insert("authorization", text.parse().expect("a text"));
    request
}

fn one() -> v1::PushRequest {
    v1::PushRequest { jobs: vec![job("mail")], ..v1::PushRequest::default() }
}

#[tokio::test]
async fn a_token_in_the_metadata_authenticates_its_owner_only() {
    let server = Server::start().await;
    let pusher = token(&server.engine, "pusher", &[Scope::Push]).await;
    let mut jobs = JobsClient::new(connect(&server).await);
    let status = jobs.push(one()).await.expect_err("unauthenticated");
    assert_eq!((status.code(), problem(&status).code.as_str()), {
        (Code::Unauthenticated, "token-needed")
    });
    let pushed = jobs.push(with(&pusher, one())).await.expect("admitted").into_inner();
    let by_id = v1::JobRef { which: Some(v1::job_ref::Which::Id(pushed.jobs[0].id)) };
    for lacking in [
        jobs.get(with(&pusher, by_id.clone())).await.expect_err("no reader"),
        jobs.cancel(with(&pusher, by_id)).await.expect_err("not an operator"),
    ] {
        assert_eq!(lacking.code(), Code::PermissionDenied);
        assert_eq!(problem(&lacking).code, "scope-missing");
    }
    let wrong = TokenSecret::new("crore_nobody_nothing");
    let status = jobs.push(with(&wrong, one())).await.expect_err("unknown");
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[tokio::test]
async fn a_change_has_one_audit_entry_with_its_object_and_outcome() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("audit.jsonl");
    let options = audit::Options { file: Some(file.clone()), ..audit::Options::default() };
    let audit = Audit::open(&options).expect("opened");
    let doors = Doors::audited(Engine::memory(), Options::default(), audit);
    let server = Server::open(doors, listen::Options::default(), None).await;
    let id = push(&server, "mail", 1).await[0];
    let channel = connect(&server).await;
    let (mut jobs, mut admin) = (JobsClient::new(channel.clone()), AdminClient::new(channel));
    let by_id = v1::JobRef { which: Some(v1::job_ref::Which::Id(id)) };
    jobs.cancel(by_id.clone()).await.expect("cancelled");
    jobs.cancel(by_id.clone()).await.expect_err("it has ended");
    admin.pause_queue(v1::QueueRef { queue: "mail".into() }).await.expect("paused");
    let limit = v1::Limit { name: "slow".into(), limit: "rate 5/1m".into() };
    admin.set_limit(limit).await.expect("set");
    let ask = v1::ActRequest {
        act: v1::act_request::Act::Delete.into(),
        queue: "mail".into(),
        ..v1::ActRequest::default()
    };
    let mut steps = admin.act_on_all(ask).await.expect("begun").into_inner();
    while steps.message().await.expect("a response").is_some() {}
    jobs.get(by_id).await.expect_err("removed");
    let text = std::fs::read_to_string(&file).expect("a file");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an entry")).collect();
    let said: Vec<_> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (text("call"), line["status"].as_u64(), text("about"), text("code"))
        })
        .collect();
    let job = format!("job {id}");
    let all =
        r#"{"act":"delete","filter":{"queue":"mail","labels":{},"all":false},"dry_run":false}"#;
    let expected = [
        ("POST /crore.v1.Jobs/Cancel", 200, job.as_str(), ""),
        ("POST /crore.v1.Jobs/Cancel", 409, "", "refused"),
        ("POST /crore.v1.Admin/PauseQueue", 200, "queue mail", ""),
        ("POST /crore.v1.Admin/SetLimit", 200, "limit slow: rate 5/1m", ""),
        ("POST /crore.v1.Admin/ActOnAll", 200, all, ""),
    ];
    let expected = expected.map(|(call, status, about, code)| {
        (call.to_owned(), Some(status), about.to_owned(), code.to_owned())
    });
    assert_eq!(said, expected);
}

#[tokio::test]
async fn calls_are_counted_by_their_status_and_streams_when_they_end() {
    let server = Server::start().await;
    push(&server, "mail", 1).await;
    let mut jobs = JobsClient::new(connect(&server).await);
    jobs.get(v1::JobRef { which: Some(v1::job_ref::Which::Id(99)) }).await.expect_err("no job");
    let stream = futures_util::stream::iter([one()]);
    let mut answers = jobs.push_stream(stream).await.expect("taken").into_inner();
    while answers.message().await.expect("answered").is_some() {}
    let mut admin = AdminClient::new(connect(&server).await);
    let events = admin.listen(v1::ListenRequest::default()).await.expect("a stream").into_inner();
    drop(events);
    crate::server::eventually(async || {
        let (_, text) = server.page("/metrics").await;
        let counted = [
            ("Jobs/Push", "OK", 1),
            ("Jobs/PushStream", "OK", 1),
            ("Jobs/Get", "NOT_FOUND", 1),
            ("Admin/Listen", "CANCELLED", 1),
        ];
        let is_there = |(call, status, n): &(&str, &str, u32)| {
            let labels = format!("call=\"/crore.v1.{call}\",status=\"{status}\"");
            text.contains(&format!("crore_grpc_calls_total{{{labels}}} {n}\n"))
        };
        let rejected = "crore_rejected_total{door=\"grpc\",reason=\"not-found\"} 1\n";
        counted.iter().all(is_there) && text.contains(rejected)
    })
    .await;
    let answered = "door=\"grpc\",method=\"POST\",route=\"/crore.v1.Jobs/Push\",status=\"200\"} 1";
    assert!(server.page("/metrics").await.1.contains(answered));
}

/// A TLS connection, with or without a client certificate.
async fn secure(
    server: &Server,
    authority: &CertificateAuthority,
    own: Option<&Pair>,
) -> Result<Channel, String> {
    let mut roots = rustls::RootCertStore::empty();
    let pem = authority.pem();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("a root")).expect("added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let chain =
                vec![CertificateDer::from_pem_file(&pair.certificate).expect("a certificate")];
            let key = PrivateKeyDer::from_pem_file(&pair.key).expect("a key");
            config.with_client_auth_cert(chain, key).expect("a pair")
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (connector, address) = (TlsConnector::from(Arc::new(config)), server.address);
    let connect = service_fn(move |_: http::Uri| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").expect("a name");
            Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, stream).await?))
        }
    });
    let endpoint = Endpoint::from_shared(format!("http://localhost:{}", address.port()));
    endpoint.expect("an address").connect_with_connector(connect).await.map_err(|e| e.to_string())
}

#[tokio::test]
async fn a_client_certificate_over_tls_authenticates_like_a_token() {
    let authority = CertificateAuthority::new();
    let client = authority.sign("client", &["worker.example"], CertificateUse::Client, |_| {});
    let ca = authority.file("ca.pem", &authority.pem());
    let options = tls::Options { client_ca: Some(ca), ..crate::tls::options(&authority.server()) };
    let (server, _) = crate::tls::serve(&options).await;
    // Once a token exists, every caller must authenticate.
    let secret = token(&server.engine, "ada", &[Scope::Push]).await;
    let known = secure(&server, &authority, Some(&client)).await.expect("connected");
    let pushed = JobsClient::new(known).push(one()).await.expect("admitted").into_inner();
    assert_eq!(pushed.refused, 0);
    let seen = server.engine.jobs().counts(None).await.expect("counted");
    assert_eq!(seen.iter().map(|count| count.n).sum::<u64>(), 1);
    // A client without a certificate and token is refused, and so is the certificate of another authority.
    let nobody = secure(&server, &authority, None).await.expect("connected");
    let mut nobody = JobsClient::new(nobody);
    let status = nobody.push(one()).await.expect_err("unauthenticated");
    assert_eq!(status.code(), Code::Unauthenticated, "{status:?}");
    nobody.push(with(&secret, one())).await.expect("admitted by a token");
    let strange = CertificateAuthority::new();
    let strange = strange.sign("client", &["worker.example"], CertificateUse::Client, |_| {});
    if let Ok(stranger) = secure(&server, &authority, Some(&strange)).await {
        let status = JobsClient::new(stranger).push(one()).await.expect_err("a stranger");
        assert!(
            matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled),
            "{status:?}"
        );
    }
}
