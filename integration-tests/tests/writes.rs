//! Writes on several shards in one statement, compared with one PostgreSQL: rows in the order in which they were sent,
//! numbers of sequences, errors that undo all of a statement, in every mode of the protocol.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Mode;
use integration_tests::outcome::Rows;
use integration_tests::outcome::difference;

const SCHEMA: &str = "
    CREATE TABLE notes (tenant bigint NOT NULL, id bigserial, body text, made timestamptz DEFAULT now(),
        PRIMARY KEY (tenant, id));
    CREATE TABLE docs (tenant bigint NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY, body varchar(5),
        PRIMARY KEY (tenant, id));
    CREATE TABLE serials (k serial PRIMARY KEY, v integer);
    CREATE TABLE things (k uuid DEFAULT gen_random_uuid() PRIMARY KEY, v integer)";

struct Pair {
    single: Client,
    proxy: Client,
    failures: Vec<String>,
}

fn pair(shards: usize) -> (Deployment, Pair) {
    let layout = Layout::new(shards)
        .hash_map("tenants", &["bigint"])
        .sharded("public.notes", &["tenant"])
        .sharded("public.docs", &["tenant"])
        .hash_map("keys", &["integer"])
        .sharded("public.serials", &["k"])
        .hash_map("uuids", &["uuid"])
        .sharded("public.things", &["k"]);
    let mut deployment = Deployment::clusters(layout, integration_tests::postgres::Cluster::builder());
    deployment.cluster(0).create_database(SINGLE);
    let mut single = Client::connect(&deployment.cluster(0).app(SINGLE));
    single.execute(SCHEMA);
    deployment.execute_on_shards(SCHEMA);
    deployment.start_proxy();
    let proxy = deployment.connect();
    (deployment, Pair { single, proxy, failures: Vec::new() })
}

impl Pair {
    fn both(&mut self, mode: Mode, sql: &str, values: &[Option<&str>], rows: Rows) {
        let expected = self.single.run(mode, sql, values);
        let actual = self.proxy.run(mode, sql, values);
        if let Some(text) = difference(&expected, &actual, rows) {
            self.failures.push(format!("{mode:?}: {sql}\n  {text}"));
        }
    }

    /// In every mode that can have such values.
    fn step(&mut self, sql: &str, values: &[&str], rows: Rows) {
        let values: Vec<Option<&str>> = values.iter().map(|v| Some(*v)).collect();
        for mode in MODES.into_iter().filter(|mode| *mode != Mode::Simple || values.is_empty()) {
            self.both(mode, sql, &values, rows);
        }
    }

    /// The same messages to both; names and contents of the answers must agree.
    fn messages(&mut self, what: &str, bytes: &[u8]) {
        let mut answers = Vec::new();
        for client in [&mut self.single, &mut self.proxy] {
            client.send(bytes);
            answers.push(client.until(&["ReadyForQuery"]).iter().map(told).collect::<Vec<_>>());
        }
        if answers[0] != answers[1] {
            self.failures.push(format!("{what}\n  {:?}\n  {:?}", answers[0], answers[1]));
        }
    }

    fn finish(self) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}

fn told(message: &Message) -> String {
    match message {
        Message::ErrorResponse(fields) => format!("Error {}", fields.sqlstate()),
        Message::RowDescription(columns) => {
            format!("{:?}", columns.iter().map(|c| (c.name.clone(), c.type_oid, c.format)).collect::<Vec<_>>())
        }
        other => format!("{other:?}"),
    }
}

