//! LISTEN and NOTIFY of many clients over few server connections.
//!
//! What a transaction, a savepoint or another client does to them `interleave.rs` compares with PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// One server connection for statements.
static NARROW: LazyLock<Deployment> = LazyLock::new(|| {
    let deployment = Deployment::start(Layout::new(1).pool("size = 1\nwait_timeout = \"5s\""));
    let mut client = deployment.connect();
    client.execute("CREATE TABLE told (a int)");
    client.execute(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_notify('told', NEW.a::text); RETURN NEW; END $$",
    );
    client.execute("CREATE TRIGGER tell AFTER INSERT ON told FOR EACH ROW EXECUTE FUNCTION tell()");
    drop(client);
    deployment
});

fn heard(client: &mut Client) -> (i32, String, String) {
    match client.until(&["NotificationResponse"]).pop() {
        Some(Message::NotificationResponse { process, channel, payload }) => (process, channel, payload),
        other => panic!("{other:?}"),
    }
}

/// What comes up to ReadyForQuery of a Query.
fn told(client: &mut Client, sql: &str) -> Vec<&'static str> {
    client.send(&message::query(sql));
    client.until(&["ReadyForQuery"]).iter().map(Message::name).collect()
}

#[test]
fn all_listen_over_one_connection() {
    let mut listeners: Vec<Client> = (0..20).map(|_| NARROW.connect()).collect();
    for (number, listener) in listeners.iter_mut().enumerate() {
        listener.execute("LISTEN all_of_them");
        listener.execute(&format!("LISTEN only_{number}"));
    }
    let mut notifier = NARROW.connect();
    for round in 0..3 {
        notifier.execute(&format!("NOTIFY all_of_them, '{round}'; NOTIFY only_7, '{round}'"));
    }
    for (number, listener) in listeners.iter_mut().enumerate() {
        for round in 0..3 {
            assert_eq!(heard(listener), (notifier.process, "all_of_them".into(), round.to_string()));
            if number == 7 {
                assert_eq!(heard(listener), (notifier.process, "only_7".into(), round.to_string()));
            }
        }
    }
    // Who does not listen any more hears nothing, and nobody is held up meanwhile.
    listeners[0].execute("UNLISTEN all_of_them");
    listeners[1].execute("UNLISTEN *");
    listeners[2].execute("DISCARD ALL");
    notifier.execute("NOTIFY all_of_them, 'again'");
    listeners[0].execute("LISTEN after_all");
    for quiet in &mut listeners[..3] {
        assert_eq!(told(quiet, "SELECT 1"), ["RowDescription", "DataRow", "CommandComplete", "ReadyForQuery"]);
    }
    assert_eq!(heard(&mut listeners[3]).2, "again");
}

/// One's own come before ReadyForQuery, with one's own number, also when a trigger has sent them.
#[test]
fn own_notifications_come_at_once() {
    let mut client = NARROW.connect();
    client.execute("LISTEN own");
    let own = ["CommandComplete", "NotificationResponse", "ReadyForQuery"];
    for _ in 0..20 {
        assert_eq!(told(&mut client, "NOTIFY own, 'x'"), own);
    }
    client.send(&message::query("NOTIFY own, 'y'"));
    assert_eq!(heard(&mut client), (client.process, "own".into(), "y".into()));
    client.until(&["ReadyForQuery"]);
    client.execute("LISTEN told");
    assert_eq!(told(&mut client, "INSERT INTO told VALUES (1)"), own);
    client.execute("BEGIN");
    assert_eq!(told(&mut client, "SELECT pg_notify('own', 'z')").len(), 4);
    assert_eq!(told(&mut client, "COMMIT"), own);
    // A pipeline's end is its commit.
    let parts = ["NOTIFY own, 'p'", "SELECT pg_notify('own', 'q')"].map(|sql| {
        let bind = message::bind("", "", &[], &[], &[]);
        [message::parse("", sql, &[]), bind, message::execute("", 0)].concat()
    });
    client.send(&[parts.concat(), message::sync()].concat());
    let names: Vec<&str> = client.until(&["ReadyForQuery"]).iter().map(Message::name).collect();
    assert_eq!(names[names.len() - 3..], ["NotificationResponse", "NotificationResponse", "ReadyForQuery"]);
}

#[test]
fn the_channels_are_shown() {
    let mut direct = Client::connect(&NARROW.shard(0));
    let mut proxied = NARROW.connect();
    for client in [&mut direct, &mut proxied] {
        client.execute("LISTEN \"it's \\ \"\"odd\"\"\"; LISTEN plain");
    }
    for sql in [
        "SELECT pg_listening_channels()",
        "SELECT pg_catalog.PG_Listening_Channels() AS c ORDER BY c",
        "SELECT * FROM pg_listening_channels()",
        "SELECT c FROM pg_listening_channels() c WHERE c = 'plain'",
        "SELECT n, c FROM pg_listening_channels() WITH ORDINALITY AS t(c, n)",
        "SELECT 'plain' IN (SELECT pg_listening_channels()), array(SELECT pg_listening_channels())",
        "SELECT 'pg_listening_channels()', 1 AS pg_listening_channels",
    ] {
        let shown = |client: &mut Client| (client.simple(sql).ok(), client.extended(sql, &[], false).ok());
        assert_eq!(format!("{:?}", shown(&mut proxied)), format!("{:?}", shown(&mut direct)), "{sql}");
    }
    // A prepared statement tells what is so when it runs.
    proxied.send(&[message::parse("s", "SELECT count(*) FROM pg_listening_channels()", &[]), message::sync()].concat());
    proxied.until(&["ReadyForQuery"]);
    for (sql, count) in [("LISTEN more", "3"), ("UNLISTEN *", "0"), ("LISTEN one", "1")] {
        proxied.execute(sql);
        let bind = message::bind("", "s", &[], &[], &[]);
        proxied.send(&[bind, message::execute("", 0), message::sync()].concat());
        let row = Message::DataRow(vec![Some(count.as_bytes().to_vec())]);
        assert!(proxied.until(&["ReadyForQuery"]).contains(&row), "{sql}");
    }
}

/// Notifications may have been missed: who listens is told, and others are not disturbed.
#[test]
fn the_listening_connection_is_lost() {
    if direct() {
        return;
    }
    let deployment = Deployment::start(Layout::new(1).pool("size = 1"));
    let mut other = deployment.connect();
    let mut listener = deployment.connect();
    other.execute("SELECT 1");
    listener.execute("LISTEN x");
    let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN \"x\"%'";
    let mut superuser = Client::connect(&deployment.cluster(0).superuser("postgres"));
    assert_eq!(superuser.simple(sql).ok().text().len(), 1);
    match &listener.until(&["Closed"])[..] {
        [Message::ErrorResponse(error), Message::Closed] => {
            assert_eq!((error.get('S'), error.sqlstate()), ("FATAL", "08006"));
        }
        messages => panic!("{messages:?}"),
    }
    other.execute("SELECT 1");
    other.execute("LISTEN x");
    assert_eq!(told(&mut other, "NOTIFY x"), ["CommandComplete", "NotificationResponse", "ReadyForQuery"]);
    // The connection goes when nobody listens any more.
    drop(other);
    let left = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%LISTEN \"x\"%' AND pid <> pg_backend_pid()";
    let start = Instant::now();
    while superuser.simple(left).ok().value() != "0" {
        assert!(start.elapsed() < Duration::from_secs(10), "it is still there");
        thread::sleep(Duration::from_millis(20));
    }
}
