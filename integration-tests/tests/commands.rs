//! The commands besides `run`: `check`, `route`, `--version`, `--help`; and what a reload does to clients.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::postgres::Cluster;
use integration_tests::proxy;
use integration_tests::proxy::root;
use integration_tests::tools;
use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// What a command said, and how it ended.
struct Said {
    code: i32,
    out: String,
    err: String,
}

fn shardway(arguments: &[&str]) -> Said {
    let mut command = Command::new(proxy::binary());
    command.args(arguments).current_dir(root());
    let output = tools::output_within(&mut command, Duration::from_secs(30)).unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Said { code: output.status.code().unwrap_or(-1), out: text(&output.stdout), err: text(&output.stderr) }
}

/// Runs a command on a configuration file with this text.
fn with_config(arguments: &[&str], text: &str) -> Said {
    let file = tempfile::NamedTempFile::with_suffix(".toml").unwrap();
    fs::write(file.path(), text).unwrap();
    let (command, rest) = arguments.split_first().unwrap();
    let mut all = vec![*command, "--config", file.path().to_str().unwrap()];
    all.extend(rest);
    shardway(&all)
}

fn layout(shards: usize) -> Layout {
    Layout::new(shards).hash_map("keys", &["bigint"]).sharded("public.items", &["k"]).reference("public.words")
}

/// Shards with the tables of the layout, and no proxy.
fn shards(layout: Layout) -> Deployment {
    let deployment = Deployment::clusters(layout, Cluster::builder());
    deployment.execute_on_shards("CREATE TABLE items (k bigint, v text)");
    deployment.execute_on_shards("CREATE TABLE words (w text)");
    deployment
}

fn toml(deployment: &Deployment) -> String {
    deployment.layout.toml(&deployment.shards(), 6432, 9632)
}

#[test]
fn version_and_help() {
    let version = shardway(&["--version"]);
    assert_eq!((version.code, version.out.trim()), (0, concat!("shardway ", "0.1.0")));
    let help = shardway(&["--help"]);
    assert_eq!(help.code, 0);
    for command in ["run", "check", "demo", "route"] {
        assert!(help.out.contains(&format!("  {command} ")), "{}", help.out);
    }
    let unknown = shardway(&["walk"]);
    assert!(unknown.code == 2 && unknown.err.contains("walk"), "{}", unknown.err);
}

#[test]
fn check_tells_every_mistake_with_line_key_and_choices() {
    let text = "[listen]\nadress = \"127.0.0.1:1\"\n[pool]\nmode = \"statement\"\nsize = 0\n[[user]]\nname = \"app\"\n\
                [database.shop]\n[[database.shop.shard]]\nname = \"s0\"\nprimary = \"mysql://x\"\n\
                [[database.shop.shard_map]]\nname = \"tenants\"\nkey = [\"money\"]\nfunction = \"modulo\"\n\
                [[database.shop.table]]\nname = \"orders\"\nshard_map = \"tenant\"\nkey = [\"a\"]\n";
    let said = with_config(&["check"], text);
    assert_eq!(said.code, 1);
    let expected: [&[&str]; 9] = [
        &[":1: listen.address: missing"],
        &[":2: listen.adress: unknown key", "did you mean \"address\""],
        &[":4: pool.mode: ", "\"statement\"", "transaction, session"],
        &[":5: pool.size: ", "1 to 100000"],
        &[":6: user[0].password: missing", "trust"],
        &[":11: database.shop.shard[0].primary: ", "postgresql://"],
        &[":14: database.shop.shard_map[0].key[0]: \"money\"", "bigint", "uuid"],
        &[":15: database.shop.shard_map[0].function: ", "hash, range, list"],
        &[":18: database.shop.table[0].shard_map: ", "\"tenants\""],
    ];
    let lines: Vec<&str> = said.err.lines().collect();
    for parts in expected {
        assert!(lines.iter().any(|l| parts.iter().all(|p| l.contains(p))), "{parts:?} is not told in\n{}", said.err);
    }
    assert_eq!(lines.len(), expected.len(), "{}", said.err);
    let broken = with_config(&["check"], "[listen]\naddress = [");
    assert!(broken.code == 1 && broken.err.contains(":2: "), "{}", broken.err);
    let absent = shardway(&["check", "--config", "/no/such/file.toml"]);
    assert!(absent.code == 1 && absent.err.contains("/no/such/file.toml"), "{}", absent.err);
}

