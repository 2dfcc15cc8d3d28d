//! Pools and their limits, shards that go away, cancelling, draining, reloading, logins and TLS.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::client::PROTOCOL_3_0;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use integration_tests::outcome::Outcome;
use integration_tests::postgres::Cluster;
use integration_tests::proxy::Proxy;
use integration_tests::tools;
use integration_tests::tools::said;
use std::fs;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const SCHEMA: &str = "CREATE TABLE items (k bigint PRIMARY KEY, v text)";
const ROWS: &str = "INSERT INTO items SELECT k, 'value ' || k FROM generate_series(1, 100) k";
/// Reads one item; its key follows.
const READ: &str = "SELECT v FROM items WHERE k = ";

fn layout(shards: usize) -> Layout {
    Layout::new(shards).hash_map("keys", &["bigint"]).sharded("public.items", &["k"])
}

fn deploy(layout: Layout) -> Deployment {
    let deployment = Deployment::start(layout);
    deployment.connect().execute(SCHEMA);
    deployment.load(ROWS);
    deployment
}

/// The smallest key that lives on a shard.
fn key_on(deployment: &Deployment, shard: usize) -> String {
    Client::connect(&deployment.shard(shard)).simple("SELECT min(k) FROM items").ok().value()
}

fn read(client: &mut Client, key: &str) -> Outcome {
    client.simple(&format!("{READ}{key}"))
}

