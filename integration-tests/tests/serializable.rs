//! SERIALIZABLE over several shards: readers get one moment of all shards or are told to try again; writers stay on one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::direct;
use integration_tests::shop;

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";

/// A tenant of each shard.
fn tenants(deployment: &integration_tests::deployment::Deployment) -> Vec<String> {
    let tenant = |shard| Client::connect(&shard).simple("SELECT min(tenant_id) FROM tenants").ok().value();
    deployment.shards().into_iter().map(tenant).collect()
}

#[test]
fn a_reader_sees_all_shards_at_one_moment() {
    let deployment = shop::deploy(shop::layout(2));
    let mut client = deployment.connect();
    client.execute(BEGIN);
    let levels = client.simple("SELECT current_setting('transaction_isolation'), count(*) FROM orders GROUP BY 1").ok();
    assert_eq!(levels.rows.len(), 1);
    assert_eq!(levels.column(0), ["serializable"]);
    let total = client.simple("SELECT count(*) FROM order_items").ok().value();
    let mut other = deployment.connect();
    other.execute("UPDATE orders SET amount = amount + 1");
    other.execute("DELETE FROM order_items WHERE order_id < 100");
    assert_eq!(client.simple("SELECT count(*) FROM order_items").ok().value(), total);
    client.execute("COMMIT");
    assert_ne!(client.simple("SELECT count(*) FROM order_items").ok().value(), total);
}

#[test]
fn who_reads_several_shards_does_not_write() {
    if direct() {
        return;
    }
    let deployment = shop::deploy(shop::layout(2));
    let tenants = tenants(&deployment);
    let mut client = deployment.connect();
    client.execute(BEGIN);
    client.simple("SELECT count(*) FROM orders").ok();
    let write = format!("UPDATE orders SET amount = 0 WHERE tenant_id = {}", tenants[0]);
    assert_eq!(client.simple(&write).sqlstate(), Some("0A000"));
    client.execute("ROLLBACK");
    // Nor does a writer read several, nor one who has begun on one shard.
    for first in [write.as_str(), &format!("SELECT count(*) FROM orders WHERE tenant_id = {}", tenants[1])] {
        client.execute(BEGIN);
        client.simple(first).ok();
        assert_eq!(client.simple("SELECT count(*) FROM orders").sqlstate(), Some("0A000"));
        client.execute("ROLLBACK");
    }
    // On one shard it is PostgreSQL's own.
    client.execute(BEGIN);
    client.simple(&format!("SELECT count(*) FROM orders WHERE tenant_id = {}", tenants[0])).ok();
    client.execute(&write);
    client.execute("COMMIT");
}

/// Two transactions on one shard each; a reader must not see the second without the first. Whoever is told to try again
/// has seen nothing.
#[test]
fn no_reader_sees_commits_of_single_shards_out_of_order() {
    let deployment = shop::deploy(shop::layout(2));
    let tenants = tenants(&deployment);
    let [first, .., last] = tenants.as_slice() else { return };
    let (first, last) = (first.clone(), last.clone());
    let mut client = deployment.connect();
    client.execute("CREATE TABLE beats (tenant_id bigint PRIMARY KEY, beat bigint)");
    client.execute(&format!("INSERT INTO beats VALUES ({first}, 0), ({last}, 0)"));
    let address = deployment.address();
    let writer = std::thread::spawn(move || {
        let mut writer = Client::connect(&address);
        for beat in 1..100 {
            for tenant in [&first, &last] {
                writer.execute(&format!("UPDATE beats SET beat = {beat} WHERE tenant_id = {tenant}"));
            }
            if beat % 20 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        (first, last)
    });
    let mut seen = 0;
    while !writer.is_finished() {
        client.execute(BEGIN);
        let read = client.simple("SELECT tenant_id, beat FROM beats");
        match read.sqlstate() {
            Some(code) => assert_eq!(code, "40001", "{read:?}"),
            None => {
                let read = read.ok();
                let beats: Vec<(String, i64)> =
                    read.column(0).into_iter().zip(read.column(1).iter().map(|beat| beat.parse().unwrap())).collect();
                let beat = |tenant: &str| beats.iter().find(|(own, _)| own == tenant).unwrap().1;
                let (before, after) = (beat(&tenants[0]), beat(&tenants[tenants.len() - 1]));
                assert!(before == after || before == after + 1, "{before} and {after}");
                seen += 1;
            }
        }
        client.execute("ROLLBACK");
    }
    writer.join().unwrap();
    assert!(seen > 0);
}
