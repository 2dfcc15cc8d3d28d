//! Clients as they stand: psql with its backslash commands, pgbench in its three modes, and drivers of four languages.
//!
//! A client that is not installed fails its test; `scripts/setup` installs all of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::process;
use integration_tests::proxy::root;
use integration_tests::shop;
use integration_tests::tools;
use integration_tests::tools::libpq_program;
use integration_tests::tools::psql;
use integration_tests::tools::said;
use std::fs;
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use std::time::Instant;

static SHOP: LazyLock<Deployment> = LazyLock::new(|| shop::deploy(shop::layout(3)));

/// The shop with every table on the home shard too, which answers catalog queries (pgtest/deviations/catalog.pgtest).
static CATALOG: LazyLock<Deployment> = LazyLock::new(|| shop::deploy(shop::layout(2).moved("public.notes", 0)));

/// psql says the same through the proxy as on one PostgreSQL.
fn same(deployment: &Deployment, commands: &[&str]) {
    let single = deployment.cluster(0).app(SINGLE);
    for command in commands {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{command}\n")).unwrap();
        let path = file.path().to_str().unwrap();
        let expected = psql(&single, &["-f", path]);
        let actual = psql(&deployment.address(), &["-f", path]);
        assert_eq!(said(&actual), said(&expected), "{command}");
        assert!(expected.status.success(), "{command}: {}", said(&expected));
    }
}

#[test]
fn psql_describes_tables() {
    same(
        &CATALOG,
        &["\\d orders", "\\d+ order_items", "\\d tenants", "\\d notes", "\\d orders_placed", "\\d countries"],
    );
}

#[test]
fn psql_lists_what_there_is() {
    let commands = [
        "\\d",
        "\\dt",
        "\\dn public",
        "\\df",
        "\\di",
        "\\dv",
        "\\ds",
        "\\dT",
        "\\du",
        "\\dp",
        "\\dx",
        "\\do",
        "\\dt public.o*",
    ];
    same(&CATALOG, &commands);
}

#[test]
fn psql_shows_results() {
    same(
        &SHOP,
        &[
            "SELECT * FROM tenants ORDER BY tenant_id LIMIT 5",
            "SELECT count(*), sum(amount), avg(amount) FROM orders",
            "SELECT status, count(*) FROM orders GROUP BY status ORDER BY status",
            "SELECT 1; SELECT name FROM tenants WHERE tenant_id = 3; SELECT 'end';",
            "SELECT 1\\; SELECT name FROM tenants WHERE tenant_id = 3\\; SELECT 'end';",
            "SELECT tenant_id, name FROM tenants WHERE tenant_id = 7 \\gx",
            "SELECT order_id, amount FROM orders WHERE tenant_id = 3 ORDER BY order_id LIMIT 2 \\gdesc",
            "SELECT order_id FROM orders WHERE tenant_id = $1 ORDER BY 1 LIMIT 2 \\bind 3 \\g",
        ][..if psql_is_new() { 8 } else { 7 }],
    );
}

/// `\bind` came with psql 16.
fn psql_is_new() -> bool {
    let output = Command::new("psql").arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().nth(2).and_then(|v| v.split('.').next()?.parse().ok()).is_some_and(|v: u32| v >= 16)
}

#[test]
fn psql_runs_a_script_in_a_transaction() {
    let script = "BEGIN;\nINSERT INTO tenants VALUES (210, 'psql', 'de', 'free', '2026-01-01');\n\
                  \\copy (SELECT name FROM tenants WHERE tenant_id = 210) TO STDOUT\nROLLBACK;\n\
                  SELECT count(*) FROM tenants WHERE tenant_id = 210;\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), script).unwrap();
    let output = psql(&SHOP.address(), &["-At", "-f", file.path().to_str().unwrap()]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "BEGIN\nINSERT 0 1\npsql\nROLLBACK\n0\n", "{}", said(&output));
}

#[test]
fn psql_cancels_with_ctrl_c() {
    let mut command = libpq_program("psql", &SHOP.address());
    let mut child =
        command.args(["-X", "-c", "SELECT pg_sleep(60)"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let begin = Instant::now();
    process::signal(child.id(), "INT");
    let status = process::wait(&mut child, Duration::from_secs(10)).expect("psql ends");
    assert!(!status.success() && begin.elapsed() < Duration::from_secs(5));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut text).unwrap();
    assert!(text.contains("canceling statement due to user request"), "{text}");
}

fn pgbench(mode: &str) {
    let script = "\\set t random(1, 24)\n\\set o random(1, 30)\n\
                  SELECT amount FROM orders WHERE tenant_id = :t AND order_id = :o;\n\
                  BEGIN;\nUPDATE orders SET note = 'pgbench' WHERE tenant_id = :t AND order_id = :o;\n\
                  SELECT count(*) FROM orders WHERE tenant_id = :t;\nROLLBACK;\n";
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), script).unwrap();
    let mut command = libpq_program("pgbench", &SHOP.address());
    command.args(["-n", "-M", mode, "-c", "8", "-j", "2", "-t", "40", "-f"]).arg(file.path());
    let output = tools::output_within(&mut command, tools::PROGRAM_LIMIT).expect("pgbench");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("processed: 320/320"), "{}", said(&output));
    assert!(!text.contains("failed transactions: ") || text.contains("failed transactions: 0 "), "{text}");
}

