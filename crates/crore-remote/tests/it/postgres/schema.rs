use crore_core::Span;
use crore_remote::sql::postgres::{Postgres, PostgresOptions};
use crore_store::{Error, Jobs};
use crore_testkit::{or_skip, shared, unique_name};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{ask, job, name, subject};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_may_open_a_new_schema_at_once() {
    let Some(url) = or_skip(shared::postgres()) else { return };
    let options = PostgresOptions::new(name(&format!("{} \"'; --\\", unique_name("crore"))));
    let opens: Vec<_> = (0..8)
        .map(|_| {
            let (url, options) = (url.clone(), options.clone());
            tokio::spawn(async move { Postgres::open(&url, options).await })
        })
        .collect();
    let mut nodes = Vec::new();
    for open in opens {
        nodes.push(open.await.expect("runs").expect("opens"));
    }
    _ = nodes[0].push(job("q").into()).await.expect("pushes");
    assert_eq!(nodes[7].claim(ask(&["q"], 9)).await.expect("claims").jobs.len(), 1);
}

#[tokio::test]
async fn jobs_outlive_the_node_that_pushed_them() {
    let Some(it) = subject().await else { return };
    let id = it.push(vec![job("q")]).await[0];
    it.store.close().await;
    assert!(matches!(it.store.get(vec![id.into()]).await, Err(Error::Unavailable(_))));
    let other = it.node().await;
    assert_eq!(other.claim(ask(&["q"], 9)).await.expect("claims").jobs[0].id, id);
}

#[tokio::test]
async fn a_newer_format_is_refused_and_a_damaged_record_is_noticed() {
    let Some(it) = subject().await else { return };
    let id = it.push(vec![job("q")]).await[0];
    let mut raw = PgConnection::connect(&it.url).await.expect("connects");
    let schema = it.options.schema.as_str();
    let damage = format!("update {schema}.jobs set spec = '{{'");
    sqlx::raw_sql(AssertSqlSafe(damage)).execute(&mut raw).await.expect("damages");
    assert!(matches!(it.store.get(vec![id.into()]).await, Err(Error::Corrupt { .. })));
    let newer = format!("update {schema}.meta set format = 1000");
    sqlx::raw_sql(AssertSqlSafe(newer)).execute(&mut raw).await.expect("changes");
    let refused = Postgres::open(&it.url, it.options.clone()).await.expect_err("is refused");
    assert!(refused.to_string().contains("format 1000"), "{refused}");
}

#[tokio::test]
async fn a_missing_server_is_unavailable_and_a_long_schema_name_is_refused() {
    let mut options = PostgresOptions::new(name("s"));
    options.connect_timeout = Span::from_millis(200);
    let nowhere = Postgres::open("postgres://nobody@127.0.0.1:1/none", options).await;
    assert!(matches!(nowhere, Err(Error::Unavailable(_))), "{nowhere:?}");
    let long = PostgresOptions::new(name(&"s".repeat(64)));
    let refused = Postgres::open("postgres://nobody@127.0.0.1:1/none", long).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}
