//! Rows live where PostgreSQL's own hash partitioning says, and a configuration that would lose them is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::bucket_expression;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Mode;
use integration_tests::postgres::Cluster;
use integration_tests::proxy::Proxy;

const TYPES: [(&str, &str); 5] = [
    ("smallint", "n"),
    ("integer", "n * 9999"),
    ("bigint", "n * 99999999999"),
    ("text", "'key ' || n"),
    ("uuid", "md5('' || n)::uuid"),
];

fn layout(shards: usize) -> Layout {
    TYPES.iter().fold(Layout::new(shards), |layout, (key_type, _)| {
        layout.hash_map(key_type, &[key_type]).sharded(&format!("public.by_{key_type}"), &["k"])
    })
}

fn create_tables(client: &mut Client) {
    for (key_type, _) in TYPES {
        client.execute(&format!("CREATE TABLE by_{key_type} (k {key_type}, v integer)"));
    }
}

#[test]
fn rows_are_where_postgresql_says() {
    let deployment = Deployment::start(layout(3));
    let mut client = deployment.connect();
    create_tables(&mut client);
    for (key_type, make) in TYPES {
        let keys = client.simple(&format!("SELECT {make} FROM generate_series(-30, 29) n")).ok().column(0);
        for (n, key) in keys.iter().enumerate() {
            // As a literal, as an untyped parameter, as a binary-result parameter.
            let outcome = match MODES[n % 3] {
                Mode::Simple => client.simple(&format!("INSERT INTO by_{key_type} VALUES ('{key}', {n})")),
                mode => client.run(mode, &format!("INSERT INTO by_{key_type} VALUES ($1, {n})"), &[Some(key)]),
            };
            assert_eq!(outcome.tag(), "INSERT 0 1", "{key_type} {key}");
        }
        let bucket = bucket_expression(&["k".into()], &[key_type.to_string()]);
        for shard in 0..deployment.layout.shards {
            let sql = format!(
                "SELECT count(*) FILTER (WHERE ({bucket}) * {} / 4096 <> {shard}) || ' of ' || (count(*) > 0)::text FROM by_{key_type}",
                deployment.layout.shards
            );
            let misplaced = Client::connect(&deployment.shard(shard)).simple(&sql).ok().value();
            assert_eq!(misplaced, "0 of true", "{key_type} on shard {shard}");
        }
        for (n, key) in keys.iter().enumerate() {
            let found = client.run(MODES[n % 2], &format!("SELECT v FROM by_{key_type} WHERE k = '{key}'"), &[]);
            assert_eq!(found.ok().value(), n.to_string(), "{key_type} {key}");
        }
        assert_eq!(client.simple(&format!("SELECT count(*) FROM by_{key_type}")).ok().value(), keys.len().to_string());
    }
}

#[test]
fn a_null_key_has_a_place() {
    let deployment = Deployment::start(layout(3));
    let mut client = deployment.connect();
    create_tables(&mut client);
    client.execute("INSERT INTO by_bigint VALUES (NULL, 1)");
    assert_eq!(client.extended("INSERT INTO by_bigint VALUES ($1, 2)", &[None], false).tag(), "INSERT 0 1");
    assert_eq!(Client::connect(&deployment.shard(0)).simple("SELECT count(*) FROM by_bigint").ok().value(), "2");
    assert_eq!(client.simple("SELECT count(*) FROM by_bigint WHERE k IS NULL").ok().value(), "2");
    assert_eq!(client.simple("SELECT * FROM by_bigint WHERE k = NULL").ok().rows.len(), 0);
}

/// The configuration of a deployment with one shard more.
fn with_one_more(deployment: &Deployment) -> impl FnOnce(u16, u16) -> String {
    deployment.cluster(0).create_database("more");
    let mut shards = deployment.shards();
    shards.push(deployment.cluster(0).app("more"));
    let layout = layout(shards.len());
    move |port, http| layout.toml(&shards, port, http)
}

#[test]
fn another_placement_is_refused_while_there_are_rows() {
    if direct() {
        return;
    }
    let mut deployment = Deployment::start(layout(2));
    let mut client = deployment.connect();
    create_tables(&mut client);
    for n in 1..20 {
        client.execute(&format!("INSERT INTO by_bigint VALUES ({n}, {n})"));
    }
    drop(client);
    deployment.proxy = None;
    let said = Proxy::refused(with_one_more(&deployment));
    assert!(said.contains("by_bigint"), "{said}");
    // The configuration as it was starts again, and finds everything.
    deployment.start_proxy();
    assert_eq!(deployment.connect().simple("SELECT count(*) FROM by_bigint").ok().value(), "19");
}

#[test]
fn another_placement_is_taken_when_there_are_no_rows() {
    if direct() {
        return;
    }
    let mut deployment = Deployment::start(layout(2));
    create_tables(&mut deployment.connect());
    deployment.proxy = None;
    let proxy = Proxy::start(with_one_more(&deployment));
    drop(proxy);
}

#[test]
fn a_table_whose_rows_are_elsewhere_is_refused() {
    if direct() {
        return;
    }
    let deployment = Deployment::clusters(layout(2), Cluster::builder());
    for (shard, address) in deployment.shards().iter().enumerate() {
        let mut client = Client::connect(address);
        create_tables(&mut client);
        client.execute(&format!(
            "INSERT INTO by_text SELECT 'key ' || n, n FROM generate_series(1, 20) n WHERE n % 2 = {shard}"
        ));
    }
    let shards = deployment.shards();
    let said = Proxy::refused(|port, http| deployment.layout.toml(&shards, port, http));
    assert!(said.contains("by_text"), "{said}");
}
