//! Object identifiers that differ from shard to shard, beside one PostgreSQL that has those of the home shard: what the
//! client sees and sends must be the same bytes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Mode;
use integration_tests::outcome::Outcome;
use integration_tests::outcome::Rows;
use integration_tests::outcome::difference;
use integration_tests::postgres::APP;
use integration_tests::postgres::Cluster;
use integration_tests::proxy::root;
use integration_tests::tools;
use integration_tests::tools::libpq_program;
use integration_tests::tools::said;
use tokio_postgres::types::Kind;

const TYPES: [&str; 13] = [
    "CREATE EXTENSION hstore",
    "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')",
    "ALTER TYPE mood ADD VALUE 'angry' BEFORE 'ok'",
    "CREATE TYPE felt AS (m mood, n int, ms mood[])",
    "CREATE TYPE plain AS (a int, b text)",
    "CREATE DOMAIN percent AS int CHECK (VALUE BETWEEN 0 AND 100)",
    "CREATE DOMAIN calm AS felt",
    "CREATE TYPE moods_between AS RANGE (subtype = mood)",
    "CREATE TYPE felt_between AS RANGE (subtype = felt, multirange_type_name = felt_multirange)",
    "CREATE TYPE deep AS (f felt[], c calm, r felt_between, p percent)",
    "CREATE TABLE t (gone int, k bigint PRIMARY KEY, m mood, ms mood[], f felt, fs felt[], p percent, ps percent[],
       mr moods_between, fr felt_between, fm felt_multirange, d deep, ds deep[], h hstore, c hstore[], pl plain, n int)",
    "CREATE TABLE lonely (k int, m mood, f felt)",
    "CREATE TABLE named (k int PRIMARY KEY, m mood, ms mood[])",
];

const ROWS: &str = "
INSERT INTO t (k, m, ms, f, fs, p, ps, mr, fr, fm, d, ds, h, c, pl, n)
  SELECT k, v.m, ARRAY[v.m, NULL, 'sad'], ROW(v.m, k, ARRAY[v.m])::felt,
    ARRAY[ROW(v.m, 1, NULL)::felt, NULL, ROW(NULL, NULL, '{}')::felt], k, ARRAY[k, NULL]::percent[],
    moods_between('sad', v.m, '[]'), felt_between(ROW('sad', 1, NULL)::felt, ROW('happy', k, '{ok}')::felt),
    felt_multirange(felt_between(NULL, ROW('ok', k, NULL)::felt), felt_between(ROW('happy', 1, NULL)::felt, NULL)),
    ROW(ARRAY[ROW(v.m, 1, NULL)::felt], ROW(v.m, 2, NULL)::felt::calm, 'empty', 7)::deep,
    ARRAY[ROW(NULL, ROW(v.m, 2, ARRAY[v.m])::felt::calm, felt_between(NULL, NULL), 8)::deep],
    'a=>1,b=>NULL', ARRAY['a=>1'::hstore], ROW(k, 'x')::plain, k % 3
  FROM (SELECT k, (ENUM_RANGE(NULL::mood))[1 + k % 4] AS m FROM generate_series(1, 24) k) v;
INSERT INTO t (k) VALUES (40), (41), (42);
INSERT INTO lonely SELECT k, m, f FROM t WHERE k < 5;
INSERT INTO named VALUES (1, 'ok', '{sad,happy}'), (2, NULL, NULL)";

/// Shards of their own whose numbers were shifted by other types, each by another number, so that the number of one
/// type is on other shards that of another.
fn start(shards: usize) -> Deployment {
    let layout = Layout::new(shards).own_clusters().hash_map("keys", &["bigint"]).sharded("public.t", &["k"]);
    let layout = layout.reference("public.named").single("public.lonely", 1);
    let mut deployment = Deployment::clusters(layout, Cluster::builder());
    for (n, shard) in deployment.shards().iter().enumerate() {
        let mut client = Client::connect(shard);
        for other in 0..n * 4 {
            client.execute(&format!("CREATE TYPE other{other} AS ENUM ('x')"));
        }
        TYPES.iter().for_each(|sql| client.execute(sql));
        // Numbers of columns differ too.
        if n == 1 {
            client.execute("ALTER TABLE t DROP COLUMN gone");
        } else {
            client.execute("ALTER TABLE t DROP COLUMN gone, ADD COLUMN extra int; ALTER TABLE t DROP COLUMN n, DROP COLUMN extra, ADD COLUMN n int");
        }
    }
    let home = deployment.shard(0).database;
    deployment.cluster(0).execute("postgres", &format!("CREATE DATABASE {SINGLE} OWNER {APP} TEMPLATE \"{home}\""));
    Client::connect(&deployment.cluster(0).app(SINGLE)).execute(ROWS.trim());
    deployment.load(ROWS.trim());
    let number = |shard: usize| Client::connect(&deployment.shard(shard)).simple("SELECT 'felt'::regtype::oid").value();
    assert!((1..shards).all(|shard| number(shard) != number(0)));
    deployment.start_proxy();
    deployment
}