fn writes_over(shards: usize) {
    let (_deployment, mut pair) = pair(shards);
    let ordered = Rows::Ordered;
    pair.step("INSERT INTO serials (v) VALUES (10), (20), (30) RETURNING k, v", &[], ordered);
    pair.step("INSERT INTO serials (v) VALUES ($1), (7), ($2) RETURNING *", &["41", "42"], ordered);
    pair.step("INSERT INTO serials DEFAULT VALUES RETURNING *", &[], ordered);
    pair.step("INSERT INTO serials AS s (k, v) VALUES (DEFAULT, 1), (5000, 2) ON CONFLICT (k) DO UPDATE SET v = s.v + 1 RETURNING k, v", &[], ordered);
    pair.step("INSERT INTO serials (k, v) VALUES (9001, 1), (9002, 2), (1, 3), (9003, 4)", &[], ordered);
    pair.step("INSERT INTO serials (v) SELECT g FROM generate_series(1, 9) g RETURNING k, v", &[], ordered);
    pair.step("INSERT INTO serials (v) VALUES (1), ('x')", &[], ordered);
    pair.step("INSERT INTO serials (v) VALUES (1 / (length($1) - 1))", &["a"], ordered);
    pair.step("SELECT count(*), sum(k), sum(v) FROM serials", &[], ordered);
    pair.step(
        "INSERT INTO docs (tenant, body) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd') RETURNING *",
        &[],
        ordered,
    );
    pair.step("INSERT INTO docs (tenant, id, body) VALUES (1, 7, 'x')", &[], ordered);
    pair.step(
        "INSERT INTO docs (tenant, id, body) VALUES (1, DEFAULT, 'x'), (5, DEFAULT, NULL) RETURNING id",
        &[],
        ordered,
    );
    pair.step("INSERT INTO docs (tenant, body) VALUES (1, 'fits'), (5, 'too long')", &[], ordered);
    pair.step("INSERT INTO docs (tenant, body) SELECT g, 'too long' FROM generate_series(1, 3) g", &[], ordered);
    pair.step(
        "INSERT INTO notes (tenant, body) VALUES ($1, $2), ($3, $4), ($1, $4) RETURNING tenant, id, body, made = now()",
        &["1", "it's", "5", "back\\slash"],
        ordered,
    );
    pair.step(
        "INSERT INTO notes (tenant, body) SELECT * FROM unnest($1::bigint[], $2::text[]) RETURNING id, tenant, body",
        &["{1,5,2,9}", "{a,NULL,\"c,d\",e}"],
        ordered,
    );
    pair.step(
        "INSERT INTO notes (tenant, body) VALUES ($1::bigint + 1, $2) RETURNING tenant, id, body",
        &["4", "x"],
        ordered,
    );
    pair.step(
        "INSERT INTO notes SELECT tenant, 70000 + id, body FROM docs WHERE tenant = 1 ON CONFLICT DO NOTHING RETURNING id",
        &[],
        Rows::Unordered,
    );
    pair.step("INSERT INTO notes (tenant, id, body, made) SELECT tenant, 80000 + id, body, now() FROM docs ON CONFLICT DO NOTHING RETURNING tenant, id, body", &[], Rows::Unordered);
    pair.step("UPDATE notes SET body = body || $1 WHERE id < 100 RETURNING tenant, id, body", &["!"], Rows::Unordered);
    pair.step("UPDATE notes n SET body = d.body FROM docs d WHERE d.tenant = n.tenant AND d.id = n.id - 80000 RETURNING n.tenant, n.id", &[], Rows::Unordered);
    pair.step("UPDATE notes SET made = now() RETURNING made = now(), tenant", &[], Rows::Unordered);
    pair.step("UPDATE notes SET body = (10 / (tenant - 5))::text", &[], ordered);
    pair.step("DELETE FROM notes WHERE body LIKE $1 RETURNING id", &["%slash%"], Rows::Unordered);
    pair.step("SELECT tenant, count(*), min(body) FROM notes GROUP BY tenant ORDER BY tenant", &[], ordered);
    pair.step("SELECT nextval('notes_id_seq'), setval('serials_k_seq', 20000)", &[], ordered);
    pair.step("INSERT INTO serials (v) VALUES (1) RETURNING k", &[], ordered);
    pair.finish();
}

#[test]
fn writes_over_one_shard() {
    writes_over(1);
}

#[test]
fn writes_over_two_shards() {
    writes_over(2);
}

#[test]
fn writes_over_four_shards() {
    writes_over(4);
}

#[test]
fn keys_that_are_defaults_are_drawn_before_the_shard_is_known() {
    let (_deployment, mut pair) = pair(3);
    let outcome = pair.proxy.simple("INSERT INTO things (v) SELECT g FROM generate_series(1, 50) g RETURNING k").ok();
    let keys = outcome.column(0);
    for key in &keys {
        assert_eq!(pair.proxy.simple(&format!("SELECT count(*) FROM things WHERE k = '{key}'")).value(), "1");
    }
    let outcome =
        pair.proxy.extended("INSERT INTO things (v) VALUES ($1), ($1) RETURNING k", &[Some("60")], false).ok();
    for key in outcome.column(0) {
        assert_eq!(pair.proxy.simple(&format!("SELECT v FROM things WHERE k = '{key}'")).value(), "60");
    }
    assert_eq!(pair.proxy.simple("SELECT count(*) FROM things").value(), "52");
}

