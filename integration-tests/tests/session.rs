//! Sessions that share server connections: replies in order and of one's own, state that stays with its client.
//!
//! Where the answer is PostgreSQL's, the same messages go to one PostgreSQL, and the answers are compared one by one.
//! Random tests print their seed; `SEED=n` in the environment runs it again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use std::sync::LazyLock;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const SCHEMA: &str = "CREATE TABLE items (k bigint PRIMARY KEY, v text);
    INSERT INTO items SELECT k, 'value ' || k FROM generate_series(1, 20) k";

/// One shard and one server connection for everybody.
static NARROW: LazyLock<Deployment> = LazyLock::new(|| deploy("size = 1\nwait_timeout = \"20s\"", 1));
/// The same with room.
static WIDE: LazyLock<Deployment> = LazyLock::new(|| deploy("size = 20", 1));
static TWO: LazyLock<Mutex<Deployment>> = LazyLock::new(|| Mutex::new(deploy("size = 5", 2)));

fn deploy(pool: &str, shards: usize) -> Deployment {
    let layout = Layout::new(shards).hash_map("keys", &["bigint"]).sharded("public.items", &["k"]).pool(pool);
    let deployment = Deployment::start(layout);
    let cluster = deployment.cluster(0);
    cluster.create_database(SINGLE);
    Client::connect(&cluster.app(SINGLE)).execute(SCHEMA);
    cluster.execute("postgres", "CREATE ROLE helper; GRANT helper TO app; CREATE ROLE stranger");
    let (create, insert) = SCHEMA.split_once(';').unwrap();
    deployment.connect().execute(create);
    deployment.execute_on_shards("GRANT SELECT ON items TO helper");
    deployment.load(insert);
    deployment
}

/// For a test that needs the rows for itself.
fn two() -> MutexGuard<'static, Deployment> {
    TWO.lock().unwrap_or_else(PoisonError::into_inner)
}

fn single(deployment: &Deployment) -> Address {
    deployment.cluster(0).app(SINGLE)
}

/// Small random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => vec![seed],
        None => (1..=count).collect(),
    }
}

fn seeded(seed: u64) -> Random {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    for _ in 0..8 {
        random.below(2);
    }
    random
}

/// A message as it is compared: without what differs between servers.
fn shown(message: &Message) -> Option<String> {
    Some(match message {
        Message::RowDescription(columns) => {
            let one = |c: &message::Column| format!("{}:{}:{}", c.name, c.type_oid, c.format);
            format!("RowDescription {}", columns.iter().map(one).collect::<Vec<_>>().join(" "))
        }
        // A portal that has failed is still there in PostgreSQL, and cannot be run.
        Message::ErrorResponse(f) if f.message().starts_with("portal \"") => "ErrorResponse: no portal to run".into(),
        Message::ErrorResponse(f) | Message::NoticeResponse(f) => {
            format!("{} {} {}: {}", message.name(), f.get('S'), f.sqlstate(), f.message())
        }
        Message::NotificationResponse { channel, payload, .. } => format!("Notification {channel} {payload}"),
        other => format!("{other:?}"),
    })
}

/// The end of every exchange: an error in any state, with a text that nothing else has.
const MARK: &str = "ROLLBACK TO the_mark";

/// Sends bytes, Sync and a mark; gives everything that came before the mark's answer ended. So a reply too many or too
/// few shows, and the connection is in step again.
fn exchange(client: &mut Client, bytes: &[u8]) -> Vec<String> {
    // The portal of the mark is closed: in a failed transaction PostgreSQL keeps it.
    let close = [message::close(b'P', ""), message::sync()].concat();
    client.send(&[bytes, &message::sync(), &message::query("SELECT 'mark'"), &message::query(MARK), &close].concat());
    let mut out = Vec::new();
    let mut marked = 0;
    loop {
        let Some(message) = client.try_receive() else {
            out.push("no answer in time".into());
            return out;
        };
        let ready = matches!(message, Message::ReadyForQuery { .. });
        let mark = matches!(&message, Message::ErrorResponse(f) if f.message().contains("the_mark")
            || f.message().contains("ROLLBACK TO SAVEPOINT can only"));
        marked += usize::from(mark || (ready && marked > 0));
        out.extend(shown(&message));
        if message == Message::Closed || marked == 3 {
            return out;
        }
    }
}

fn script(parts: &[Vec<u8>]) -> Vec<u8> {
    parts.concat()
}

fn same(deployment: &Deployment, parts: &[Vec<u8>]) -> Vec<String> {
    let expected = exchange(&mut Client::connect(&single(deployment)), &script(parts));
    let actual = exchange(&mut deployment.connect(), &script(parts));
    assert_eq!(actual, expected);
    actual
}

