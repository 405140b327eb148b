//! Invalid calls: refused with a status, the connection stays open, and nothing is stored.

use crore_api::Scope;
use http::Version;
use tonic::Code;

use super::{CreateWorkerRequest, command};
use crate::access::token;
use crate::grpc::frames::{RawConnection, frame, framed, request};
use crate::server::Server;

const GRPC: [(&str, &str); 2] = [("content-type", "application/grpc"), ("te", "trailers")];
const CREATE: &str = "/jobworkerp.service.WorkerService/Create";
const ENQUEUE: &str = "/jobworkerp.service.JobService/Enqueue";
const LISTEN: &str = "/jobworkerp.service.JobResultService/Listen";

/// Every call with its required scope.
#[rustfmt::skip]
const CALLS: [(&str, Scope); 24] = [
    ("WorkerService/Create",                Scope::Define),
    ("WorkerService/Update",                Scope::Define),
    ("WorkerService/Delete",                Scope::Define),
    ("WorkerService/Find",                  Scope::Read),
    ("WorkerService/FindByName",            Scope::Read),
    ("WorkerService/FindList",              Scope::Read),
    ("WorkerService/Count",                 Scope::Read),
    ("JobService/Enqueue",                  Scope::Push),
    ("JobService/Delete",                   Scope::Operate),
    ("JobService/Find",                     Scope::Read),
    ("JobService/FindList",                 Scope::Read),
    ("JobService/FindListByWorkerId",       Scope::Read),
    ("JobService/Count",                    Scope::Read),
    ("JobStatusService/Find",               Scope::Read),
    ("JobStatusService/FindAll",            Scope::Read),
    ("JobRestoreService/Restore",           Scope::Operate),
    ("JobRestoreService/FindAll",           Scope::Read),
    ("JobResultService/Delete",             Scope::Operate),
    ("JobResultService/Find",               Scope::Read),
    ("JobResultService/FindList",           Scope::Read),
    ("JobResultService/FindListByJobId",    Scope::Read),
    ("JobResultService/FindListByWorkerId", Scope::Read),
    ("JobResultService/Listen",             Scope::Push),
    ("JobResultService/Count",              Scope::Read),
];

#[tokio::test]
async fn malformed_messages_are_refused_and_the_connection_stays_open() {
    let server = Server::start().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_2).await;
    let unreadable = Code::InvalidArgument as i32;
    let endless = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    for (what, bytes) in [
        ("nothing at all", Vec::new()),
        ("half a length", vec![0, 0, 0]),
        ("a varint without end", frame(0, &endless)),
        ("2^63 bytes", frame(0, &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f])),
        ("a field that is cut off", frame(0, &[0x0a, 5, 1])),
        ("wire type 7", frame(0, &[0x0f])),
        ("field 0", frame(0, &[0x02, 0])),
        ("a group without end", frame(0, &[0x7b])),
        ("another wire type", frame(0, &[0x0d, 0, 0, 0, 0])),
    ] {
        for path in [CREATE, ENQUEUE, LISTEN] {
            let response =
                connection.send(request(&server, "POST", path, &GRPC, bytes.clone())).await;
            assert_eq!(
                (response.status, response.grpc()),
                (200, Some(unreadable)),
                "{path}: {what}"
            );
        }
    }
    let many = frame(0, &[0x5a, 0].repeat(5 << 20));
    let response = connection.send(request(&server, "POST", CREATE, &GRPC, many)).await;
    assert_eq!(response.grpc(), Some(Code::ResourceExhausted as i32), "{response:?}");
    let unknown = "/jobworkerp.service.WorkerService/Explode";
    let response = connection.send(request(&server, "POST", unknown, &GRPC, frame(0, &[]))).await;
    assert_eq!((response.status, response.grpc()), (200, Some(Code::Unimplemented as i32)));
    assert!(server.engine.handlers().list().await.expect("a response").is_empty());
    // Unknown fields are ignored, as protobuf requires.
    let mut newer = framed(&command("a"));
    newer.splice(1..5, (newer.len() as u32 - 5 + 6).to_be_bytes());
    newer.extend([0xfa, 0x07, 3, b'n', b'e', b'w']);
    let response = connection.send(request(&server, "POST", CREATE, &GRPC, newer)).await;
    assert_eq!(response.grpc(), Some(0), "{response:?}");
    assert_eq!(server.engine.handlers().list().await.expect("a response").len(), 1);
}

#[tokio::test]
async fn invalid_deadlines_are_ignored() {
    let server = Server::start().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_2).await;
    for (n, timeout) in
        ["99999999H", "0n", "-1S", "S", "", "1", "1S1S", "999999999999S"].into_iter().enumerate()
    {
        let headers = [GRPC[0], GRPC[1], ("grpc-timeout", timeout)];
        let worker: CreateWorkerRequest = command(&n.to_string());
        let response =
            connection.send(request(&server, "POST", CREATE, &headers, framed(&worker))).await;
        assert_eq!(response.grpc(), Some(0), "{timeout}: {response:?}");
    }
}

#[tokio::test]
async fn every_call_needs_its_scope() {
    let server = Server::start().await;
    let mut connection = RawConnection::open(&server, Version::HTTP_2).await;
    let mut keys = Vec::new();
    for scope in [Scope::Define, Scope::Read, Scope::Push, Scope::Operate] {
        keys.push((scope, token(&server.engine, &format!("{scope:?}"), &[scope]).await));
    }
    let response = connection.send(request(&server, "POST", CREATE, &GRPC, frame(0, &[]))).await;
    assert_eq!(response.grpc(), Some(Code::Unauthenticated as i32));
    for (call, needs) in CALLS {
        let path = format!("/jobworkerp.service.{call}");
        for (scope, key) in &keys {
            let shown = format!("Bearer {}", key.reveal());
            let headers = [GRPC[0], GRPC[1], ("authorization", shown.as_str())];
            let response =
                connection.send(request(&server, "POST", &path, &headers, frame(0, &[]))).await;
            let is_refused = response.grpc() == Some(Code::PermissionDenied as i32);
            // Readers may have every result.
            let reads_result = call == "JobResultService/Listen" && *scope == Scope::Read;
            let may = *scope == needs || reads_result;
            assert_eq!(is_refused, !may, "{call} with {scope:?}: {response:?}");
        }
    }
}