#[test]
fn transactions_keep_or_undo_all_of_their_writes() {
    let (_deployment, mut pair) = pair(3);
    let steps = [
        "BEGIN",
        "INSERT INTO notes (tenant, body) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "SELECT currval('notes_id_seq')",
        "SAVEPOINT s",
        "INSERT INTO notes (tenant, id) VALUES (4, 1), (1, 1), (1, 1)",
        "ROLLBACK TO s",
        "UPDATE notes SET body = body || body",
        "COMMIT",
        "SELECT tenant, id, body FROM notes ORDER BY tenant, id",
        "BEGIN",
        "DELETE FROM notes",
        "ROLLBACK",
        "BEGIN READ ONLY",
        "INSERT INTO notes (tenant, body) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
        "ROLLBACK",
        "INSERT INTO notes (tenant, body) VALUES (6, 'a'), (7, 'b'); INSERT INTO notes (tenant, id) VALUES (1, 1)",
        "SELECT count(*) FROM notes",
        "BEGIN",
        "INSERT INTO notes (tenant, body) VALUES (1, 'clock')",
        "INSERT INTO notes (tenant, body) VALUES (2, 'clock')",
        "INSERT INTO notes (tenant, body, made) VALUES (5, 'clock', now())",
        "SELECT pg_sleep(0.02)",
        "INSERT INTO notes (tenant, body) VALUES (4, 'clock'), (6, 'clock'), (7, 'clock')",
        "UPDATE notes SET made = now() WHERE tenant = 2 AND body = 'clock'",
        "SELECT count(DISTINCT made) FROM notes WHERE body = 'clock'",
        "COMMIT",
        "PREPARE add (bigint, text) AS INSERT INTO notes (tenant, body) VALUES ($1, $2), (8, 'y'), (9, $2) RETURNING id, body",
        "EXECUTE add(1, 'e')",
        "EXECUTE add(8, NULL)",
        "PREPARE change AS UPDATE notes SET body = $1 WHERE tenant IN ($2, $3)",
        "EXECUTE change('z', 1, 8)",
        "SELECT count(*), min(body) FROM notes WHERE body = 'z'",
    ];
    for sql in steps {
        pair.both(Mode::Simple, sql, &[], Rows::Ordered);
    }
    pair.finish();
}

#[test]
fn a_pipeline_is_one_transaction_over_all_shards() {
    let (_deployment, mut pair) = pair(3);
    let insert = "INSERT INTO notes (tenant, body) VALUES ($1, $2), ($3, 'x'), (7, $2) RETURNING id, tenant, body";
    let text = |v: &str| Some(v.as_bytes().to_vec());
    let number = |n: i64| Some(n.to_be_bytes().to_vec());
    let mut bytes = message::parse("add", insert, &[]);
    bytes.extend(message::describe(b'S', "add"));
    bytes.extend(message::bind("", "add", &[], &[text("1"), text("a"), text("2")], &[]));
    bytes.extend(message::describe(b'P', ""));
    bytes.extend(message::execute("", 0));
    bytes.extend(message::bind("p", "add", &[1, 0, 1], &[number(3), text("b"), number(4)], &[1, 1, 0]));
    bytes.extend(message::describe(b'P', "p"));
    bytes.extend(message::execute("p", 2));
    bytes.extend(message::execute("p", 0));
    bytes.extend(message::parse("all", "UPDATE notes SET body = body || '!'", &[]));
    bytes.extend(message::bind("", "all", &[], &[], &[]));
    bytes.extend(message::describe(b'P', ""));
    bytes.extend(message::execute("", 0));
    bytes.extend(message::sync());
    pair.messages("a pipeline of writes", &bytes);
    pair.both(Mode::Simple, "SELECT tenant, id, body FROM notes ORDER BY id", &[], Rows::Ordered);

    let mut bytes = message::bind("", "add", &[], &[text("1"), text("c"), text("2")], &[]);
    bytes.extend(message::execute("", 0));
    bytes.extend(message::bind("", "all", &[], &[], &[]));
    bytes.extend(message::execute("", 0));
    bytes.extend(message::parse("", "INSERT INTO notes (tenant, id) VALUES (5, 1), (1, 1), (6, 1)", &[]));
    bytes.extend(message::bind("", "", &[], &[], &[]));
    bytes.extend(message::execute("", 0));
    bytes.extend(message::bind("", "all", &[], &[], &[]));
    bytes.extend(message::execute("", 0));
    bytes.extend(message::sync());
    pair.messages("a pipeline that fails", &bytes);
    pair.both(Mode::Simple, "SELECT tenant, id, body FROM notes ORDER BY id", &[], Rows::Ordered);
    pair.finish();
}

#[test]
fn explain_runs_nothing() {
    let (_deployment, mut pair) = pair(3);
    pair.proxy.execute("INSERT INTO notes (tenant, body) VALUES (1, 'a'), (2, 'b'), (5, 'c')");
    for sql in [
        "EXPLAIN (COSTS OFF) INSERT INTO notes (tenant, body) VALUES (1, 'a'), (2, 'b'), (5, 'c')",
        "EXPLAIN INSERT INTO notes (tenant, body) SELECT g, 'x' FROM generate_series(1, 9) g",
        "EXPLAIN UPDATE notes SET body = 'x', made = now()",
        "EXPLAIN DELETE FROM notes",
    ] {
        let plan = pair.proxy.simple(sql).ok().column(0);
        assert!(plan.iter().any(|line| line.contains("on shard")), "{plan:?}");
    }
    for sql in ["EXPLAIN ANALYZE DELETE FROM notes", "EXPLAIN ANALYZE INSERT INTO notes (tenant) VALUES (1)"] {
        assert_eq!(pair.proxy.simple(sql).sqlstate(), Some("0A000"), "{sql}");
    }
    assert_eq!(
        pair.proxy.simple("SELECT min(body), count(*), max(id) FROM notes").ok().text(),
        [[Some("a".to_owned()), Some("3".to_owned()), Some("3".to_owned())].to_vec()]
    );
}