#[test]
fn check_offline_reads_every_example() {
    for entry in fs::read_dir(root().join("config")).unwrap().flatten() {
        let path = entry.path();
        let is_proxy = fs::read_to_string(&path).is_ok_and(|t| t.lines().any(|l| l.starts_with("primary")));
        // The files that reference.toml names are the reader's own.
        if is_proxy && path.file_name() != Some("reference.toml".as_ref()) {
            let said = shardway(&["check", "--offline", "--config", path.to_str().unwrap()]);
            assert!(said.code == 0 && said.out.contains("in order"), "{path:?}: {}", said.err);
        }
    }
}

#[test]
fn check_looks_at_the_shards_and_changes_nothing() {
    if direct() {
        return;
    }
    let deployment = shards(layout(2));
    let good = toml(&deployment);
    let said = with_config(&["check"], &good);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    assert!(said.out.contains("2 shards") && said.out.contains("in order"), "{}", said.out);
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'shardway'";
    for shard in deployment.shards() {
        assert_eq!(Client::connect(&shard).simple(schemas).ok().value(), "0", "check has written");
    }
    // A shard that is away.
    let second = deployment.shards()[1].clone();
    let away = good.replace(&format!("/{}\"", second.database), "/nowhere\"");
    let said = with_config(&["check"], &away);
    assert!(said.code == 1 && said.err.contains("shard \"s1\"") && said.err.contains("nowhere"), "{}", said.err);
    // A user whose login a shard refuses.
    let user = "[[user]]\nname = \"ghost\"\npassword = \"boo\"\n";
    let said = with_config(&["check"], &format!("{good}\n{user}"));
    assert!(said.code == 1 && said.err.contains("ghost"), "{}", said.err);
    // A table whose key cannot be.
    let said = with_config(&["check"], &good.replace("key = [\"k\"]", "key = [\"v\"]"));
    assert!(said.code == 1 && said.err.contains("items") && said.err.contains('v'), "{}", said.err);
}

