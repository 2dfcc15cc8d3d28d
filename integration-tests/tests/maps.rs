//! Shard maps of every kind, with pins, over three shards: rows are found where they were put, PostgreSQL with all rows
//! gives the same answers, `check --verify` agrees with the routing, and a region touches only its shards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Rows;
use integration_tests::outcome::difference;
use integration_tests::proxy::binary;
use std::process::Command;

/// A map and the types of its key, which the columns a and b of a table of the same name have.
const MAPS: [(&str, [&str; 2], &str); 7] = [
    (
        "region_hash",
        ["text", "bigint"],
        r#"function = "list"
lists = [{ values = ["eu", "uk"], then = { function = "hash", shards = ["s0", "s1"], buckets = 16 } },
         { values = ["us"], then = { function = "hash", shards = ["s2"] } }]
pins = [{ key = ["eu", 3], shard = "s2" }]"#,
    ),
    (
        "region_mixed",
        ["text", "integer"],
        r#"function = "list"
lists = [{ values = ["eu"], then = { function = "range", ranges = [{ to = 4, shard = "s0" }, { from = 4, shard = "s1" }] } },
         { values = ["us"], then = { function = "list", lists = [{ values = [1, 2, 3], shard = "s1" }], default = "s2" } },
         { values = ["uk"], shard = "s2" }]
default = "s1"
pins = [{ key = ["us", 2], shard = "s0" }]"#,
    ),
    (
        "span_hash",
        ["date", "text"],
        r#"function = "range"
ranges = [{ to = "2026-01-01", shard = "s2" },
          { from = "2026-01-01", to = "2026-03-01", then = { function = "hash", placement = [
              { buckets = "0-2047", shard = "s1" }, { buckets = "2048-4095", shard = "s0" }] } },
          { from = "2026-03-01", then = { function = "hash", shards = ["s2", "s0"] } }]"#,
    ),
    (
        "plain_hash",
        ["bigint", "text"],
        "function = \"hash\"\nshards = [\"s2\", \"s1\"]\npins = [{ key = [2, \"v5\"], shard = \"s0\" }]",
    ),
    (
        "plain_range",
        ["integer", "text"],
        r#"function = "range"
ranges = [{ to = [3, "v3"], shard = "s0" }, { from = [3, "v3"], to = 5, shard = "s1" }, { from = 5, shard = "s2" }]
pins = [{ key = [1, "v1"], shard = "s2" }]"#,
    ),
    (
        "plain_list",
        ["text", "bigint"],
        r#"function = "list"
lists = [{ values = ["eu", "uk"], shard = "s1" }]
default = "s0"
pins = [{ key = ["eu", 1], shard = "s2" }]"#,
    ),
    ("one_column_pins", ["uuid", "bigint"], "function = \"hash\"\nbuckets = 1\nshards = [\"s1\"]"),
];

fn layout() -> Layout {
    MAPS.iter().fold(Layout::new(3), |layout, (name, key, lines)| {
        layout.map(name, key, lines).sharded(&format!("public.{name}"), &["a", "b"])
    })
}

/// Values of a type, among them what pins, bounds and lists name.
fn values(key_type: &str) -> Vec<String> {
    match key_type {
        "integer" | "bigint" => (1..7).map(|n| n.to_string()).collect(),
        "date" => ["2025-12-31", "2026-01-01", "2026-02-15", "2026-03-01", "2030-01-01"].map(String::from).to_vec(),
        "uuid" => (1..5).map(|n| format!("00000000-0000-0000-0000-00000000000{n}")).collect(),
        _ => ["eu", "uk", "us", "v1", "v3", "v5"].map(String::from).to_vec(),
    }
}

#[test]
fn rows_are_found_on_maps_of_every_kind() {
    let deployment = Deployment::start(layout());
    if direct() || deployment.layout.shards != 3 {
        return;
    }
    deployment.cluster(0).create_database(SINGLE);
    let mut single = Client::connect(&deployment.cluster(0).app(SINGLE));
    let mut proxy = deployment.connect();
    for (table, [a, b], _) in MAPS {
        for client in [&mut single, &mut proxy] {
            client.execute(&format!("CREATE TABLE {table} (a {a}, b {b}, n integer)"));
        }
        let mut n = 0;
        for (a, b) in values(a).iter().flat_map(|a| values(b).into_iter().map(move |b| (a.clone(), b))) {
            n += 1;
            let sql = format!("INSERT INTO {table} VALUES ($1, $2, {n})");
            let outcome = proxy.run(MODES[1 + n % 2], &sql, &[Some(&a), Some(&b)]);
            // regions that are not listed and have no default live nowhere
            if table == "region_hash" && a.starts_with('v') {
                assert_eq!(outcome.sqlstate(), Some("23514"), "{a}");
                continue;
            }
            assert_eq!(outcome.tag(), "INSERT 0 1", "{table} {a} {b}");
            single.execute(&format!("INSERT INTO {table} VALUES ('{a}', '{b}', {n})"));
        }
        compare(table, a, b, &mut single, &mut proxy);
    }
    let verified = Command::new(binary())
        .args(["check", "--verify", "--config"])
        .arg(deployment.proxy().config_path())
        .output()
        .unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    a_misplaced_row_is_found(&deployment);
}