fn text(values: &[&str]) -> Vec<Option<Vec<u8>>> {
    values.iter().map(|v| Some(v.as_bytes().to_vec())).collect()
}

/// Parse, Bind and Execute of the unnamed statement.
fn run(sql: &str, values: &[&str]) -> Vec<u8> {
    let bind = message::bind("", "", &[], &text(values), &[]);
    [message::parse("", sql, &[]), bind, message::execute("", 0)].concat()
}

fn described(sql: &str, format: i16) -> Vec<u8> {
    let bind = message::bind("", "", &[], &[], &[format]);
    [message::parse("", sql, &[]), bind, message::describe(b'P', ""), message::execute("", 0)].concat()
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not in time");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_failed_pipeline_undoes_all_of_it() {
    let insert = run("INSERT INTO items VALUES (101, 'x')", &[]);
    let bad = run("SELECT 1/0", &[]);
    let count = message::query("SELECT count(*) FROM items WHERE k > 100");
    let show = message::query("SHOW work_mem");
    let set = run("SET work_mem TO '5MB'", &[]);
    same(&WIDE, &[insert.clone(), set.clone(), bad.clone(), message::sync(), count.clone(), show.clone()]);
    same(&WIDE, &[set.clone(), bad.clone(), message::sync(), show.clone(), count.clone()]);
    // A Query in the middle belongs to the pipeline's transaction.
    same(&WIDE, &[insert.clone(), message::query("SELECT 1/0"), message::sync(), count.clone()]);
    same(&WIDE, &[insert.clone(), message::query("SELECT 1; SELECT 1/0"), message::sync(), count.clone()]);
    same(&WIDE, &[set.clone(), message::flush(), bad, message::sync(), show.clone()]);
    same(&WIDE, &[set, message::sync(), show, message::query("RESET work_mem")]);
}

#[test]
fn a_failed_query_undoes_its_settings() {
    let show = message::query("SHOW work_mem");
    same(&WIDE, &[message::query("SET work_mem TO '5MB'; SELECT 1/0"), show.clone()]);
    same(&WIDE, &[message::query("SET work_mem TO '5MB'; COMMIT; SET work_mem TO '6MB'; SELECT 1/0"), show.clone()]);
    same(
        &WIDE,
        &[
            message::query("BEGIN; SET work_mem TO '5MB'; SAVEPOINT a; SET work_mem TO '6MB'; ROLLBACK TO a"),
            show.clone(),
        ],
    );
    same(&WIDE, &[message::query("BEGIN; SET LOCAL work_mem TO '5MB'; RESET timezone; SHOW work_mem"), show.clone()]);
    same(
        &WIDE,
        &[
            message::query(
                "BEGIN; SET LOCAL work_mem TO '5MB'; SAVEPOINT a; SET timezone TO 'Asia/Tokyo'; ROLLBACK TO a",
            ),
            show.clone(),
            message::query("SHOW timezone"),
            message::query("COMMIT"),
            show,
        ],
    );
}

#[test]
fn writes_of_two_pipelines_may_be_on_two_shards() {
    let deployment = two();
    let mut client = deployment.connect();
    for k in 200..220 {
        let answer = exchange(
            &mut client,
            &[run("INSERT INTO items VALUES ($1, 'y')", &[&k.to_string()]), message::sync()].concat(),
        );
        assert!(answer.iter().any(|m| m.contains("INSERT 0 1")), "{answer:?}");
    }
    for k in 200..220 {
        client.execute(&format!("DELETE FROM items WHERE k = {k}"));
    }
}

#[test]
fn session_commands_answer_as_in_the_extended_protocol() {
    for format in [0, 1] {
        same(&WIDE, &[described("SHOW work_mem", format), message::sync()]);
        same(
            &WIDE,
            &[
                message::query("BEGIN; DECLARE c CURSOR FOR SELECT k FROM items ORDER BY k"),
                described("FETCH 3 FROM c", format),
                message::bind("p", "", &[], &[], &[format]),
                message::execute("p", 1),
                message::execute("p", 1),
                message::sync(),
                message::describe(b'P', "c"),
                message::execute("c", 2),
                message::close(b'P', "c"),
                message::sync(),
                message::query("FETCH 1 FROM c"),
                message::query("ROLLBACK"),
            ],
        );
        same(
            &WIDE,
            &[
                message::query("PREPARE q(bigint) AS SELECT k, v FROM items WHERE k = $1"),
                described("EXECUTE q(3)", format),
                message::sync(),
                described("EXECUTE q(1 + 3)", format),
                message::sync(),
                message::query("EXECUTE q(5)"),
                message::query("DEALLOCATE q"),
            ],
        );
    }
    same(
        &WIDE,
        &[
            described("SET timezone TO 'Asia/Tokyo'", 0),
            message::sync(),
            described("SHOW timezone", 0),
            message::sync(),
        ],
    );
}

