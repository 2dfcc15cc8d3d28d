//! The control plane against a real PostgreSQL: reads, probes, the placement record, and the SQL that says where a row is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::postgres::Cluster;
use integration_tests::postgres::SUPERUSER;
use shardway::config::Config;
use shardway::config::Database;
use shardway::config::MapConfig;
use shardway::config::MapFunction;
use shardway::config::load;
use shardway::control::Control;
use shardway::control::PlacementVerdict;
use shardway::control::place::place_sql;
use shardway::error::codes;
use shardway::value::KeyType;
use std::io;

thread_local! {
    /// Each test runs in a thread of its own, and so has a server of its own, which ends with it.
    static SERVER: Cluster = Cluster::new();
}

fn server() -> String {
    SERVER.with(|cluster| format!("postgresql://{SUPERUSER}@127.0.0.1:{}", cluster.port))
}

fn config(text: &str) -> Config {
    let read = |_: &std::path::Path| Err(io::ErrorKind::NotFound.into());
    load(text, "test", &|_| None, &read).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// A database `d` on the first `shards` of s0, s1, s2.
fn database(shards: usize, rest: &str) -> Database {
    let mut text = "[listen]\naddress = \"127.0.0.1:1\"\n[[user]]\nname = \"u\"\nauth = \"trust\"\n".to_owned();
    for shard in 0..shards {
        let url = format!("{}/shardway_s{shard}", server());
        text.push_str(&format!("[[database.d.shard]]\nname = \"s{shard}\"\nprimary = \"{url}\"\n"));
    }
    config(&format!("{text}{rest}")).databases.remove(0)
}

async fn fresh(shards: usize) {
    let control = admin().await;
    for shard in 0..shards {
        control.batch_execute(&format!("DROP DATABASE IF EXISTS shardway_s{shard} WITH (FORCE)")).await.unwrap();
        control.batch_execute(&format!("CREATE DATABASE shardway_s{shard}")).await.unwrap();
    }
}

async fn admin() -> tokio_postgres::Client {
    client("postgres").await
}

async fn client(database: &str) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(&format!("{}/{database}", server()), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn on(shard: usize, sql: &str) {
    client(&format!("shardway_s{shard}")).await.batch_execute(sql).await.unwrap();
}

async fn check(database: &Database) -> PlacementVerdict {
    Control::new(database).unwrap().check_placement(database).await.unwrap()
}

async fn accepted(database: &Database) {
    match check(database).await {
        PlacementVerdict::Accepted { unchecked, warnings } if unchecked.is_empty() && warnings.is_empty() => {}
        other => panic!("{other:?}"),
    }
}

async fn refused(database: &Database, parts: &[&str]) {
    match check(database).await {
        PlacementVerdict::Refused(error) => {
            let (detail, hint) = (error.detail.clone().unwrap_or_default(), error.hint.clone().unwrap_or_default());
            let text = format!("{} | {detail} | {hint}", error.message);
            println!("{text}");
            parts.iter().for_each(|part| assert!(text.contains(part), "{part}: {text}"));
        }
        other => panic!("{other:?}"),
    }
}

const HASH: &str = "[[database.d.shard_map]]\nname = \"m\"\nkey = [\"bigint\"]\nfunction = \"hash\"\nbuckets = 8\n\
    [[database.d.table]]\nname = \"t\"\nshard_map = \"m\"\nkey = [\"k\"]\n\
    [[database.d.table]]\nname = \"r\"\nreference = true\n";

/// Puts the rows 1..100 where the map of two shards wants them.
async fn fill(shards: usize) {
    for shard in 0..shards {
        let (from, to) = (shard * 4, shard * 4 + 3);
        on(
            shard,
            &format!(
                "CREATE TABLE t (k bigint, v text); CREATE TABLE r (a int, b float8);
                 INSERT INTO r VALUES (1, 0.1), (2, NULL);
                 CREATE TABLE p (k bigint) PARTITION BY HASH (k);
                 INSERT INTO t SELECT k, 'x' FROM generate_series(1::bigint, 100) k WHERE EXISTS (
                   SELECT 1 FROM generate_series({from}, {to}) b WHERE satisfies_hash_partition('p'::regclass, 8, b, k));
                 DROP TABLE p"
            ),
        )
        .await;
    }
}

#[tokio::test]
async fn reads_and_probes() {
    fresh(2).await;
    let database = database(2, "");
    let control = Control::new(&database).unwrap();
    assert_eq!(control.text(1, "SELECT current_database()").await.unwrap(), "shardway_s1");
    let all = control.read_all("SELECT current_database()").await;
    assert_eq!(all.into_iter().map(Result::unwrap).collect::<Vec<_>>(), ["shardway_s0", "shardway_s1"]);
    assert_eq!(control.text(0, "SELECT nonsense").await.unwrap_err().code, codes::UNDEFINED_COLUMN);
    assert_eq!(control.text(0, "SELECT NULL").await.unwrap(), "");
    control.probe(0).await.unwrap();
    // a connection that the server ended is made anew
    let kill = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'shardway control'";
    admin().await.batch_execute(kill).await.unwrap();
    assert_eq!(control.text(1, "SELECT 1").await.unwrap(), "1");
}

#[tokio::test]
async fn a_placement_is_recorded_and_kept() {
    fresh(3).await;
    let two = database(2, HASH);
    // no tables yet: recorded; again: on record; another placement while there is no row: accepted
    accepted(&two).await;
    accepted(&two).await;
    accepted(&database(2, &HASH.replace("buckets = 8", "buckets = 16"))).await;
    accepted(&two).await;
    fill(2).await;
    accepted(&two).await;
    let placement = "placement = [ { buckets = \"0-3\", shard = \"s0\" }, { buckets = \"4-7\", shard = \"s1\" } ]";
    refused(
        &database(2, &HASH.replace("buckets = 8", "buckets = 16")),
        &["\"public\".\"t\"", "on record as", placement],
    )
    .await;
    // a third shard moves buckets by default
    refused(&database(3, HASH), &["\"public\".\"t\"", placement]).await;
    // with the placement written down it has no rows to move, but lacks the reference table
    let kept = HASH.replace("buckets = 8\n", &format!("buckets = 8\n{placement}\n"));
    refused(&database(3, &kept), &["\"r\" is a reference table and is not there on shard \"s2\""]).await;
    on(2, "CREATE TABLE r (a int, b float8); INSERT INTO r VALUES (2, NULL), (1, 0.2)").await;
    refused(&database(3, &kept), &["has other rows on shard \"s2\" than on \"s0\""]).await;
    on(2, "UPDATE r SET b = 0.1 WHERE a = 1; CREATE TABLE t (k bigint)").await;
    accepted(&database(3, &kept)).await;
    // going back would leave s2 out
    refused(&two, &["leaves out the shards s2"]).await;
    refused(&database(1, HASH), &["leaves out the shards s1, s2"]).await;
    // swapped addresses
    let mut swapped = database(3, &kept);
    swapped.shards.iter_mut().zip(["s1", "s0", "s2"]).for_each(|(shard, name)| shard.name = name.to_owned());
    refused(&swapped, &["calls a shard \"s1\" that is \"s0\" on record"]).await;
    // no longer listed
    let unlisted = kept.replace("name = \"r\"", "name = \"other\"");
    refused(&database(3, &unlisted), &["\"r\" is not listed any more"]).await;
    // pins of keys that have rows
    let pinned = kept.replace("function = \"hash\"\n", "function = \"hash\"\npins = [{ key = 1, shard = \"s2\" }]\n");
    refused(&database(3, &pinned), &["has a row with key (1) on shard", "belongs on shard \"s2\""]).await;
    let pinned = pinned.replace("key = 1,", "key = 1000,");
    accepted(&database(3, &pinned)).await;
}

#[tokio::test]
async fn rows_that_were_there_before_must_be_in_place() {
    fresh(2).await;
    fill(2).await;
    accepted(&database(2, HASH)).await;
    let control = Control::new(&database(2, HASH)).unwrap();
    assert!(control.verify_placement(&database(2, HASH)).await.unwrap().is_empty());
    on(1, "INSERT INTO t SELECT * FROM generate_series(1, 100)").await;
    accepted(&database(2, HASH)).await;
    let found = control.verify_placement(&database(2, HASH)).await.unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    on(0, "DROP SCHEMA shardway CASCADE").await;
    on(1, "DROP SCHEMA shardway CASCADE").await;
    refused(&database(2, HASH), &["belongs on shard \"s0\""]).await;
    on(1, "TRUNCATE t").await;
    accepted(&database(2, HASH)).await;
    // a table that had been single is listed
    on(0, "CREATE TABLE u (k int); INSERT INTO u SELECT generate_series(1, 100)").await;
    let listed = format!("{HASH}[[database.d.table]]\nname = \"u\"\nshard_map = \"m\"\nkey = [\"k\"]\n");
    refused(&database(2, &listed), &["\"u\" has a row with key", "single where found"]).await;
    on(0, "ALTER TABLE u ALTER k TYPE numeric").await;
    refused(&database(2, &listed), &["\"u\" has the key column k of type numeric, but its shard map is of bigint"])
        .await;
    let elsewhere = format!("{HASH}[[database.d.table]]\nname = \"u\"\nshard = \"s1\"\n");
    refused(&database(2, &elsewhere), &["\"u\" has rows on shard \"s0\", but belongs on shard \"s1\""]).await;
    let rule = format!("{HASH}[[database.d.column_rule]]\ncolumn = \"k\"\nshard_map = \"m\"\n");
    refused(&database(2, &rule), &["\"u\" has the key column k of type numeric"]).await;
    on(0, "TRUNCATE u").await;
    accepted(&database(2, &rule)).await;
    // rows in a partition
    on(0, "CREATE TABLE q (k bigint) PARTITION BY LIST (k); CREATE TABLE q1 PARTITION OF q DEFAULT").await;
    accepted(&database(2, HASH)).await;
    on(0, "INSERT INTO q SELECT generate_series(1, 100)").await;
    refused(&database(2, &rule), &["\"q\" has a row with key"]).await;
}

#[tokio::test]
async fn the_sql_of_every_function_agrees_with_ours() {
    fresh(1).await;
    let types = [
        ("smallint", "k::smallint"),
        ("integer", "k::int"),
        ("bigint", "(k * 1234567890123)::bigint"),
        ("text", "repeat(k::text, 1 + k % 7)"),
        ("varchar", "('v' || k)::varchar"),
        ("char(12)", "('c' || k)::char(12)"),
        ("uuid", "md5(k::text)::uuid"),
        ("date", "date '2026-01-01' + k"),
        ("timestamp", "timestamp '2026-01-01' + k * interval '1 hour'"),
        ("timestamptz", "timestamptz '2026-01-01 00:00:00+00' + k * interval '1 second'"),
    ];
    let client = client("shardway_s0").await;
    for (n, (first, first_value)) in types.iter().enumerate() {
        for length in 1..=4 {
            let key: Vec<_> = (0..length).filter_map(|i| types.get((n + i * 3) % types.len())).collect();
            let columns: Vec<String> = key.iter().enumerate().map(|(i, (name, _))| format!("h{i} {name}")).collect();
            let names: Vec<String> = (0..length).map(|i| format!("h{i}")).collect();
            let values: Vec<String> =
                key.iter().map(|(_, value)| format!("CASE WHEN k % 13 = 0 THEN NULL ELSE {value} END")).collect();
            let names = names.join(", ");
            client.batch_execute("DROP TABLE IF EXISTS t, p; SET timezone = 'Asia/Tokyo'").await.unwrap();
            client
                .batch_execute(&format!(
                    "CREATE TABLE t ({0}); CREATE TABLE p ({0}) PARTITION BY HASH ({names});
                     INSERT INTO t SELECT {1} FROM generate_series(-500, 500) k",
                    columns.join(", "),
                    values.join(", ")
                ))
                .await
                .unwrap();
            for buckets in [1_usize, 16, 65_536] {
                let placement: Vec<usize> = (0..buckets).collect();
                let types: Vec<_> = key.iter().map(|(name, _)| KeyType::parse_name(name).unwrap()).collect();
                let map = MapConfig {
                    name: "m".to_owned(),
                    key: types.clone(),
                    function: MapFunction::Hash(placement),
                    pins: Vec::new(),
                    placed_by_default: true,
                };
                let key: Vec<_> = (0..length).map(|i| format!("h{i}")).zip(types).collect();
                let place = place_sql(&map, &key);
                let sql = format!(
                    "SELECT count(*) FILTER (WHERE satisfies_hash_partition('p'::regclass, {buckets}, place, {names})), count(*) \
                     FROM (SELECT shardway_t.*, {} AS place FROM t AS shardway_t{}) AS rows",
                    place.expression, place.laterals
                );
                let row = client.query_one(&sql, &[]).await.unwrap();
                assert_eq!(row.get::<_, i64>(0), row.get::<_, i64>(1), "{first} {first_value} {length} {buckets}");
            }
        }
    }
}

#[tokio::test]
async fn ranges_and_lists_are_verified() {
    fresh(2).await;
    let range = "[[database.d.shard_map]]\nname = \"m\"\nkey = [\"text\", \"date\"]\nfunction = \"range\"\n\
        ranges = [ { to = [\"m\", \"2026-01-01\"], shard = \"s0\" }, { from = [\"m\", \"2026-01-01\"], to = \"x\", shard = \"s1\" } ]\n\
        pins = [ { key = [\"it's\", \"2026-01-01\"], shard = \"s1\" } ]\n\
        [[database.d.table]]\nname = \"t\"\nshard_map = \"m\"\nkey = [\"a\", \"b\"]\n";
    for shard in 0..2 {
        on(shard, "CREATE TABLE t (a varchar(9), b date)").await;
    }
    on(0, "INSERT INTO t VALUES ('a', '2030-01-01'), ('m', '2025-12-31'), ('M', 'infinity')").await;
    on(1, "INSERT INTO t VALUES ('m', '2026-01-01'), ('it''s', '2026-01-01'), ('wz', 'infinity')").await;
    accepted(&database(2, range)).await;
    for (row, place) in
        [("('x', '2026-01-01')", "nowhere"), ("('m', NULL)", "nowhere"), ("('a', '2026-01-01')", "on shard \"s0\"")]
    {
        on(1, &format!("INSERT INTO t VALUES {row}")).await;
        on(0, "DROP SCHEMA shardway CASCADE").await;
        on(1, "DROP SCHEMA IF EXISTS shardway CASCADE").await;
        refused(&database(2, range), &[&format!("belongs {place}")]).await;
        on(1, "DELETE FROM t WHERE b IS NULL OR a IN ('x', 'a')").await;
        accepted(&database(2, range)).await;
    }
    let list = "[[database.d.shard_map]]\nname = \"m\"\nkey = [\"character\", \"timestamptz\"]\nfunction = \"list\"\n\
        lists = [ { values = [[\"1\"], [\"X\"]], shard = \"s1\" } ]\ndefault = \"s0\"\n\
        [[database.d.table]]\nname = \"l\"\nshard_map = \"m\"\nkey = [\"a\", \"b\"]\n\
        [[database.d.table]]\nname = \"t\"\nshard_map = \"m\"\nkey = [\"a\", \"b\"]\n";
    for shard in 0..2 {
        on(shard, "DROP TABLE t; CREATE TABLE l (a char(3), b timestamptz)").await;
    }
    on(0, "INSERT INTO l VALUES ('2', now()), (NULL, now())").await;
    on(1, "INSERT INTO l VALUES ('1', NULL), ('X', now())").await;
    accepted(&database(2, list)).await;
    on(0, "INSERT INTO l VALUES ('X', now())").await;
    let control = Control::new(&database(2, list)).unwrap();
    assert_eq!(control.verify_placement(&database(2, list)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn shards_that_are_away_and_rights_that_lack() {
    fresh(2).await;
    fill(1).await;
    let mut away = database(2, HASH);
    away.shards[1].primary.port = 1;
    match check(&away).await {
        PlacementVerdict::Accepted { unchecked, warnings } => assert_eq!((unchecked, warnings.len()), (vec![1], 1)),
        other => panic!("{other:?}"),
    }
    on(1, "CREATE TABLE t (k bigint); CREATE TABLE r (a int, b float8); INSERT INTO r VALUES (1, 0.1), (2, NULL)")
        .await;
    accepted(&database(2, HASH)).await;
    match check(&away).await {
        PlacementVerdict::Accepted { unchecked, warnings } => assert_eq!((unchecked, warnings.len()), (vec![1], 0)),
        other => panic!("{other:?}"),
    }
    away.maps[0].function = MapFunction::Hash(vec![1, 0]);
    assert!(matches!(check(&away).await, PlacementVerdict::Undecided { .. }));
    away.shards[0].primary.port = 1;
    assert!(matches!(check(&away).await, PlacementVerdict::Undecided { .. }));
    // a login without rights: verified, not recorded; and refused where it cannot read
    fresh(2).await;
    fill(2).await;
    let admin = admin().await;
    admin.batch_execute("DROP ROLE IF EXISTS shardway_poor").await.unwrap();
    admin.batch_execute("CREATE ROLE shardway_poor LOGIN PASSWORD 'p'").await.unwrap();
    let poor = format!("[database.d]\ncontrol = \"shardway_poor:p\"\n{HASH}");
    refused(&database(2, &poor), &["cannot be verified on shard \"s0\": permission denied"]).await;
    for shard in 0..2 {
        on(shard, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO shardway_poor").await;
    }
    match check(&database(2, &poor)).await {
        PlacementVerdict::Accepted { unchecked, warnings } => {
            assert_eq!((unchecked.len(), warnings.len()), (0, 1));
            assert!(warnings[0].message.contains("could not write the placement record: permission denied"));
        }
        other => panic!("{other:?}"),
    }
    // an old record that cannot be replaced
    accepted(&database(2, HASH)).await;
    for shard in 0..2 {
        on(shard, "GRANT USAGE ON SCHEMA shardway TO shardway_poor; GRANT SELECT ON ALL TABLES IN SCHEMA shardway TO shardway_poor; TRUNCATE t").await;
    }
    accepted(&database(2, &poor)).await;
    refused(&database(2, &poor.replace("buckets = 8", "buckets = 4")), &["could not write the placement record"]).await;
}

#[tokio::test]
async fn proxies_that_start_at_once_take_turns() {
    fresh(3).await;
    let database = database(3, HASH);
    let checks = (0..8).map(|_| check(&database));
    for verdict in futures::future::join_all(checks).await {
        assert!(matches!(&verdict, PlacementVerdict::Accepted { warnings, .. } if warnings.is_empty()), "{verdict:?}");
    }
}