fn compare(table: &str, a: &str, b: &str, single: &mut Client, proxy: &mut Client) {
    let mut conditions = vec!["true".to_owned(), "a IS NULL".into(), "a IS NOT NULL AND b IS NULL".into()];
    for value in values(a) {
        conditions.push(format!("a = '{value}'"));
        conditions.push(format!("a >= '{value}' AND b < '{}'", values(b)[3]));
        for other in values(b) {
            conditions.push(format!("a = '{value}' AND b = '{other}'"));
            conditions.push(format!("(a, b) IN (('{value}', '{other}'), ('{}', '{}'))", values(a)[0], values(b)[0]));
        }
    }
    for value in values(b) {
        conditions.push(format!("b = '{value}'"));
        conditions.push(format!("b IN ('{value}', '{}') AND a < '{}'", values(b)[0], values(a)[2]));
    }
    for (n, condition) in conditions.iter().enumerate() {
        for sql in [
            format!("SELECT * FROM {table} WHERE {condition}"),
            format!("SELECT count(*), min(n), max(n) FROM {table} WHERE {condition}"),
        ] {
            let (expected, actual) = (single.run(MODES[n % 3], &sql, &[]), proxy.run(MODES[n % 3], &sql, &[]));
            if let Some(difference) = difference(&expected, &actual, Rows::Unordered) {
                panic!("{sql}\n{difference}");
            }
        }
    }
}

/// The row is where the map does not look for it.
fn a_misplaced_row_is_found(deployment: &Deployment) {
    let mut shard = Client::connect(&deployment.shard(2));
    for (table, row) in
        [("region_hash", "('uk', 1, 0)"), ("span_hash", "('2026-02-01', 'v1', 0)"), ("plain_hash", "(2, 'v5', 0)")]
    {
        shard.execute(&format!("INSERT INTO {table} VALUES {row}"));
        let output = Command::new(binary())
            .args(["check", "--verify", "--config"])
            .arg(deployment.proxy().config_path())
            .output()
            .unwrap();
        let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(!output.status.success() && told.contains(table), "{table}: {told}");
        shard.execute(&format!("DELETE FROM {table} WHERE n = 0"));
    }
}

#[test]
fn a_region_touches_only_its_shards() {
    let deployment = Deployment::start(layout());
    if direct() || deployment.layout.shards != 3 {
        return;
    }
    let mut client = deployment.connect();
    for (table, [a, b], _) in MAPS {
        client.execute(&format!("CREATE TABLE {table} (a {a}, b {b}, n integer)"));
    }
    let cases = [
        ("region_hash WHERE a = 'uk'", "s0 s1"),
        ("region_hash WHERE a = 'eu'", "s0 s1 s2"),
        ("region_hash WHERE a = 'us'", "s2"),
        ("region_hash WHERE a IN ('us', 'uk')", "s0 s1 s2"),
        ("region_hash WHERE a = 'eu' AND b = 3", "s2"),
        ("region_mixed WHERE a = 'uk'", "s2"),
        ("region_mixed WHERE a = 'eu'", "s0 s1"),
        ("region_mixed WHERE a = 'eu' AND b > 4", "s1"),
        ("region_mixed WHERE a = 'zz'", "s1"),
        ("span_hash WHERE a < '2025-06-01'", "s2"),
        ("span_hash WHERE a BETWEEN '2026-01-05' AND '2026-02-05'", "s0 s1"),
        ("span_hash WHERE a > '2026-04-01'", "s0 s2"),
        ("plain_hash", "s0 s1 s2"),
        ("plain_hash WHERE a = 1", "s1 s2"),
        ("plain_range WHERE a = 5", "s2"),
        ("plain_range WHERE a = 4", "s1"),
        ("plain_range WHERE a = 1", "s0 s2"),
        ("plain_list WHERE a = 'uk'", "s1"),
        ("one_column_pins", "s1"),
    ];
    let statements: Vec<String> = cases.iter().map(|(from, _)| format!("SELECT * FROM {from}")).collect();
    let output = Command::new(binary())
        .args(["route", "--config"])
        .arg(deployment.proxy().config_path())
        .arg(statements.join(";"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let told: Vec<String> = printed.lines().filter_map(|line| line.strip_prefix("shard")).map(names).collect();
    assert_eq!(told.len(), cases.len(), "{printed}");
    for ((from, expected), told) in cases.iter().zip(told) {
        assert_eq!(told, *expected, "{from}");
    }
}

/// `s: s0, s1` as `s0 s1`.
fn names(line: &str) -> String {
    line.trim_start_matches(['s', ':', ' '])
        .split(", ")
        .map(|n| format!("s{}", n.trim_start_matches('s')))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A NULL that the column does not take is PostgreSQL's to refuse; one that it takes, but no list or range does, is ours.
#[test]
fn a_null_key_without_a_place_is_refused() {
    let deployment = Deployment::start(layout());
    if direct() || deployment.layout.shards != 3 {
        return;
    }
    let mut client = deployment.connect();
    client.execute("CREATE TABLE region_hash (a text NOT NULL, b bigint, n integer)");
    client.execute("CREATE TABLE plain_range (a integer, b text NOT NULL, n integer)");
    let cases = [
        ("INSERT INTO region_hash VALUES (NULL, 1, 1)", "23502"),
        ("INSERT INTO region_hash (b) VALUES (1)", "23502"),
        ("INSERT INTO region_hash VALUES ('us', 1, 1), ('eu', 1, 1), (NULL, 1, 1)", "23502"),
        ("INSERT INTO plain_range VALUES (NULL, 'x', 1)", "23514"),
        ("INSERT INTO plain_range VALUES (1, NULL, 1)", "23502"),
    ];
    for mode in MODES {
        for (sql, code) in cases {
            assert_eq!(client.run(mode, sql, &[]).sqlstate(), Some(code), "{sql}");
        }
    }
    assert_eq!(client.simple("SELECT count(*) FROM region_hash").ok().value(), "0");
    assert_eq!(client.simple("INSERT INTO region_hash VALUES ('eu', NULL, 1)").tag(), "INSERT 0 1");
}