/// What we run for ourselves in a client's transaction must leave its unnamed portal alone.
#[test]
fn the_unnamed_portal_is_the_clients() {
    same(
        &WIDE,
        &[
            message::query("BEGIN"),
            message::parse("s", "SELECT k FROM items ORDER BY k", &[]),
            message::bind("", "s", &[], &[], &[]),
            message::execute("", 2),
            message::parse("t", "SET work_mem TO '5MB'", &[]),
            message::bind("p", "t", &[], &[], &[]),
            message::execute("p", 0),
            message::execute("", 2),
            message::sync(),
            message::execute("", 2),
            message::sync(),
            message::query("SELECT 1"),
            message::execute("", 2),
            message::sync(),
            message::query("ROLLBACK"),
        ],
    );
}

#[test]
fn malformed_messages_are_errors_of_their_own() {
    let bad = [
        message::frame(b'B', b"\0\0\0"),
        message::frame(b'P', b"x"),
        message::frame(b'E', b"\0"),
        message::frame(b'D', b"X\0"),
    ];
    for bad in bad {
        same(
            &WIDE,
            &[run("SELECT 1", &[]), bad.clone(), run("SELECT 2", &[]), message::sync(), message::query("SELECT 3")],
        );
    }
    same(&WIDE, &[message::frame(b'Q', b"SELECT 1"), message::query("SELECT 3")]);
}

/// COPY in the extended protocol swallows the Sync that comes before its data, and only that one.
#[test]
fn copy_in_a_pipeline() {
    let copy = run("COPY items FROM STDIN", &[]);
    let data = |s: &str| message::frame(b'd', s.as_bytes());
    let done = message::frame(b'c', b"");
    let fail = message::frame(b'f', b"no more\0");
    let delete = message::query("DELETE FROM items WHERE k > 100");
    for bad in ["x\ty\n", "301\ta\n"] {
        same(
            &WIDE,
            &[
                copy.clone(),
                message::sync(),
                data("301\ta\n"),
                data(bad),
                done.clone(),
                message::sync(),
                delete.clone(),
            ],
        );
        same(&WIDE, &[copy.clone(), data("301\ta\n"), data(bad), done.clone(), message::sync(), delete.clone()]);
        same(
            &WIDE,
            &[
                copy.clone(),
                message::flush(),
                data("301\ta\n"),
                data(bad),
                fail.clone(),
                message::sync(),
                delete.clone(),
            ],
        );
        same(
            &WIDE,
            &[message::query("COPY items FROM STDIN"), data("301\ta\n"), data(bad), done.clone(), delete.clone()],
        );
    }
    same(
        &WIDE,
        &[
            copy.clone(),
            message::sync(),
            data("301\ta\n"),
            done.clone(),
            run("SELECT 1/0", &[]),
            message::sync(),
            delete.clone(),
        ],
    );
    same(&WIDE, &[run("COPY missing FROM STDIN", &[]), message::sync(), delete.clone()]);
    same(
        &WIDE,
        &[
            message::query("BEGIN"),
            copy,
            message::sync(),
            data("x\n"),
            done,
            message::sync(),
            message::query("ROLLBACK"),
        ],
    );
}

/// The server stops reading in the middle of much data, and what it has read of it stays whole frames.
#[test]
fn an_error_in_the_middle_of_a_large_copy() {
    let mut client = NARROW.connect();
    for round in 0..3 {
        client.send(&message::query("COPY items FROM STDIN"));
        client.until(&["CopyInResponse"]);
        let row = format!("not a number\t{}\n", "x".repeat(5_000));
        for _ in 0..400 {
            client.send(&message::frame(b'd', row.as_bytes()));
        }
        client.send(&message::frame(b'c', b""));
        let answer = client.until(&["ReadyForQuery"]);
        assert!(answer.iter().any(|m| m.name() == "ErrorResponse"), "{round}: {answer:?}");
        assert_eq!(client.simple("SELECT 1").ok().value(), "1");
        assert_eq!(NARROW.connect().simple("SELECT 2").ok().value(), "2");
    }
}

