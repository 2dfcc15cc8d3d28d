//! What a session makes for itself alone: temporary tables, types and functions. No other session sees them, their shape
//! or their end, and what they have in common with others is the name only.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use std::sync::LazyLock;

static ONE: LazyLock<Deployment> = LazyLock::new(|| Deployment::start(Layout::new(1)));
static TWO: LazyLock<Deployment> = LazyLock::new(|| Deployment::start(Layout::new(2)));

/// The types of a statement's parameters and columns, as Describe tells them.
fn described(client: &mut Client, sql: &str) -> (Vec<u32>, Vec<u32>) {
    client.send(&[message::parse("", sql, &[]), message::describe(b'S', ""), message::sync()].concat());
    let (mut parameters, mut columns) = (Vec::new(), Vec::new());
    for message in client.until(&["ReadyForQuery"]) {
        match message {
            Message::ParameterDescription(types) => parameters = types,
            Message::RowDescription(all) => columns = all.iter().map(|column| column.type_oid).collect(),
            Message::ErrorResponse(fields) => panic!("{sql}: {}", fields.message()),
            _ => {}
        }
    }
    (parameters, columns)
}

const INT4: u32 = 23;
const TEXT: u32 = 25;
const BYTEA: u32 = 17;

#[test]
fn tables_of_one_name_have_each_their_own_shape() {
    for deployment in [&*ONE, &*TWO] {
        let sql = "SELECT v FROM mine WHERE v <> $1";
        let mut clients: Vec<(Client, u32)> = [("text", TEXT), ("bytea", BYTEA), ("int", INT4)]
            .into_iter()
            .map(|(written, oid)| {
                let mut client = deployment.connect();
                client.execute(&format!("CREATE TEMP TABLE mine (v {written})"));
                (client, oid)
            })
            .collect();
        for _ in 0..2 {
            for (client, oid) in &mut clients {
                assert_eq!(described(client, sql), (vec![*oid], vec![*oid]));
            }
        }
    }
}

#[test]
fn a_table_made_anew_has_its_new_shape() {
    for deployment in [&*ONE, &*TWO] {
        let mut client = deployment.connect();
        let shape = |client: &mut Client| described(client, "SELECT * FROM again").1;
        client.execute("CREATE TEMP TABLE again (v text)");
        assert_eq!(shape(&mut client), [TEXT]);
        client.execute("ALTER TABLE again ADD w int");
        assert_eq!(shape(&mut client), [TEXT, INT4]);
        client.execute("BEGIN; ALTER TABLE again DROP w; ROLLBACK");
        assert_eq!(shape(&mut client), [TEXT, INT4]);
        client.execute("DROP TABLE again; CREATE TEMP TABLE again (v bytea)");
        assert_eq!(shape(&mut client), [BYTEA]);
    }
}

/// A statement that was prepared before looks its names up again.
#[test]
fn a_prepared_statement_sees_the_table_that_comes_before_another() {
    for deployment in [&*ONE, &*TWO] {
        let mut client = deployment.connect();
        client.execute(
            "CREATE TABLE IF NOT EXISTS shadowed (v text); TRUNCATE shadowed; INSERT INTO shadowed VALUES ('a')",
        );
        client.execute("PREPARE look AS SELECT v FROM shadowed");
        assert_eq!(client.simple("EXECUTE look").ok().value(), "a");
        client.execute("CREATE TEMP TABLE shadowed (v text); INSERT INTO shadowed VALUES ('b')");
        assert_eq!(client.simple("EXECUTE look").ok().value(), "b");
        client.execute("DROP TABLE pg_temp.shadowed");
        assert_eq!(client.simple("EXECUTE look").ok().value(), "a");
    }
}

#[test]
fn types_and_functions_may_be_temporary() {
    for deployment in [&*ONE, &*TWO] {
        let mut first = deployment.connect();
        let mut second = deployment.connect();
        first.execute("CREATE TYPE pg_temp.mood AS ENUM ('low', 'high')");
        second.execute("CREATE TYPE pg_temp.mood AS ENUM ('one', 'two', 'three')");
        let (of_first, of_second) =
            (described(&mut first, "SELECT $1::mood"), described(&mut second, "SELECT $1::mood"));
        assert_ne!(of_first, of_second);
        assert_eq!(first.simple("SELECT enum_range(NULL::mood)").ok().value(), "{low,high}");
        assert_eq!(second.simple("SELECT enum_range(NULL::mood)").ok().value(), "{one,two,three}");
        first.execute("CREATE DOMAIN pg_temp.small AS int CHECK (VALUE < 10)");
        assert_eq!(first.simple("SELECT 10::pg_temp.small").sqlstate(), Some("23514"));
        first.execute("CREATE FUNCTION pg_temp.twice(int) RETURNS int LANGUAGE sql AS 'SELECT 2 * $1'");
        assert_eq!(first.simple("SELECT pg_temp.twice(4)").ok().value(), "8");
        first.execute("DROP FUNCTION pg_temp.twice(int); DROP DOMAIN pg_temp.small; DROP TYPE pg_temp.mood");
        assert_eq!(first.simple("SELECT 1::pg_temp.small").sqlstate(), Some("42704"));
        let mut third = deployment.connect();
        assert_eq!(third.simple("SELECT 'low'::mood").sqlstate(), Some("42704"));
    }
}

/// As PostgreSQL's own client sees the end of its server process: one error, and the connection is closed.
#[test]
fn a_session_whose_own_things_are_lost_ends_with_one_error() {
    let sql = "SELECT pg_terminate_backend(pg_backend_pid())";
    for text in [
        message::query(sql),
        [message::parse("", sql, &[]), message::bind("", "", &[], &[], &[]), message::execute("", 0), message::sync()]
            .concat(),
    ] {
        let mut client = ONE.connect();
        client.execute("CREATE TEMP TABLE mine (v int)");
        client.send(&text);
        let answer = client.until(&["Closed"]);
        let errors: Vec<&str> = answer
            .iter()
            .filter_map(|m| match m {
                Message::ErrorResponse(fields) => Some(fields.get('S')),
                _ => None,
            })
            .collect();
        assert_eq!(errors, ["FATAL"], "{answer:?}");
    }
}
