//! Clients with connection pools are restricted to allowed addresses too.

use bytes::Bytes;
use crore_outbound::{CallError, Connector, HttpVersions, Outbound};
use http::StatusCode;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::calls::{FakeResolver, Trap, open_options};
use crore_testkit::http_peer::{Peer, PeerReply};

type PooledClient = Client<Connector, Empty<Bytes>>;

fn client(outbound: &Outbound) -> PooledClient {
    Client::builder(TokioExecutor::new()).build(outbound.connector(HttpVersions::Http))
}

async fn get(client: &PooledClient, url: &str) -> Result<StatusCode, CallError> {
    let answer = client.get(url.parse().expect("a url")).await;
    let answer =
        answer.map_err(|error| CallError::find_in(&error).expect("our connector").clone())?;
    let status = answer.status();
    answer.into_body().collect().await.expect("a complete response");
    Ok(status)
}

#[tokio::test]
async fn a_connection_is_reused() {
    let peer = Peer::start(PeerReply::status(202)).await;
    let names = FakeResolver::new(&[&[[127, 0, 0, 1]], &[[127, 0, 0, 3]]]);
    let outbound = Outbound::with_resolver(open_options(&["127.0.0.1/32"]), names);
    let client = client(&outbound);
    for _ in 0..3 {
        let called = get(&client, &format!("http://worker.example:{}", peer.port())).await;
        assert_eq!(called, Ok(StatusCode::ACCEPTED), "the name is resolved once");
    }
    assert_eq!(peer.calls(), 3);
}

#[tokio::test]
async fn hosts_that_are_addresses_are_checked_like_names() {
    let (v4, v6) = (Trap::at([127, 0, 0, 1]), Trap::at([0, 0, 0, 0, 0, 0, 0, 1]));
    let names = FakeResolver::new(&[&[[127, 0, 0, 1]], &[[8, 8, 8, 8], [127, 0, 0, 1]]]);
    let client = client(&Outbound::with_resolver(open_options(&[]), names));
    for host in ["localhost", "mixed.example"] {
        let called = get(&client, &format!("http://{host}:{}", v4.port())).await;
        assert!(matches!(called, Err(CallError::Denied(_))), "{host}: {called:?}");
    }
    let client = self::client(&Outbound::new(open_options(&[])));
    for (host, trap) in [("127.0.0.1", &v4), ("[::ffff:127.0.0.1]", &v4), ("[::1]", &v6)] {
        for scheme in ["http", "https"] {
            let called = get(&client, &format!("{scheme}://{host}:{}", trap.port())).await;
            assert!(matches!(called, Err(CallError::Denied(_))), "{host}: {called:?}");
        }
    }
    for bad in ["http://user@localhost:8080", "http://localhost:22", "http://localhost:0"] {
        let called = get(&client, bad).await;
        assert!(matches!(called, Err(CallError::Denied(_))), "{bad}: {called:?}");
    }
    assert!(v4.saw_nothing() && v6.saw_nothing());
}