/// A notice for each row must neither pile up nor be lost.
#[test]
fn notices_during_a_copy() {
    let mut client = WIDE.connect();
    Client::connect(&WIDE.shard(0)).execute(
        "CREATE TABLE noisy (k int);
         CREATE FUNCTION say() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'row %', NEW.k; RETURN NEW; END $$;
         CREATE TRIGGER noisy BEFORE INSERT ON noisy FOR EACH ROW EXECUTE FUNCTION say()",
    );
    eventually("the table is known", || client.simple("SELECT count(*) FROM noisy").sqlstate().is_none());
    client.send(&message::query("COPY noisy FROM STDIN"));
    client.until(&["CopyInResponse"]);
    let rows: String = (0..20_000).map(|n| format!("{n}\n")).collect();
    let begin = Instant::now();
    client.send(&message::frame(b'd', rows.as_bytes()));
    client.send(&message::frame(b'c', b""));
    let answer = client.until(&["ReadyForQuery"]);
    assert_eq!(answer.iter().filter(|m| m.name() == "NoticeResponse").count(), 20_000);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn state_does_not_reach_the_next_client() {
    let leaks = [
        "SELECT pg_advisory_lock(7)",
        "SELECT pg_advisory_lock(7), 1/0",
        "CREATE TEMP TABLE mine (a int)",
        "LISTEN mine",
        "SET ROLE helper",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET my.own TO 'x'",
        "BEGIN; SET my.own TO 'x'; COMMIT",
        "BEGIN; SET LOCAL my.own TO 'x'; COMMIT",
        "BEGIN; SELECT set_config('my.own', 'x', true); ROLLBACK",
        "BEGIN; SET ROLE helper; ROLLBACK",
        "BEGIN; SET work_mem TO '5MB'",
        "SELECT set_config('work_mem', '5MB', false)",
        "SET statement_timeout TO 50",
        "DO $$ BEGIN PERFORM set_config('work_mem', '7MB', false); END $$",
        "PREPARE mine AS SELECT 1",
        "DECLARE mine CURSOR WITH HOLD FOR SELECT 1",
        "BEGIN; DECLARE mine CURSOR FOR SELECT 1",
    ];
    let probe = "SELECT current_user, current_setting('work_mem'), current_setting('my.own', true) IS NULL, \
         current_setting('default_transaction_read_only'), current_setting('statement_timeout'), \
         (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), \
         to_regclass('pg_temp.mine') IS NULL, (SELECT count(*) FROM pg_listening_channels()), \
         (SELECT count(*) FROM pg_cursors WHERE name = 'mine'), \
         (SELECT count(*) FROM pg_prepared_statements WHERE name = 'mine')";
    let clean = |how: &str| {
        let row = NARROW.connect().simple(probe).ok().text().remove(0);
        let row: Vec<String> = row.into_iter().map(Option::unwrap).collect();
        assert_eq!(row, ["app", "4MB", "t", "off", "0", "0", "t", "0", "0", "0"], "{how}");
    };
    clean("to begin with");
    for leak in leaks {
        let mut client = NARROW.connect();
        client.simple_all(leak);
        client.send(&message::terminate());
        client.abandon();
        clean(leak);
        if leak.contains(';') || leak.contains("DO $$") {
            continue;
        }
        let mut client = NARROW.connect();
        exchange(&mut client, &[run(leak, &[]), run("SELECT 1/0", &[]), message::sync()].concat());
        drop(client);
        clean(&format!("{leak}, in a pipeline that fails"));
    }
}

/// A name of a temporary table that is gone means the other table again.
#[test]
fn temporary_tables_go_with_their_transaction() {
    let count = |client: &mut Client| client.simple("SELECT count(*) FROM items").ok().value();
    let deployment = two();
    let mut client = deployment.connect();
    let all = count(&mut client);
    client.execute("BEGIN");
    client.execute("CREATE TEMP TABLE items (k bigint, v text)");
    assert_eq!(count(&mut client), "0");
    client.execute("ROLLBACK");
    assert_eq!(count(&mut client), all);
    client.execute("BEGIN");
    client.execute("SAVEPOINT a");
    client.execute("CREATE TEMP TABLE items (k bigint, v text)");
    client.execute("ROLLBACK TO a");
    assert_eq!(count(&mut client), all);
    client.execute("COMMIT");
    client.execute("CREATE TEMP TABLE items (k bigint, v text)");
    assert_eq!(count(&mut client), "0");
    client.execute("DISCARD TEMP");
    assert_eq!(count(&mut client), all);
}

/// The server process is ended in every state. What PostgreSQL would have told the client in its place, and closed its
/// connection, the client hears; a session that was not using it goes on.
#[test]
fn servers_that_are_terminated() {
    if direct() {
        return;
    }
    let deployment = deploy("size = 1\nwait_timeout = \"20s\"", 1);
    let terminate = || {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'shop0' AND usename = 'app' AND pid <> pg_backend_pid()";
        Client::connect(&deployment.cluster(0).superuser("postgres")).execute(sql);
        thread::sleep(Duration::from_millis(50));
    };
    let mut client = deployment.connect();
    assert_eq!(client.simple("SELECT 1").ok().value(), "1");
    terminate(); // idle in the pool: nobody sees it
    assert_eq!(client.simple("SELECT 1").ok().value(), "1");
    let ends = |client: &mut Client| {
        let answer = client.until(&["Closed"]);
        let errors: Vec<String> = answer.iter().filter(|m| m.name() == "ErrorResponse").filter_map(shown).collect();
        assert_eq!(errors.len(), 1, "{answer:?}");
        assert!(errors[0].contains("FATAL 57P01"), "{errors:?}");
        assert!(!answer.iter().any(|m| m.name() == "ReadyForQuery"), "{answer:?}");
    };
    client.execute("BEGIN; SELECT 1");
    terminate(); // in a transaction
    client.send(&message::query("SELECT 2"));
    ends(&mut client);
    for simple in [true, false] {
        // At work.
        let mut client = deployment.connect();
        let sql = "SELECT pg_sleep(20)";
        client.send(&if simple { message::query(sql) } else { [run(sql, &[]), message::sync()].concat() });
        thread::sleep(Duration::from_millis(100));
        terminate();
        ends(&mut client);
    }
    // In the middle of a copy.
    let mut client = deployment.connect();
    client.send(&message::query("COPY items FROM STDIN"));
    client.until(&["CopyInResponse"]);
    terminate();
    client.send(&message::frame(b'd', b"1\tx\n"));
    client.send(&message::frame(b'c', b""));
    ends(&mut client);
    // Pinned: it hears of it while idle.
    let mut client = deployment.connect();
    client.simple("SELECT pg_advisory_lock(8)").ok();
    terminate();
    ends(&mut client);
    assert_eq!(deployment.connect().simple("SELECT 5").ok().value(), "5");
}

#[test]
fn notifications_come_while_idle_and_within_transactions() {
    let mut listener = WIDE.connect();
    let mut other = WIDE.connect();
    listener.execute("LISTEN news");
    other.execute("NOTIFY news, 'one'");
    let heard = |client: &mut Client, payload: &str| {
        let m = client.until(&["NotificationResponse"]);
        assert!(matches!(m.last(), Some(Message::NotificationResponse { payload: p, .. }) if p == payload), "{m:?}");
    };
    heard(&mut listener, "one");
    // Its own, at the end of its transaction.
    listener.send(&message::query("BEGIN"));
    listener.until(&["ReadyForQuery"]);
    listener.send(&message::query("NOTIFY news, 'two'"));
    listener.until(&["ReadyForQuery"]);
    listener.send(&message::query("COMMIT"));
    heard(&mut listener, "two");
    // In a block, between its statements.
    listener.execute("BEGIN");
    other.execute("NOTIFY news, 'three'");
    thread::sleep(Duration::from_millis(50));
    listener.send(&message::query("COMMIT"));
    heard(&mut listener, "three");
    listener.set_limit(Duration::from_secs(5));
    listener.until(&["ReadyForQuery"]);
    // Prepared, and without a word from the listener.
    other.send(&[run("NOTIFY news, 'four'", &[]), message::sync()].concat());
    other.until(&["ReadyForQuery"]);
    heard(&mut listener, "four");
}

#[test]
fn a_lost_client_stops_what_it_ran() {
    let mut client = NARROW.connect();
    client.send(&message::query("SELECT pg_sleep(30)"));
    thread::sleep(Duration::from_millis(200));
    client.abandon();
    let begin = Instant::now();
    assert_eq!(NARROW.connect().simple("SELECT 1").ok().value(), "1");
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    let running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()";
    let mut watch = Client::connect(&NARROW.cluster(0).superuser("postgres"));
    eventually("it is cancelled", || watch.simple(running).ok().value() == "0");
}

/// A client that does not read holds back its server, and nobody's memory.
#[test]
fn a_client_that_does_not_read() {
    if direct() {
        return;
    }
    let deployment = Deployment::start(Layout::new(1));
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", deployment.proxy().pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    let before = resident();
    let mut client = deployment.connect();
    client.send(&message::query("SELECT repeat('x', 1000) FROM generate_series(1, 300000)"));
    let mut wide = deployment.connect();
    wide.send(&message::query("SELECT repeat('y', 100000000)"));
    thread::sleep(Duration::from_millis(700));
    assert!(resident() < before + 60, "{} MB, {before} before", resident());
    let answer = wide.until(&["ReadyForQuery"]);
    assert!(matches!(&answer[1], Message::DataRow(row) if row[0].as_ref().unwrap().len() == 100_000_000));
    let answer = client.until(&["ReadyForQuery"]);
    assert_eq!(answer.len(), 300_003);
    assert!(resident() < before + 60, "{} MB, {before} before", resident());
}

#[test]
fn large_values_go_to_the_server() {
    let big = "z".repeat(30_000_000);
    let mut client = WIDE.connect();
    let begin = Instant::now();
    let answer = client.extended("SELECT length($1::text)", &[Some(&big)], false).ok();
    assert_eq!(answer.value(), "30000000");
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
}

#[test]
fn cancel_requests_are_taken_when_there_are_too_many_clients() {
    if direct() {
        return;
    }
    let deployment = Deployment::start(Layout::new(1).listen("max_clients = 1"));
    // The harness has looked whether the proxy listens, and may still count as a client.
    let mut client = loop {
        match Client::try_connect(&deployment.address()) {
            Ok(client) => break client,
            Err(error) => assert_eq!(error.sqlstate(), "53300"),
        }
    };
    client.send(&message::query("SELECT pg_sleep(20)"));
    thread::sleep(Duration::from_millis(200));
    assert_eq!(Client::try_connect(&deployment.address()).err().unwrap().sqlstate(), "53300");
    client.cancel();
    let answer = client.until(&["ReadyForQuery"]);
    assert!(answer.iter().filter_map(shown).any(|m| m.contains("57014")), "{answer:?}");
}

/// A statement that fails to be prepared on a shard must not be taken for a prepared one.
#[test]
fn statements_that_failed_are_prepared_again() {
    let mut client = NARROW.connect();
    let sql = "SELECT count(*) FROM late_table";
    assert!(client.extended(sql, &[], false).sqlstate().is_some());
    Client::connect(&NARROW.shard(0)).execute("CREATE TABLE late_table (a int)");
    eventually("the table is seen", || client.extended(sql, &[], false).sqlstate().is_none());
    let deployment = two();
    let mut client = deployment.connect();
    // Cancelled at some moment of a scattered statement, again and again.
    for round in 0..15 {
        let sql = format!("SELECT count(*) FROM items WHERE k > {round} AND (SELECT pg_sleep(0.02)) IS NOT NULL");
        client.send(&message::query(&sql));
        thread::sleep(Duration::from_millis(round));
        client.cancel();
        client.until(&["ReadyForQuery"]);
        let again = client.simple(&sql);
        assert!(matches!(again.sqlstate(), None | Some("0A000")), "{round}: {again:?}");
    }
}

const STATEMENTS: &[&str] = &[
    "SELECT 1",
    "SELECT k, v FROM items WHERE k = $1",
    "SELECT k FROM items ORDER BY k",
    "UPDATE items SET v = v WHERE k = $1",
    "INSERT INTO items VALUES ($1, 'dup')",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT a",
    "ROLLBACK TO a",
    "RELEASE a",
    "SET work_mem TO '5MB'",
    "SET LOCAL work_mem TO '6MB'",
    "RESET work_mem",
    "SHOW work_mem",
    "SELECT current_setting('work_mem'), current_setting('timezone')",
    "SELECT set_config('work_mem', '7MB', false)",
    "SET timezone TO 'Asia/Tokyo'",
    "RESET timezone",
    "SELECT 1/0",
    "",
    "DECLARE c CURSOR FOR SELECT k FROM items ORDER BY k",
    "FETCH 2 FROM c",
    "CLOSE c",
    "COPY items TO STDOUT",
    "START TRANSACTION READ ONLY",
];

const QUERIES: &[&str] = &[
    "SELECT 2",
    "BEGIN; SELECT 3",
    "COMMIT; SELECT 4",
    "SELECT 5; SELECT 1/0",
    "SET work_mem TO '8MB'; SELECT 6",
    "ROLLBACK; SET work_mem TO '9MB'; SELECT 1/0; SELECT 7",
    "SHOW work_mem",
    "SHOW timezone",
    "ROLLBACK",
    "COMMIT",
    "SAVEPOINT a; SELECT 8",
    "FETCH 1 FROM c",
    "DEALLOCATE ALL",
    "SELECT count(*) FROM items",
    "",
];

/// One random message, and what it is in words.
fn random_message(random: &mut Random) -> (String, Vec<u8>) {
    let statement = *random.pick(&["", "", "", "s1", "s2"]);
    let portal = *random.pick(&["", "", "", "p1"]);
    match random.below(22) {
        0..=4 => {
            let sql = *random.pick(STATEMENTS);
            (format!("Parse {statement:?} {sql}"), message::parse(statement, sql, &[]))
        }
        5..=8 => {
            let values = if random.below(3) == 0 { vec![Some(b"3".to_vec())] } else { vec![] };
            let formats: &[i16] = random.pick::<&[i16]>(&[&[], &[0], &[1]]);
            let what = format!("Bind {portal:?} {statement:?} {} {formats:?}", values.len());
            (what, message::bind(portal, statement, &[], &values, formats))
        }
        9..=12 => {
            let rows = *random.pick(&[0, 0, 1, 2]);
            (format!("Execute {portal:?} {rows}"), message::execute(portal, rows))
        }
        13 => (format!("Describe S {statement:?}"), message::describe(b'S', statement)),
        14 => (format!("Describe P {portal:?}"), message::describe(b'P', portal)),
        15 => (format!("Close S {statement:?}"), message::close(b'S', statement)),
        16 => (format!("Close P {portal:?}"), message::close(b'P', portal)),
        17 => ("Flush".into(), message::flush()),
        18..=19 => ("Sync".into(), message::sync()),
        20 => {
            let sql = *random.pick(STATEMENTS);
            let values: &[&str] = if sql.contains("$1") { &["4"] } else { &[] };
            (format!("Run {sql}"), run(sql, values))
        }
        _ => {
            let sql = *random.pick(QUERIES);
            (format!("Query {sql}"), message::query(sql))
        }
    }
}

/// Random pipelines answer as PostgreSQL does, message by message.
#[test]
fn random_pipelines() {
    for seed in seeds(150) {
        let mut random = seeded(seed);
        let mut expected = Client::connect(&single(&WIDE));
        let mut actual = WIDE.connect();
        let mut told = Vec::new();
        for _ in 0..25 {
            let count = 1 + random.below(8);
            let messages: Vec<(String, Vec<u8>)> = (0..count).map(|_| random_message(&mut random)).collect();
            let bytes: Vec<u8> = messages.iter().flat_map(|(_, b)| b.clone()).collect();
            told.push(messages.into_iter().map(|(what, _)| what).collect::<Vec<_>>());
            let wanted = exchange(&mut expected, &bytes);
            let got = exchange(&mut actual, &bytes);
            let count = if std::env::var_os("SEED").is_some() { 100 } else { 4 };
            let last: Vec<_> = told.iter().rev().take(count).rev().collect();
            assert_eq!(got, wanted, "SEED={seed}, after {last:#?}");
        }
    }
}

/// Three clients on one server connection: every reply is one's own, and so is every setting.
#[test]
fn random_clients_on_one_connection() {
    let threads: Vec<_> = (0..3u64)
        .map(|who| {
            let seed = seeds(1)[0] * 31 + who;
            thread::spawn(move || one_of_many(seed, who))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

fn one_of_many(seed: u64, who: u64) {
    let mut random = seeded(seed);
    let mut client = NARROW.connect();
    let memory = format!("{}MB", 10 + who);
    client.execute(&format!("SET work_mem TO '{memory}'"));
    let mut serial = who * 1_000_000;
    for _ in 0..150 {
        serial += 1;
        let probe = format!("SELECT {serial}, current_setting('work_mem'), current_user");
        let check = |client: &mut Client, mode: usize, user: &str| {
            let outcome = match mode {
                0 => client.simple(&probe),
                1 => client.extended(&probe, &[], false),
                _ => client.simple_all(&format!("SELECT 0; {probe}")).pop().unwrap(),
            };
            let row: Vec<String> = outcome.ok().text().remove(0).into_iter().map(Option::unwrap).collect();
            assert_eq!(row, [serial.to_string(), memory.clone(), user.to_string()], "seed {seed}");
        };
        let mode = random.below(3);
        match random.below(9) {
            0 | 1 => check(&mut client, mode, "app"),
            2 => {
                client.execute("BEGIN");
                client.execute("SET LOCAL ROLE helper");
                check(&mut client, mode, "helper");
                let end = *random.pick(&["COMMIT", "ROLLBACK"]);
                client.execute(end);
            }
            3 => {
                client.execute("SET ROLE helper");
                check(&mut client, mode, "helper");
                client.execute("RESET ROLE");
            }
            4 => {
                client.execute("BEGIN; SET work_mem TO '1MB'; SELECT 1");
                client.execute("ROLLBACK");
                check(&mut client, mode, "app");
            }
            5 => {
                let outcome = client.extended("SELECT 1/0", &[], false);
                assert_eq!(outcome.sqlstate(), Some("22012"));
                check(&mut client, mode, "app");
            }
            6 => {
                // Gone in the middle of something, and back.
                client.send(random.pick::<Vec<u8>>(&[
                    message::query("BEGIN; SET work_mem TO '2MB'; SELECT 1"),
                    message::query("SELECT pg_sleep(0.01), generate_series(1, 10000)"),
                    message::query("COPY items FROM STDIN"),
                    run("SELECT k FROM items", &[]),
                    message::frame(b'B', b"\0"),
                ]));
                client.abandon();
                client = NARROW.connect();
                client.execute(&format!("SET work_mem TO '{memory}'"));
            }
            7 => {
                client.send(&message::query("SELECT pg_sleep(0.005)"));
                thread::sleep(Duration::from_millis(random.below(8) as u64));
                client.cancel();
                let outcome = client.outcomes().pop().unwrap();
                assert!(matches!(outcome.sqlstate(), None | Some("57014")), "seed {seed}: {outcome:?}");
                check(&mut client, mode, "app");
            }
            _ => {
                let value = client.extended("SELECT v FROM items WHERE k = $1", &[Some("7")], true).ok().value();
                assert_eq!(value, "value 7");
            }
        }
    }
}

/// What was done for a message that turns out to be skipped is taken back.
#[test]
fn messages_behind_an_error_have_no_effect() {
    let dup = run("INSERT INTO items VALUES (1, 'dup')", &[]);
    same(
        &WIDE,
        &[
            message::parse("kept", "SELECT 1", &[]),
            dup,
            message::parse("new", "SELECT 2", &[]),
            message::close(b'S', "kept"),
            message::sync(),
            message::describe(b'S', "kept"),
            message::sync(),
            message::parse("new", "SELECT 3", &[]),
            message::sync(),
        ],
    );
    same(
        &WIDE,
        &[
            message::query("BEGIN; SAVEPOINT a"),
            message::parse("s", "SELECT 1", &[]),
            message::bind("p", "s", &[], &[], &[]),
            run("SELECT 1/0", &[]),
            message::bind("q", "s", &[], &[], &[]),
            message::sync(),
            message::query("ROLLBACK TO a"),
            message::bind("p", "s", &[], &[], &[]),
            message::bind("q", "s", &[], &[], &[]),
            message::execute("q", 0),
            message::sync(),
            message::query("ROLLBACK"),
        ],
    );
}

/// Over several shards a text in another encoding runs where neither its values nor its names say which shard.
#[test]
fn text_in_another_encoding() {
    if direct() {
        return;
    }
    let deployment = two();
    let mut client = deployment.connect();
    let mut latin = |sql: &str| {
        let bytes: Vec<u8> = sql.chars().map(|c| u8::try_from(c).unwrap()).chain([0]).collect();
        client.send(&message::frame(b'Q', &bytes));
        client.until(&["ReadyForQuery"]).iter().filter_map(shown).collect::<Vec<_>>().join("; ")
    };
    latin("SET client_encoding TO latin1");
    latin("CREATE TEMP TABLE letters (t text)");
    assert!(latin("INSERT INTO letters VALUES ('caf\u{e9}')").contains("INSERT 0 1"));
    let length =
        latin("SELECT octet_length(convert_to(t, 'UTF8')) + octet_length('\u{e9}') FROM letters WHERE t = 'caf\u{e9}'");
    assert!(length.contains("SELECT 1"), "{length}");
    for refused in ["SELECT v FROM items WHERE k = 1 AND v = '\u{e9}'", "SELECT 1 AS \u{e9}"] {
        assert!(latin(refused).contains("0A000"), "{refused}");
    }
    latin("SET client_encoding TO utf8");
    assert_eq!(client.simple("SELECT t FROM letters").ok().value(), "caf\u{e9}");
}

/// A table that its transaction has just made, and values of other types than its columns have.
#[test]
fn values_for_a_table_of_the_same_transaction() {
    let deployment = two();
    for address in [single(&deployment), deployment.address()] {
        let mut client = Client::connect(&address);
        client.execute("BEGIN");
        client.execute("CREATE TABLE just_made (id bigint PRIMARY KEY, note text)");
        for (name, id) in [("", 1_i16), ("named", 2)] {
            let sql = "INSERT INTO just_made VALUES ($1, $2)";
            let values = [Some(id.to_be_bytes().to_vec()), Some(b"note".to_vec())];
            let bytes = [
                message::parse(name, sql, &[21, 25]),
                message::bind("", name, &[1, 1], &values, &[]),
                message::execute("", 0),
                message::sync(),
            ];
            client.send(&bytes.concat());
            let answer = client.until(&["ReadyForQuery"]);
            assert!(
                answer.iter().any(|m| matches!(m, Message::CommandComplete { tag } if tag == "INSERT 0 1")),
                "{answer:?}"
            );
        }
        assert_eq!(client.simple("SELECT sum(id) FROM just_made").ok().value(), "3");
        client.execute("ROLLBACK");
    }
}