fn single(deployment: &Deployment) -> Client {
    Client::connect(&deployment.cluster(0).app(SINGLE))
}

/// The single value of a statement in binary.
fn bytes(outcome: &Outcome) -> Option<Vec<u8>> {
    outcome.rows[0][0].clone()
}

/// A text with one binary parameter of a declared type, after a key in text.
fn with_binary(client: &mut Client, sql: &str, key: i64, kind: u32, value: Option<Vec<u8>>) -> (Vec<Message>, Outcome) {
    let mut sent = message::parse("s", sql, &[20, kind]);
    sent.extend(message::describe(b'S', "s"));
    sent.extend(message::close(b'S', "s"));
    sent.extend(message::sync());
    client.send(&sent);
    let described = client.until(&["ReadyForQuery"]);
    let mut sent = message::parse("", sql, &[20, kind]);
    sent.extend(message::bind("", "", &[0, 1], &[Some(key.to_string().into_bytes()), value], &[1]));
    sent.extend(message::describe(b'P', ""));
    sent.extend(message::execute("", 0));
    sent.extend(message::sync());
    client.send(&sent);
    (described, client.outcomes().pop().unwrap())
}

const COLUMNS: [&str; 15] = ["m", "ms", "f", "fs", "p", "ps", "mr", "fr", "fm", "d", "ds", "h", "c", "pl", "n"];

/// Statements of one shard and of all.
fn reads() -> Vec<(Rows, String)> {
    let mut out: Vec<(Rows, String)> = Vec::new();
    for column in COLUMNS {
        out.extend((1..9).map(|k| (Rows::Ordered, format!("SELECT {column} FROM t WHERE k = {k}"))));
        out.push((Rows::Unordered, format!("SELECT k, {column} FROM t")));
        out.push((Rows::Ordered, format!("SELECT {column} FROM t ORDER BY k")));
    }
    let ordered = [
        "SELECT * FROM t WHERE k = 3",
        "SELECT * FROM t WHERE k = 4",
        "SELECT * FROM t WHERE k = 5",
        "SELECT * FROM t ORDER BY k",
        "SELECT ROW(m, ms, f), t, ARRAY[t] FROM t WHERE k = 2",
        "SELECT ROW(m, ms, f), t, ARRAY[t] FROM t WHERE k = 3",
        "SELECT ROW(m, ms, f), ARRAY[ROW(1, m)], t FROM t ORDER BY k",
        "SELECT pg_typeof(m), 't'::regclass, ARRAY['t'::regclass], ARRAY['mood'::regtype] FROM t WHERE k = 3",
        "SELECT k, m FROM t ORDER BY m DESC NULLS LAST, k",
        "SELECT k, m FROM t ORDER BY m, k LIMIT 7",
        "SELECT m, count(*) FROM t GROUP BY m ORDER BY m",
        "SELECT DISTINCT m FROM t ORDER BY m",
        "SELECT DISTINCT m, n FROM t ORDER BY n, m",
        "SELECT min(m), max(m) FROM t",
        "SELECT n, min(m), max(ms) FROM t GROUP BY n ORDER BY n",
        "SELECT array_agg(m ORDER BY k) FROM t",
        "SELECT n, array_agg(m ORDER BY m, k) FROM t GROUP BY n ORDER BY n",
        "SELECT k, row_number() OVER (ORDER BY m, k), m FROM t ORDER BY k",
        "SELECT k, lag(m) OVER (ORDER BY k), ms FROM t ORDER BY k",
        "SELECT k, row_number() OVER (ORDER BY k), mr, h, c FROM t ORDER BY k",
        "SELECT * FROM lonely ORDER BY k",
        "SELECT * FROM named ORDER BY k",
        "SELECT t.k, named.* FROM t JOIN named USING (k) ORDER BY 1",
        "SELECT NULL::mood, '{sad}'::mood[], ROW('ok', 1, NULL)::felt FROM t WHERE k = 7",
    ];
    out.extend(ordered.map(|sql| (Rows::Ordered, sql.to_owned())));
    out
}