#[test]
fn pgbench_simple() {
    pgbench("simple");
}

#[test]
fn pgbench_extended() {
    pgbench("extended");
}

#[test]
fn pgbench_prepared() {
    pgbench("prepared");
}

fn driver(program: &str, file: &str, environment: &[(&str, &str)]) {
    let path = if program.contains('/') { tools::local().join(program) } else { program.into() };
    let mut command = libpq_program(path.to_str().unwrap(), &SHOP.address());
    command.arg(root().join("integration-tests/drivers").join(file)).envs(environment.iter().copied());
    let output = tools::output_within(&mut command, tools::PROGRAM_LIMIT);
    let output = output.unwrap_or_else(|e| panic!("{path:?}: {e} (scripts/setup installs it)"));
    assert!(output.status.success(), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("is content"), "{}", said(&output));
}

#[test]
fn psycopg3() {
    driver("venv/bin/python", "psycopg3.py", &[]);
}

#[test]
fn asyncpg() {
    driver("venv/bin/python", "asyncpg_driver.py", &[]);
}

#[test]
fn node_postgres() {
    let modules = tools::local().join("node/node_modules");
    driver("node", "node_postgres.js", &[("NODE_PATH", modules.to_str().unwrap())]);
}

#[tokio::test]
async fn tokio_postgres() {
    let address = SHOP.address();
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(address.port).user(&address.user).password(&address.password);
    let (mut client, connection) =
        config.dbname(&address.database).connect(tokio_postgres::NoTls).await.expect("a connection");
    let task = tokio::spawn(connection);
    let by_key = client.prepare("SELECT name FROM tenants WHERE tenant_id = $1").await.unwrap();
    for tenant in 1..20i64 {
        let row = client.query_one(&by_key, &[&tenant]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), format!("tenant {tenant}"));
    }
    // Pipelined: all are sent before the first is answered.
    let keys: Vec<i64> = (1..20).collect();
    let reads = keys.iter().map(|key| {
        let (client, by_key) = (&client, &by_key);
        async move { client.query_one(by_key, &[key]).await.unwrap().get::<_, String>(0) }
    });
    let names = futures::future::join_all(reads).await;
    assert_eq!(names, keys.iter().map(|k| format!("tenant {k}")).collect::<Vec<_>>());
    let row = client.query_one("SELECT count(*), max(order_id) FROM orders", &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (720, 30));
    let rows =
        client.query("SELECT tenant_id FROM tenants WHERE tenant_id = ANY($1) ORDER BY 1", &[&vec![2i64, 9, 3]]).await;
    assert_eq!(rows.unwrap().iter().map(|r| r.get::<_, i64>(0)).collect::<Vec<_>>(), [2, 3, 9]);
    let transaction = client.transaction().await.unwrap();
    let insert = "INSERT INTO tenants VALUES ($1, 'rust', NULL, 'free', '2026-01-01')";
    assert_eq!(transaction.execute(insert, &[&203i64]).await.unwrap(), 1);
    let error = transaction.execute(insert, &[&203i64]).await.unwrap_err();
    assert_eq!(error.code(), Some(&tokio_postgres::error::SqlState::UNIQUE_VIOLATION));
    transaction.rollback().await.unwrap();
    let row = client.query_one("SELECT count(*) FROM tenants WHERE tenant_id = 203", &[]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0), 0);
    // A portal with a row limit.
    let transaction = client.transaction().await.unwrap();
    let portal =
        transaction.bind("SELECT order_id FROM orders WHERE tenant_id = 5 ORDER BY order_id", &[]).await.unwrap();
    assert_eq!(transaction.query_portal(&portal, 7).await.unwrap().len(), 7);
    assert_eq!(transaction.query_portal(&portal, 0).await.unwrap().len(), 23);
    drop(portal);
    transaction.commit().await.unwrap();
    // Cancelled by its token.
    let token = client.cancel_token();
    let (slept, ()) = tokio::join!(client.batch_execute("SELECT pg_sleep(30)"), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
    });
    assert_eq!(slept.unwrap_err().code(), Some(&tokio_postgres::error::SqlState::QUERY_CANCELED));
    assert_eq!(client.query_one("SELECT 5", &[]).await.unwrap().get::<_, i32>(0), 5);
    drop(client);
    task.await.unwrap().unwrap();
}
