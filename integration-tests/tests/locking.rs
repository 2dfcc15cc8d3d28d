//! Rows that are locked over several shards: as many as the statement gives, until the transaction ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::shop;

/// How many orders another session finds unlocked.
const FREE: &str = "SELECT order_id FROM orders FOR UPDATE SKIP LOCKED";

#[test]
fn limit_locks_no_more_than_it_gives() {
    let deployment = shop::deploy(shop::layout(3));
    let (mut one, mut other) = (deployment.connect(), deployment.connect());
    let all = other.simple(FREE).ok().rows.len();
    one.execute("BEGIN");
    let first = one.simple("SELECT tenant_id, order_id FROM orders LIMIT 4 FOR UPDATE SKIP LOCKED").ok();
    assert_eq!(first.rows.len(), 4);
    assert_eq!(other.simple(FREE).ok().rows.len(), all - 4);
    other.execute("BEGIN");
    let rest = other.simple("SELECT tenant_id, order_id FROM orders LIMIT 100000 FOR UPDATE SKIP LOCKED").ok();
    assert_eq!(rest.rows.len(), all - 4);
    assert!(rest.rows.iter().all(|row| !first.rows.contains(row)));
    let refused = one.simple("SELECT order_id FROM orders WHERE amount IS NOT NULL FOR UPDATE NOWAIT");
    assert_eq!(refused.sqlstate(), Some("55P03"));
    one.execute("ROLLBACK");
    other.execute("ROLLBACK");
    assert_eq!(one.simple(FREE).ok().rows.len(), all);
}

#[test]
fn explain_shows_the_final_statement() {
    let deployment = shop::deploy(shop::layout(2));
    let mut client = deployment.connect();
    let lines =
        |client: &mut integration_tests::client::Client, sql: &str| client.simple(sql).ok().column(0).join("\n");
    let plan = lines(&mut client, "EXPLAIN (COSTS OFF) SELECT count(*) + 1 FROM orders WHERE placed < now()");
    assert!(plan.contains("final: SELECT") && plan.contains("on shard s1:"), "{plan}");
    let plan = lines(&mut client, "EXPLAIN (COSTS OFF) SELECT order_id FROM orders LIMIT 2 FOR UPDATE");
    assert!(plan.contains("shards in turn") && plan.contains("LockRows"), "{plan}");
}