fn compare(expected: &mut Client, actual: &mut Client, sql: &str, rows: Rows, wrong: &mut Vec<String>) {
    for mode in MODES {
        let (one, other) = (expected.run(mode, sql, &[]), actual.run(mode, sql, &[]));
        if let Some(difference) = difference(&one, &other, rows) {
            wrong.push(format!("{mode:?}, {sql}: {difference}"));
        }
    }
}

fn reads_on(shards: usize) {
    let deployment = start(shards);
    let (mut single, mut proxy) = (single(&deployment), deployment.connect());
    let mut wrong = Vec::new();
    for (rows, sql) in reads() {
        compare(&mut single, &mut proxy, &sql, rows, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn reads_of_two_shards() {
    reads_on(2);
}

#[test]
fn reads_of_three_shards() {
    reads_on(3);
}

/// Every value of the table, read in binary, is sent as a parameter to every shard.
#[test]
fn values_are_sent_as_they_were_read() {
    let deployment = start(3);
    let (mut single, mut proxy) = (single(&deployment), deployment.connect());
    let mut wrong = Vec::new();
    for column in COLUMNS {
        let read = proxy.run(Mode::Binary, &format!("SELECT {column} FROM t WHERE k = 1"), &[]);
        let kind = read.columns.as_ref().unwrap()[0].type_oid;
        for key in 1..9 {
            let statements = [
                format!("SELECT $2, k, {column} FROM t WHERE k = $1 AND $2 IS NOT NULL"),
                format!("SELECT $2, k, {column} FROM t WHERE k <> $1 ORDER BY k"),
                format!("INSERT INTO t (k, {column}) VALUES ($1 + 1000, $2) RETURNING {column}"),
                format!("UPDATE t SET {column} = $2 WHERE k = $1 + 1000 RETURNING {column}, t"),
                format!("UPDATE t SET {column} = $2 WHERE k >= 40 AND $1 > 0 RETURNING {column}"),
                format!("DELETE FROM t WHERE k = $1 + 1000 AND {column}::text = ($2)::text RETURNING {column}"),
            ];
            for sql in statements {
                let expected = with_binary(&mut single, &sql, key, kind, bytes(&read));
                let actual = with_binary(&mut proxy, &sql, key, kind, bytes(&read));
                if expected.0 != actual.0 {
                    wrong.push(format!("{sql}: {:?} for {:?}", actual.0, expected.0));
                }
                if let Some(difference) = difference(&expected.1, &actual.1, Rows::Unordered) {
                    wrong.push(format!("{column} {key} {sql}: {difference}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn asyncpg_on(shards: usize) {
    let deployment = start(shards);
    let python = tools::local().join("venv/bin/python");
    let mut command = libpq_program(python.to_str().unwrap(), &deployment.address());
    command.arg(root().join("integration-tests/drivers/asyncpg_types.py"));
    let output = tools::output_within(&mut command, tools::PROGRAM_LIMIT).expect("asyncpg (scripts/setup installs it)");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn asyncpg_finds_every_type_on_two_shards() {
    asyncpg_on(2);
}

#[test]
fn asyncpg_finds_every_type_on_three_shards() {
    asyncpg_on(3);
}

#[tokio::test]
async fn tokio_postgres_finds_every_type() {
    let deployment = start(3);
    let address = deployment.address();
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(address.port).user(&address.user).password(&address.password);
    let (client, connection) =
        config.dbname(&address.database).connect(tokio_postgres::NoTls).await.expect("a connection");
    let task = tokio::spawn(connection);
    let typed = client.prepare("SELECT $2::mood[] FROM t WHERE k = $1").await.unwrap();
    assert_eq!(typed.params()[1].name(), "_mood");
    let one = client.prepare("SELECT m::text, f, fs, ms FROM t WHERE k = $1").await.unwrap();
    let names: Vec<&str> = one.columns().iter().map(|c| c.type_().name()).collect();
    assert_eq!(names, ["text", "felt", "_felt", "_mood"]);
    let Kind::Composite(fields) = one.columns()[1].type_().kind() else { panic!("{one:?}") };
    assert_eq!(fields.iter().map(|f| f.type_().name()).collect::<Vec<_>>(), ["mood", "int4", "_mood"]);
    for k in 1..9i64 {
        let row = client.query_one(&one, &[&k]).await.unwrap();
        assert!(["sad", "angry", "ok", "happy"].contains(&row.get::<_, &str>(0)));
    }
    drop(client);
    task.await.unwrap().unwrap();
}

/// Types made on every shard without the proxy are found when they are first seen.
#[test]
fn types_made_behind_the_proxy_are_found() {
    let deployment = start(2);
    let (mut single, mut proxy) = (single(&deployment), deployment.connect());
    proxy.execute("SELECT 1 FROM t");
    deployment.execute_on_shards("CREATE TYPE late AS (a int, m mood); ALTER TABLE t ADD COLUMN late late[]");
    single.execute("CREATE TYPE late AS (a int, m mood); ALTER TABLE t ADD COLUMN late late[]");
    // It is not read again more often than once in a while.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let fill = "UPDATE t SET late = ARRAY[ROW(k, m)::late] WHERE k < 9";
    for shard in deployment.shards() {
        Client::connect(&shard).execute(fill);
    }
    single.execute(fill);
    for k in 1..9 {
        let sql = format!("SELECT late FROM t WHERE k = {k}");
        let kind = |client: &mut Client| client.simple("SELECT 'late[]'::regtype::oid").value();
        let (here, there) = (kind(&mut proxy), kind(&mut single));
        let (expected, actual) = (single.run(Mode::Binary, &sql, &[]), proxy.run(Mode::Binary, &sql, &[]));
        assert_eq!(actual.columns.unwrap()[0].type_oid.to_string(), here);
        assert_eq!(expected.columns.unwrap()[0].type_oid.to_string(), there);
        assert_eq!(actual.rows.len(), expected.rows.len());
    }
    let unread = proxy.run(Mode::Text, "SELECT count(DISTINCT late) FROM t", &[]);
    assert_eq!(unread.sqlstate(), None, "{unread:?}");
}

/// What only one shard has has no number that would mean anything to a client; what is not alike has no order.
#[test]
fn what_is_not_alike_is_refused() {
    let deployment = start(2);
    let mut proxy = deployment.connect();
    Client::connect(&deployment.shard(1)).execute(
        "CREATE TYPE odd AS ENUM ('a'); ALTER TABLE lonely ADD COLUMN o odd DEFAULT 'a'; ALTER TYPE mood ADD VALUE 'x' BEFORE 'sad'",
    );
    proxy.execute("CREATE TABLE lonelier (k int)");
    let simple = proxy.simple("SELECT o FROM lonely WHERE k = 1").ok();
    assert_eq!((simple.columns.as_ref().unwrap()[0].type_oid, simple.value()), (705, "a".to_owned()));
    for (sql, code) in [
        ("SELECT o FROM lonely", Some("0A000")),
        ("SELECT k, m FROM t ORDER BY m, k", Some("0A000")),
        ("SELECT DISTINCT m FROM t", Some("0A000")),
        ("SELECT m FROM t", None),
        ("SELECT m FROM t WHERE k = 4", None),
    ] {
        assert_eq!(proxy.run(Mode::Binary, sql, &[]).sqlstate(), code, "{sql}");
    }
}

/// A cursor in binary tells its columns in each answer.
#[test]
fn binary_cursors_are_read() {
    let deployment = start(3);
    let (mut single, mut proxy) = (single(&deployment), deployment.connect());
    let mut wrong = Vec::new();
    for k in 1..9 {
        for sql in ["BEGIN", &format!("DECLARE c BINARY CURSOR FOR SELECT fs, d FROM t WHERE k = {k}")] {
            single.execute(sql);
            proxy.execute(sql);
        }
        let (expected, actual) = (single.simple("FETCH ALL FROM c"), proxy.simple("FETCH ALL FROM c"));
        wrong.extend(difference(&expected, &actual, Rows::Ordered));
        single.execute("ROLLBACK");
        proxy.execute("ROLLBACK");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Several statements of other columns in one pipeline.
#[test]
fn each_statement_of_a_pipeline_has_its_own_columns() {
    let deployment = start(3);
    let (mut single, mut proxy) = (single(&deployment), deployment.connect());
    let mut sent = Vec::new();
    for k in 1..9 {
        for (column, rows) in [("fs", 0), ("k", 0), ("d", 1), ("ms", 0), ("f", 0), ("t", 2)] {
            let sql = format!("SELECT {column} FROM t WHERE k = $1");
            sent.extend(message::parse("", &sql, &[20]));
            sent.extend(message::bind("", "", &[0], &[Some(k.to_string().into_bytes())], &[1]));
            sent.extend(message::describe(b'P', ""));
            sent.extend(message::execute("", rows));
            if rows == 2 {
                sent.extend(message::sync());
            }
        }
    }
    single.send(&sent);
    proxy.send(&sent);
    for _ in 1..9 {
        assert_eq!(proxy.until(&["ReadyForQuery"]), single.until(&["ReadyForQuery"]));
    }
}