#[test]
fn check_finds_misplaced_rows() {
    if direct() {
        return;
    }
    let deployment = shards(layout(2));
    // Both have key 1: one of them is wrong.
    deployment.execute_on_shards("INSERT INTO items VALUES (1, 'one')");
    for arguments in [&["check"][..], &["check", "--verify"]] {
        let said = with_config(arguments, &toml(&deployment));
        assert!(said.code == 1 && said.err.contains("\"items\""), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn route_prints_plan_and_shards() {
    if direct() {
        return;
    }
    let deployment = shards(layout(3));
    let good = toml(&deployment);
    let said = with_config(&["route", "SELECT v FROM items WHERE k = 7"], &good);
    assert!(said.code == 0 && said.out.contains("route keys: items.k = 7"), "{}{}", said.out, said.err);
    let shard = said.out.lines().find_map(|l| l.strip_prefix("shard: s")).expect("a shard").parse::<usize>().unwrap();
    // It is where the proxy puts the row.
    let mut deployment = deployment;
    deployment.start_proxy();
    deployment.connect().execute("INSERT INTO items VALUES (7, 'seven')");
    let count = "SELECT count(*) FROM items WHERE k = 7";
    assert_eq!(Client::connect(&deployment.shard(shard)).simple(count).ok().value(), "1");
    for (sql, part) in [
        ("SELECT count(*) FROM items", "shards: s0, s1, s2"),
        ("SELECT v FROM items WHERE k = $1", "as the parameters say"),
        ("SELECT * FROM words", "shard: any"),
        ("SELECT v FROM items i WHERE EXISTS (SELECT FROM items j WHERE j.k = i.k + 1)", "0A000"),
        ("SELECT 1; SELECT 2", "-- SELECT 2"),
    ] {
        let said = with_config(&["route", sql], &good);
        assert!(said.code == 0 && said.out.contains(part), "{sql}: {}{}", said.out, said.err);
    }
    let said = with_config(&["route", "SELECT * FROM no_such"], &good);
    assert!(said.code == 1 && said.err.contains("no_such"), "{}", said.err);
    // Some shards away: planned with what the others have. All away: said so.
    let last = deployment.shards()[2].database.clone();
    let away = good.replace(&format!("/{last}\""), "/nowhere\"");
    let said = with_config(&["route", "SELECT v FROM items WHERE k = 7"], &away);
    assert!(
        said.code == 0 && said.out.contains("shard: s") && said.err.contains("nowhere"),
        "{}{}",
        said.out,
        said.err
    );
    let said = with_config(&["route", "SELECT 1"], &good.replace("/shop", "/nowhere"));
    assert!(said.code == 1 && said.err.contains("no shard answers"), "{}{}", said.out, said.err);
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(8);
    while !holds() {
        assert!(Instant::now() < end, "{what}: not in time");
        thread::sleep(Duration::from_millis(30));
    }
}

/// Replaces a text in the proxy's configuration file and has it read again.
fn reload(deployment: &Deployment, from: &str, to: &str) {
    let proxy = deployment.proxy();
    let old = proxy.config();
    assert!(old.contains(from), "{from} is not in\n{old}");
    proxy.write_config(&old.replace(from, to));
    proxy.signal("HUP");
}

#[test]
fn a_reload_reaches_clients_that_are_connected() {
    if direct() {
        return;
    }
    let mut deployment = shards(layout(2));
    deployment.start_proxy();
    let mut idle = deployment.connect();
    let mut busy = deployment.connect();
    idle.execute("PREPARE p AS SELECT count(*) FROM items WHERE k = $1");
    busy.execute("BEGIN");
    busy.execute("INSERT INTO items VALUES (1, 'one')");
    // Another table, sharded by the same map.
    let more = "[[database.shop.table]]\nname = \"public.more\"\nshard_map = \"keys\"\nkey = [\"k\"]\n\n";
    let first = "[[database.shop.table]]\nname = \"public.words\"";
    reload(&deployment, first, &format!("{more}{first}"));
    deployment.proxy().wait_for_log("configuration reloaded", Duration::from_secs(8));
    busy.execute("INSERT INTO items VALUES (1, 'two')");
    assert_eq!(busy.simple("COMMIT").tag(), "COMMIT");
    idle.execute("CREATE TABLE more (k bigint, v text)");
    for key in 1..=20 {
        busy.execute(&format!("INSERT INTO more VALUES ({key}, 'new')"));
    }
    for shard in deployment.shards() {
        let count = Client::connect(&shard).simple("SELECT count(*) FROM more").ok().value();
        assert!(count != "0" && count != "20", "{count} of 20 rows on one shard");
    }
    assert_eq!(idle.simple("SELECT count(*) FROM more").ok().value(), "20");
    assert_eq!(idle.simple("EXECUTE p(1)").ok().value(), "2");
}

#[test]
fn a_reload_that_hides_rows_is_refused() {
    if direct() {
        return;
    }
    let mut deployment = shards(layout(2));
    deployment.start_proxy();
    let mut client = deployment.connect();
    for key in 1..=20 {
        client.execute(&format!("INSERT INTO items VALUES ({key}, 'here')"));
    }
    let old = deployment.proxy().config();
    reload(
        &deployment,
        "function = \"hash\"",
        "function = \"hash\"\nplacement = [{ buckets = \"0-4095\", shard = \"s1\" }]",
    );
    let proxy = deployment.proxy();
    proxy.wait_for_log("configuration refused", Duration::from_secs(8));
    assert!(proxy.log().contains("items"), "the table is named");
    assert_eq!(client.simple("SELECT count(*) FROM items").ok().value(), "20");
    assert_eq!(deployment.connect().simple("SELECT v FROM items WHERE k = 3").ok().value(), "here");
    // And a bad one, with the reason; then the old one again.
    proxy.write_config(&old.replace("function = \"hash\"", "function = \"hsah\""));
    proxy.signal("HUP");
    proxy.wait_for_log("hsah", Duration::from_secs(8));
    proxy.write_config(&old);
    proxy.signal("HUP");
    proxy.wait_for_log("configuration reloaded", Duration::from_secs(8));
    assert_eq!(client.simple("SELECT count(*) FROM items").ok().value(), "20");
}

#[test]
fn a_reload_changes_users_and_limits() {
    if direct() {
        return;
    }
    let mut deployment = shards(layout(1).listen("max_clients = 1"));
    deployment.start_proxy();
    // The harness's own look whether it listens may still count.
    let mut client = None;
    eventually("there is room for one", || {
        client = Client::try_connect(&deployment.address()).ok();
        client.is_some()
    });
    assert_eq!(Client::try_connect(&deployment.address()).err().expect("no room").sqlstate(), "53300");
    reload(&deployment, "max_clients = 1", "max_clients = 3");
    eventually("there is room for more", || Client::try_connect(&deployment.address()).is_ok());
    assert_eq!(client.unwrap().simple("SELECT 1").ok().value(), "1");
}
