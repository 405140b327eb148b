//! Clients that keep their connections reach nobody whom they may not, either.

use bytes::Bytes;
use crore_outbound::{Connector, Failed, Outbound, Speech};
use http::StatusCode;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

use crate::calls::{Names, Trap, wide};
use crore_testkit::http_peer::{Peer, Reply};

type Kept = Client<Connector, Empty<Bytes>>;

fn client(outbound: &Outbound) -> Kept {
    Client::builder(TokioExecutor::new()).build(outbound.connector(Speech::Http))
}

async fn get(client: &Kept, url: &str) -> Result<StatusCode, Failed> {
    let answer = client.get(url.parse().expect("a url")).await;
    let answer = answer.map_err(|error| Failed::within(&error).expect("it never began").clone())?;
    let status = answer.status();
    answer.into_body().collect().await.expect("a whole answer");
    Ok(status)
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let peer = Peer::start(Reply::status(202)).await;
    let names = Names::new(&[&[[127, 0, 0, 1]], &[[127, 0, 0, 3]]]);
    let outbound = Outbound::with_resolver(wide(&["127.0.0.1/32"]), names);
    let client = client(&outbound);
    for _ in 0..3 {
        let called = get(&client, &format!("http://worker.example:{}", peer.port())).await;
        assert_eq!(called, Ok(StatusCode::ACCEPTED), "the name is asked for once");
    }
    assert_eq!(peer.calls(), 3);
}

#[tokio::test]
async fn hosts_that_are_addresses_are_checked_like_names() {
    let (v4, v6) = (Trap::at([127, 0, 0, 1]), Trap::at([0, 0, 0, 0, 0, 0, 0, 1]));
    let names = Names::new(&[&[[127, 0, 0, 1]], &[[8, 8, 8, 8], [127, 0, 0, 1]]]);
    let client = client(&Outbound::with_resolver(wide(&[]), names));
    for host in ["localhost", "mixed.example"] {
        let called = get(&client, &format!("http://{host}:{}", v4.port())).await;
        assert!(matches!(called, Err(Failed::Denied(_))), "{host}: {called:?}");
    }
    let client = self::client(&Outbound::new(wide(&[])));
    for (host, trap) in [("127.0.0.1", &v4), ("[::ffff:127.0.0.1]", &v4), ("[::1]", &v6)] {
        for scheme in ["http", "https"] {
            let called = get(&client, &format!("{scheme}://{host}:{}", trap.port())).await;
            assert!(matches!(called, Err(Failed::Denied(_))), "{host}: {called:?}");
        }
    }
    for bad in ["http://user@localhost:8080", "http://localhost:22", "http://localhost:0"] {
        let called = get(&client, bad).await;
        assert!(matches!(called, Err(Failed::Denied(_))), "{bad}: {called:?}");
    }
    assert!(v4.saw_nothing() && v6.saw_nothing());
}