fn eventually(limit: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {limit:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn is_wait_timeout(outcome: &Outcome) -> bool {
    matches!(outcome.sqlstate(), Some("53300" | "57014"))
}

#[test]
fn session_mode_keeps_one_server_connection() {
    if direct() {
        return;
    }
    let deployment = deploy(layout(1).pool("mode = \"session\"\nsize = 2\nwait_timeout = \"500ms\""));
    let (mut one, mut two) = (deployment.connect(), deployment.connect());
    let pid = |c: &mut Client| c.simple("SELECT pg_backend_pid() FROM items WHERE k = 1").ok().value();
    let (first, second) = (pid(&mut one), pid(&mut two));
    assert_ne!(first, second);
    assert!((0..5).all(|_| pid(&mut one) == first && pid(&mut two) == second));
    let begin = Instant::now();
    let outcome = match Client::try_connect(&deployment.address()) {
        Ok(mut three) => read(&mut three, "1"),
        Err(_) => return,
    };
    assert!(is_wait_timeout(&outcome), "{outcome:?}");
    assert!(begin.elapsed() < Duration::from_secs(5));
    drop(two);
    let mut three = deployment.connect();
    assert_eq!(read(&mut three, "1").ok().value(), "value 1");
}

#[test]
fn transaction_mode_shares_one_server_connection() {
    if direct() {
        return;
    }
    let deployment = deploy(layout(1).pool("size = 1\nwait_timeout = \"500ms\""));
    let (mut one, mut two) = (deployment.connect(), deployment.connect());
    for _ in 0..20 {
        assert_eq!(read(&mut one, "1").ok().value(), "value 1");
        assert_eq!(read(&mut two, "2").ok().value(), "value 2");
    }
    one.execute("BEGIN");
    one.execute("UPDATE items SET v = 'x' WHERE k = 1");
    let outcome = read(&mut two, "2");
    assert!(is_wait_timeout(&outcome), "{outcome:?}");
    one.execute("ROLLBACK");
    assert_eq!(read(&mut two, "2").ok().value(), "value 2");
}

#[test]
fn many_clients_wait_their_turn() {
    let deployment = deploy(layout(2).pool("size = 3"));
    let address = deployment.address();
    let clients: Vec<_> = (1..=40u32)
        .map(|n| {
            let address = address.clone();
            thread::spawn(move || {
                let mut client = Client::connect(&address);
                (0..20).all(|_| read(&mut client, &n.to_string()).ok().value() == format!("value {n}"))
            })
        })
        .collect();
    assert!(clients.into_iter().all(|c| c.join().unwrap()));
}

#[test]
fn a_shard_that_is_away_fails_only_what_needs_it() {
    if direct() {
        return;
    }
    let mut deployment = deploy(layout(2).own_clusters());
    let (here, away) = (key_on(&deployment, 0), key_on(&deployment, 1));
    let mut client = deployment.connect();
    assert_eq!(read(&mut client, &away).ok().rows.len(), 1);
    deployment.clusters[1].stop("INT");
    let mut fails = |sql: &str| {
        let begin = Instant::now();
        let outcome = client.simple(sql);
        assert_eq!(outcome.sqlstate(), Some("08006"), "{sql}: {outcome:?}");
        assert!(begin.elapsed() < Duration::from_secs(2), "{sql} took {:?}", begin.elapsed());
    };
    fails(&format!("{READ}{away}"));
    fails("SELECT count(*) FROM items");
    fails(&format!("INSERT INTO items VALUES ({away}, 'x')"));
    assert_eq!(read(&mut client, &here).ok().rows.len(), 1);
    // In a transaction the error fails it, as any other.
    client.execute("BEGIN");
    assert_eq!(read(&mut client, &here).ok().rows.len(), 1);
    assert_eq!(read(&mut client, &away).sqlstate(), Some("08006"));
    assert_eq!(read(&mut client, &here).sqlstate(), Some("25P02"));
    assert_eq!(client.simple("COMMIT").tag(), "ROLLBACK");
    deployment.clusters[1].start();
    eventually(Duration::from_secs(15), "the shard is used again", || read(&mut client, &away).sqlstate().is_none());
    assert_eq!(client.simple("SELECT count(*) FROM items").ok().value(), "100");
}

#[test]
fn a_shard_that_crashes_breaks_the_transaction_on_it() {
    if direct() {
        return;
    }
    let mut deployment = deploy(layout(2).own_clusters());
    let (here, there) = (key_on(&deployment, 0), key_on(&deployment, 1));
    let mut client = deployment.connect();
    client.execute("BEGIN");
    client.execute(&format!("UPDATE items SET v = 'lost' WHERE k = {there}"));
    deployment.clusters[1].stop("QUIT");
    deployment.clusters[1].start();
    let outcome = client.simple(&format!("UPDATE items SET v = 'lost' WHERE k = {there}"));
    assert!(matches!(outcome.sqlstate(), Some("08006" | "57P01" | "57P02")), "{outcome:?}");
    let mut client = if outcome.status == 'E' { client } else { deployment.connect() };
    let _ = client.simple("ROLLBACK");
    eventually(Duration::from_secs(15), "the shard is used again", || {
        read(&mut client, &there).text().first().is_some_and(|r| r[0] == Some(format!("value {there}")))
    });
    assert_eq!(read(&mut client, &here).ok().value(), format!("value {here}"));
}

#[test]
fn the_proxy_starts_while_a_shard_is_away() {
    if direct() {
        return;
    }
    let mut deployment = deploy(layout(2).own_clusters());
    let (here, away) = (key_on(&deployment, 0), key_on(&deployment, 1));
    deployment.proxy = None;
    deployment.clusters[1].stop("INT");
    deployment.start_proxy();
    let mut client = deployment.connect();
    assert_eq!(read(&mut client, &here).ok().rows.len(), 1);
    assert_eq!(read(&mut client, &away).sqlstate(), Some("08006"));
    deployment.clusters[1].start();
    eventually(Duration::from_secs(15), "the shard is used", || read(&mut client, &away).sqlstate().is_none());
    assert_eq!(client.simple("SELECT count(*) FROM items").ok().value(), "100");
}

/// Runs a statement that does not end, and cancels it.
fn cancelled(deployment: &Deployment, sql: &str) {
    let mut client = deployment.connect();
    client.send(&message::query(sql));
    thread::sleep(Duration::from_millis(400));
    let begin = Instant::now();
    client.cancel();
    let outcome = client.outcomes().pop().unwrap();
    assert_eq!(outcome.sqlstate(), Some("57014"), "{sql}: {outcome:?}");
    assert!(begin.elapsed() < Duration::from_secs(5), "{sql}");
    assert_eq!(client.simple("SELECT count(*) FROM items").ok().value(), "100");
}

#[test]
fn cancelling_reaches_every_shard_at_work() {
    let deployment = deploy(layout(2));
    cancelled(&deployment, "SELECT pg_sleep(30)");
    cancelled(&deployment, "SELECT pg_sleep(30) FROM items WHERE k = 7");
    let long = "FROM items, generate_series(1, 30000) a, generate_series(1, 30000) b";
    cancelled(&deployment, &format!("SELECT count(*) {long}"));
    let running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%30000%' AND pid <> pg_backend_pid()";
    let mut superuser = Client::connect(&deployment.cluster(0).superuser("postgres"));
    eventually(Duration::from_secs(5), "no shard goes on", || superuser.simple(running).ok().value() == "0");
}

#[test]
fn a_cancel_never_hits_the_next_query() {
    if direct() {
        return;
    }
    let deployment = deploy(layout(1).pool("size = 1"));
    let (mut one, mut two) = (deployment.connect(), deployment.connect());
    let (port, process, secret) = (deployment.address().port, one.process, one.secret.clone());
    for round in 0..150u64 {
        one.send(&message::query("SELECT pg_sleep(0.002) FROM items WHERE k = 1"));
        let secret = secret.clone();
        let canceller = thread::spawn(move || {
            thread::sleep(Duration::from_micros(round * 37 % 4000));
            integration_tests::client::cancel(port, process, &secret);
        });
        let outcome = one.outcomes().pop().unwrap();
        assert!(matches!(outcome.sqlstate(), None | Some("57014")), "{outcome:?}");
        assert_eq!(read(&mut two, "2").ok().value(), "value 2");
        canceller.join().unwrap();
        assert_eq!(read(&mut two, "3").ok().value(), "value 3");
    }
}

#[test]
fn a_wrong_cancel_key_cancels_nothing() {
    let deployment = deploy(layout(1));
    let mut client = deployment.connect();
    client.send(&message::query("SELECT pg_sleep(0.7)"));
    thread::sleep(Duration::from_millis(100));
    let mut wrong = client.secret.clone();
    wrong[0] ^= 1;
    integration_tests::client::cancel(deployment.address().port, client.process, &wrong);
    assert_eq!(client.outcomes().pop().unwrap().ok().rows.len(), 1);
}

#[test]
fn a_lost_client_leaves_nothing_behind() {
    let deployment = deploy(layout(2));
    let mut lost = deployment.connect();
    lost.execute("BEGIN");
    lost.execute("INSERT INTO items VALUES (500, 'lost')");
    lost.abandon();
    let mut client = deployment.connect();
    let outcome = client.simple("INSERT INTO items VALUES (500, 'kept')").ok();
    assert_eq!(outcome.tag(), "INSERT 0 1");
    client.execute("DELETE FROM items WHERE k = 500");
}

#[test]
fn settings_do_not_reach_other_clients() {
    let deployment = deploy(layout(2).pool("size = 1"));
    let (mut one, mut two) = (deployment.connect(), deployment.connect());
    one.execute("SET TimeZone = 'Asia/Tokyo'");
    one.execute("SET application_name = 'one'");
    for key in 1..20 {
        let show = format!(
            "SELECT current_setting('TimeZone') || current_setting('application_name') FROM items WHERE k = {key}"
        );
        assert_eq!(one.simple(&show).ok().value(), "Asia/Tokyoone");
        assert_eq!(two.simple(&show).ok().value(), "UTC");
    }
}

#[test]
fn sigterm_lets_transactions_end() {
    if direct() {
        return;
    }
    let mut deployment = deploy(layout(2).listen("drain_timeout = \"20s\""));
    let mut busy = deployment.connect();
    let mut idle = deployment.connect();
    idle.execute("SELECT 1");
    busy.execute("BEGIN");
    busy.execute("INSERT INTO items VALUES (600, 'kept')");
    deployment.proxy().signal("TERM");
    thread::sleep(Duration::from_millis(500));
    let late = Client::try_connect(&deployment.address());
    assert!(late.is_err(), "new clients are refused");
    assert!(deployment.proxy.as_mut().unwrap().runs(), "it waits for the transaction");
    assert!(matches!(idle.until(&["Closed"]).last(), Some(Message::Closed)));
    busy.execute("INSERT INTO items VALUES (601, 'kept')");
    assert_eq!(busy.simple("COMMIT").tag(), "COMMIT");
    assert_eq!(deployment.proxy.as_mut().unwrap().wait(Duration::from_secs(10)), Some(0));
    let mut total = 0;
    for shard in deployment.shards() {
        let count = Client::connect(&shard).simple("SELECT count(*) FROM items WHERE v = 'kept'").ok().value();
        total += count.parse::<i32>().unwrap();
    }
    assert_eq!(total, 2);
}

#[test]
fn sigterm_does_not_wait_for_ever() {
    if direct() {
        return;
    }
    let mut deployment = deploy(layout(1).listen("drain_timeout = \"1s\""));
    let mut busy = deployment.connect();
    busy.execute("BEGIN");
    busy.execute("INSERT INTO items VALUES (600, 'never')");
    deployment.proxy().signal("TERM");
    assert_eq!(deployment.proxy.as_mut().unwrap().wait(Duration::from_secs(10)), Some(0));
    let count = Client::connect(&deployment.shard(0)).simple("SELECT count(*) FROM items WHERE k = 600").ok().value();
    assert_eq!(count, "0");
}

#[test]
fn sighup_reads_the_configuration_again() {
    if direct() {
        return;
    }
    let deployment = deploy(layout(2));
    let proxy = deployment.proxy();
    let mut client = deployment.connect();
    client.execute("BEGIN");
    let good = proxy.config();
    let other = Address::new(proxy.port, "other", "shop").password("new");
    assert!(Client::try_connect(&other).is_err());
    // A bad file is refused with the reason, and the old one stays.
    proxy.write_config(&good.replace("shard_map = \"keys\"", "shard_map = \"no_such_map\""));
    proxy.signal("HUP");
    proxy.wait_for_log("no_such_map", Duration::from_secs(5));
    assert_eq!(read(&mut deployment.connect(), "1").ok().value(), "value 1");
    // A good one takes effect without dropping anyone.
    let user = "[[user]]\nname = \"other\"\npassword = \"new\"\nserver_user = \"app\"\nserver_password = \"app\"\n";
    proxy.write_config(&format!("{good}\n{user}"));
    proxy.signal("HUP");
    eventually(Duration::from_secs(5), "the new user logs in", || Client::try_connect(&other).is_ok());
    assert_eq!(read(&mut Client::connect(&other), "1").ok().value(), "value 1");
    assert_eq!(read(&mut client, "1").ok().value(), "value 1");
    assert_eq!(client.simple("COMMIT").tag(), "COMMIT");
}

#[test]
fn too_many_clients_are_refused() {
    if direct() {
        return;
    }
    let deployment = deploy(layout(1).listen("max_clients = 3"));
    let clients: Vec<Client> = (0..3).map(|_| deployment.connect()).collect();
    let error = Client::try_connect(&deployment.address()).err().expect("the fourth is refused");
    assert_eq!(error.sqlstate(), "53300", "{error:?}");
    drop(clients);
    eventually(Duration::from_secs(5), "there is room again", || Client::try_connect(&deployment.address()).is_ok());
}

#[test]
fn nothing_large_before_login() {
    if direct() {
        return;
    }
    let user = "name = \"secret\"\npassword = \"a password\"\nserver_user = \"app\"\nserver_password = \"app\"";
    let deployment = deploy(layout(1).user(user).listen("login_timeout = \"1s\""));
    let mut client = Client::open(deployment.address().port).unwrap();
    client.send(&message::startup(PROTOCOL_3_0, &[("user", "secret"), ("database", "shop")]));
    assert_eq!(client.receive().name(), "AuthenticationSASL");
    client.send(&message::frame(b'p', &vec![0; 10_000_000]));
    assert_eq!(client.until(&["Closed"]).last(), Some(&Message::Closed));
    // A client that says nothing is closed after the time-out.
    let mut silent = Client::open(deployment.address().port).unwrap();
    let begin = Instant::now();
    assert_eq!(silent.until(&["Closed"]).last(), Some(&Message::Closed));
    assert!(begin.elapsed() < Duration::from_secs(6));
}

#[test]
fn clients_log_in() {
    if direct() {
        return;
    }
    // The verifier of "stored", as PostgreSQL makes it.
    let cluster = Cluster::new();
    cluster.execute("postgres", "CREATE ROLE stored LOGIN PASSWORD 'stored'");
    let sql = "SELECT rolpassword FROM pg_authid WHERE rolname = 'stored'";
    let verifier = Client::connect(&cluster.superuser("postgres")).simple(sql).ok().value();
    assert!(verifier.starts_with("SCRAM-SHA-256$"));
    let server = "server_user = \"app\"\nserver_password = \"app\"";
    let layout = layout(1)
        .user(&format!("name = \"plain\"\npassword = \"a pass'word\"\n{server}"))
        .user(&format!("name = \"stored\"\npassword = \"{verifier}\"\n{server}"));
    let deployment = deploy(layout);
    let login = |user: &str, password: &str, database: &str| {
        Client::try_connect(&Address::new(deployment.address().port, user, database).password(password))
    };
    for (user, password) in [("plain", "a pass'word"), ("stored", "stored"), ("app", "whatever")] {
        let mut client = login(user, password, "shop").unwrap_or_else(|e| panic!("{user}: {e:?}"));
        assert_eq!(read(&mut client, "1").ok().value(), "value 1");
    }
    for (user, password, database, sqlstate) in [
        ("plain", "wrong", "shop", "28P01"),
        ("stored", "", "shop", "28P01"),
        ("nobody", "x", "shop", "28P01"),
        ("plain", "a pass'word", "elsewhere", "3D000"),
    ] {
        let error = login(user, password, database).err().unwrap_or_else(|| panic!("{user} {password} {database}"));
        assert_eq!(error.sqlstate(), sqlstate, "{user} {password} {database}: {error:?}");
        assert_eq!(error.get('S'), "FATAL");
    }
    let log = deployment.proxy().log();
    assert!(!log.contains("a pass'word") && !log.contains(&verifier), "secrets in the log");
}

#[test]
fn logs_in_to_servers_by_every_method() {
    if direct() {
        return;
    }
    let hba = "host all postgres,app 127.0.0.1/32 trust\nhost all md5_user 127.0.0.1/32 md5\n\
               host all scram_user 127.0.0.1/32 scram-sha-256\nhost all plain_user 127.0.0.1/32 password\n\
               host all trusted_user 127.0.0.1/32 trust\n";
    let users = ["md5_user", "scram_user", "plain_user", "trusted_user"];
    let mut wanted = layout(1);
    for user in users {
        wanted = wanted.user(&format!("name = \"{user}\"\npassword = \"pw of {user}\""));
    }
    wanted = wanted.user("name = \"wrong\"\nauth = \"trust\"\nserver_user = \"scram_user\"\nserver_password = \"no\"");
    let mut deployment = Deployment::clusters(wanted, Cluster::builder().hba(hba));
    for user in users {
        let encryption = if user == "md5_user" { "md5" } else { "scram-sha-256" };
        let sql = format!("SET password_encryption = '{encryption}'; CREATE ROLE {user} LOGIN PASSWORD 'pw of {user}'");
        deployment.cluster(0).execute("postgres", &sql);
    }
    deployment.start_proxy();
    let port = deployment.address().port;
    for user in users {
        let mut client = Client::connect(&Address::new(port, user, "shop").password(&format!("pw of {user}")));
        assert_eq!(client.simple("SELECT current_user").ok().value(), user);
    }
    // The server's refusal reaches the client, with a login failure's class.
    let wrong = Client::try_connect(&Address::new(port, "wrong", "shop"));
    let sqlstate = match wrong {
        Ok(mut client) => client.simple("SELECT 1").sqlstate().map(str::to_string),
        Err(error) => Some(error.sqlstate().to_string()),
    };
    assert!(sqlstate.as_deref().is_some_and(|s| s.starts_with("28") || s == "08006"), "{sqlstate:?}");
}

/// A certificate authority's certificate, and a certificate with key for localhost, as PEM.
fn certificates() -> (String, String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.distinguished_name.push(rcgen::DnType::CommonName, "Shardway's tests");
    let authority = parameters.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(parameters, key);
    let own_key = rcgen::KeyPair::generate().unwrap();
    let names = vec!["localhost".to_string(), "127.0.0.1".to_string()];
    let own = rcgen::CertificateParams::new(names).unwrap().signed_by(&own_key, &issuer).unwrap();
    (authority.pem(), own.pem(), own_key.serialize_pem())
}

#[test]
fn tls_on_both_sides() {
    if direct() {
        return;
    }
    let (authority, certificate, key) = certificates();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    fs::write(path("ca.pem"), &authority).unwrap();
    fs::write(path("server.pem"), &certificate).unwrap();
    fs::write(path("server.key"), &key).unwrap();
    let builder = Cluster::builder()
        .hba("hostssl all app 127.0.0.1/32 trust\nhostssl all bound 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust\n")
        .file("server.crt", &certificate)
        .file("server.key", &key)
        .setting("ssl", "on");
    let tls = format!(
        "[listen.tls]\ncertificate = \"{}\"\nkey = \"{}\"\nrequired = true",
        path("server.pem"),
        path("server.key")
    );
    let wanted = layout(1).listen(&tls).url_suffix(&format!("?sslmode=verify-full&sslrootcert={}", path("ca.pem")));
    let mut deployment = Deployment::clusters(wanted.user("name = \"bound\"\npassword = \"to it\""), builder);
    deployment.cluster(0).execute("postgres", "CREATE ROLE bound LOGIN PASSWORD 'to it'");
    deployment.start_proxy();
    // Without TLS nobody gets in.
    let error = Client::try_connect(&deployment.address()).err().expect("TLS is required");
    assert_eq!(error.sqlstate(), "28000", "{error:?}");
    let psql = |mode: &str, authority: &str| {
        let address = deployment.address();
        let target = format!(
            "host=localhost hostaddr=127.0.0.1 port={} user=app dbname=shop sslmode={mode} sslrootcert={authority}",
            address.port
        );
        let sql = "SELECT ssl, version LIKE 'TLSv1._' FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        std::process::Command::new("psql").args(["-X", "-At", "-d", &target, "-c", sql]).output().unwrap()
    };
    for mode in ["require", "verify-ca", "verify-full"] {
        let output = psql(mode, &path("ca.pem"));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "t|t\n", "{mode}: {}", said(&output));
    }
    // A login that is bound to our certificate, and TLS without asking for it first: psycopg brings a newer libpq.
    let script =
        "import psycopg, sys\nprint(psycopg.connect(sys.argv[1]).execute('SELECT current_user').fetchone()[0])";
    let python = |options: &str| {
        let target = format!(
            "host=localhost hostaddr=127.0.0.1 port={} user=bound password='to it' dbname=shop sslmode=verify-full sslrootcert={} {options}",
            deployment.address().port,
            path("ca.pem")
        );
        let program = tools::local().join("venv/bin/python");
        std::process::Command::new(program).args(["-c", script, &target]).output().unwrap()
    };
    for options in
        ["channel_binding=require", "channel_binding=disable", "sslnegotiation=direct channel_binding=require"]
    {
        let output = python(options);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "bound\n", "{options}: {}", said(&output));
    }
    // Another authority did not sign it.
    fs::write(path("other.pem"), certificates().0).unwrap();
    assert!(!psql("verify-full", &path("other.pem")).status.success());
}

#[test]
fn a_server_with_a_wrong_certificate_is_not_used() {
    if direct() {
        return;
    }
    let (_, certificate, key) = certificates();
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other.pem");
    fs::write(&other, certificates().0).unwrap();
    let builder = Cluster::builder().file("server.crt", &certificate).file("server.key", &key).setting("ssl", "on");
    let suffix = format!("?sslmode=verify-ca&sslrootcert={}", other.to_str().unwrap());
    let deployment = Deployment::on(layout(1).url_suffix(&suffix), builder);
    let sqlstate = match Client::try_connect(&deployment.address()) {
        Ok(mut client) => client.simple("SELECT 1").sqlstate().map(str::to_string),
        Err(error) => Some(error.sqlstate().to_string()),
    };
    assert_eq!(sqlstate.as_deref(), Some("08006"));
}

#[test]
fn a_bad_configuration_is_refused_with_all_mistakes() {
    if direct() {
        return;
    }
    let shards = [Address::new(1, "app", "shop0")];
    let text = Proxy::refused(|port, http| layout(1).pool("sise = 3\nmode = \"statement\"").toml(&shards, port, http));
    for part in ["sise", "statement", "transaction", "session"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}
