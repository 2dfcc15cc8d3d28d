//! Small files → what is told about them, and what is read from right ones.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::Config;
use super::MapFunction;
use super::RunsOn;
use super::Secret;
use super::TablePlace;
use super::UserAuth;
use super::load;
use crate::value::Datum;
use std::io;
use std::path::Path;
use std::time::Duration;

const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

fn env(name: &str) -> Option<String> {
    (name == "SECRET").then(|| "from env".to_owned())
}

fn read(path: &Path) -> io::Result<String> {
    if path == Path::new("/secret") { Ok("from file\n".to_owned()) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn told(text: &str) -> Vec<String> {
    match load(text, "f", &env, &read) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(ToString::to_string).collect(),
    }
}

fn good(text: &str) -> Config {
    load(text, "f", &env, &read).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// 12 lines of a right file with two shards; what a case adds begins on line 13, in the database's table.
const BASE: &str = r#"[listen]
address = "127.0.0.1:6432"
[[user]]
name = "app"
password = "secret"
[[database.d.shard]]
name = "s0"
primary = "postgresql://app:hush@h0/d"
[[database.d.shard]]
name = "s1"
primary = "postgresql://app:hush@h1/d"
[database.d]
"#;

fn in_database(text: &str) -> String {
    // [database.d] must come before its arrays of tables only for readers; TOML allows it after them.
    format!("{BASE}{text}")
}

fn in_map(text: &str) -> String {
    in_database(&format!("[[database.d.shard_map]]\n{text}"))
}

/// Each: a file, and the beginnings of all mistakes in order.
fn check(cases: &[(String, &[&str])]) {
    for (text, expected) in cases {
        let told = told(text);
        assert!(
            told.len() == expected.len() && told.iter().zip(*expected).all(|(told, begin)| told.starts_with(begin)),
            "{text}\n got: {told:#?}\nwant: {expected:#?}"
        );
        assert!(!told.iter().any(|line| line.contains("hush")), "{told:?}");
    }
}

#[test]
fn top_level_mistakes() {
    check(&[
        (
            String::new(),
            &[
                "f:1: database: missing: expected at least one [database.NAME]",
                "f:1: listen: missing: expected [listen]",
                "f:1: user: missing: expected at least one [[user]]",
            ],
        ),
        ("[listen\naddress = 1".to_owned(), &["f:1: "]),
        (
            format!("{BASE}[pool]\nmod = \"session\"\nsize = \"many\"\nmin_idle = 200\nwait_timeout = \"5 parsecs\"\n"),
            &[
                "f:14: pool.mod: unknown key; did you mean \"mode\"? (choices: connect_timeout, idle_timeout,",
                "f:15: pool.size: expected an integer, not a string",
                "f:16: pool.min_idle: expected an integer from 0 to 20, not 200",
                "f:17: pool.wait_timeout: expected a duration such as \"500ms\", \"5s\" or \"1m\", not \"5 parsecs\"",
            ],
        ),
        (
            format!("{BASE}[pool]\nmode = \"statement\"\nidle_timeout = \"off\"\nmax_lifetime = \"0s\"\n"),
            &[
                "f:14: pool.mode: unknown value \"statement\"; choices: transaction, session",
                "f:16: pool.max_lifetime: expected a duration longer than 0",
            ],
        ),
        (
            format!("{BASE}[log]\nformat = \"jsn\"\nlevel = \"loud\"\n"),
            &[
                "f:14: log.format: unknown value \"jsn\"; did you mean \"json\"? (choices: text, json)",
                "f:15: log.level: unknown value \"loud\"; choices: error, warn, info, debug, trace",
            ],
        ),
        (format!("{BASE}[listn]\n"), &["f:13: listn: unknown key; did you mean \"listen\"? (choices: database,"]),
    ]);
}

#[test]
fn listen_mistakes() {
    let rest = BASE.replace("[listen]\naddress = \"127.0.0.1:6432\"\n", "");
    check(&[
        (format!("listen = 5\n{rest}"), &["f:1: listen: expected a table, not an integer"]),
        (format!("[listen]\n{rest}"), &["f:1: listen.address: missing"]),
        (
            format!("[listen]\naddress = \"localhost:6432\"\n{rest}"),
            &["f:2: listen.address: expected IP:PORT, such as"],
        ),
        (
            format!("[listen]\naddress = \"0.0.0.0:1\"\nhttp = \"127.0.0.1:1\"\n[listen.tls]\nkey = \"k\"\n{rest}"),
            &[
                "f:3: listen.http: 127.0.0.1:1 is taken by listen.address already",
                "f:4: listen.tls.certificate: missing",
            ],
        ),
    ]);
}

#[test]
fn user_mistakes() {
    check(&[
        (
            format!("{BASE}[[user]]\nname = \"app\"\nauth = \"trust\"\n"),
            &["f:14: user[1].name: user \"app\" is there already, on line 4"],
        ),
        (format!("{BASE}[[user]]\nname = \"b\"\n"), &["f:13: user[1].password: missing: expected a password, a SCRAM"]),
        (
            format!("{BASE}[[user]]\npassword = 5\n"),
            &["f:13: user[1].name: missing", "f:14: user[1].password: expected a string, not an integer"],
        ),
        (
            format!("{BASE}[[user]]\nname = \"b\"\nauth = \"trust\"\npassword = \"hush\"\n"),
            &["f:16: user[1].password: auth = \"trust\" asks for no password"],
        ),
        (
            format!("{BASE}[[user]]\nname = \"b\"\npassword = \"env:NONE\"\nserver_password = \"file:/none\"\n"),
            &[
                "f:15: user[1].password: the environment variable NONE is not set",
                "f:16: user[1].server_password: cannot read /none: entity not found",
            ],
        ),
        (
            format!("{BASE}[[user]]\nname = \"b\"\npassword = \"SCRAM-SHA-256$4096:hush\"\n"),
            &["f:15: user[1].password: not a verifier as PostgreSQL stores it"],
        ),
        (
            format!("{BASE}[[user]]\nname = \"b\"\npassword = \"md500112233445566778899aabbccddeeff\"\n"),
            &["f:15: user[1].password: an md5 hash cannot serve SCRAM-SHA-256"],
        ),
    ]);
}

#[test]
fn shard_and_database_mistakes() {
    let head = BASE.split("[[database").next().unwrap();
    let shard = |name: &str, url: &str| format!("[[database.d.shard]]\nname = \"{name}\"\nprimary = \"{url}\"\n");
    check(&[
        (
            format!("{head}[database.d]\n"),
            &["f:6: database.d.shard: missing: expected at least one [[database.d.shard]]"],
        ),
        (
            format!("{head}{}{}", shard("a", "postgresql://u:hush@h/d"), shard("a", "postgresql://u:hush@h/d")),
            &[
                "f:9: database.d.shard[1].primary: the same database as database.d.shard[0] on line 6",
                "f:10: database.d.shard[1].name: shard \"a\" is there already, on line 7",
            ],
        ),
        (
            format!("{head}{}", shard("a b", "mysql://h/d")),
            &[
                "f:7: database.d.shard[0].name: expected 1 to 63 letters",
                "f:8: database.d.shard[0].primary: expected \"postgresql://",
            ],
        ),
        (
            format!("{head}{}", shard("a", "postgresql://h/d")),
            &["f:8: database.d.shard[0].primary: no login for the proxy itself"],
        ),
        (
            format!("{head}{}replicas = [\"postgresql://h/d\", \"x\"]\n", shard("a", "postgresql://u@h/d")),
            &["f:9: database.d.shard[0].replicas[1]: expected \"postgresql://"],
        ),
        (
            format!("{head}{}", shard("a", "postgresql://u@h/d")).replace("database.d", "database.shardway"),
            &["f:6: database.shardway: the name \"shardway\" belongs to the console"],
        ),
        (
            in_database("unlisted_tables = \"singel\"\ncontrol = \":hush\"\nmerge_memory = \"lots\"\n"),
            &[
                "f:13: database.d.unlisted_tables: unknown value \"singel\"; did you mean \"single\"?",
                "f:14: database.d.control: expected \"user:password\"",
                "f:15: database.d.merge_memory: expected a size such as",
            ],
        ),
    ]);
}

#[test]
fn hash_map_mistakes() {
    let hash = |text: &str| in_map(&format!("name = \"m\"\nkey = [\"bigint\"]\nfunction = \"hash\"\n{text}"));
    check(&[
        (
            in_map(""),
            &[
                "f:13: database.d.shard_map[0].function: missing",
                "f:13: database.d.shard_map[0].key: missing",
                "f:13: database.d.shard_map[0].name: missing",
            ],
        ),
        (
            in_map("name = \"m\"\nkey = [\"float8\"]\nfunction = \"hsh\"\n"),
            &[
                "f:15: database.d.shard_map[0].key[0]: \"float8\" cannot be the type of a shard key; choices: smallint, integer,",
                "f:16: database.d.shard_map[0].function: unknown value \"hsh\"; did you mean \"hash\"?",
            ],
        ),
        (
            in_map("name = \"m\"\nkey = []\nfunction = \"hash\"\n"),
            &["f:15: database.d.shard_map[0].key: expected the types of 1 to 4 key columns"],
        ),
        (hash("buckets = 1000\n"), &["f:17: database.d.shard_map[0].buckets: expected a power of two, not 1000"]),
        (hash("buckets = 0\n"), &["f:17: database.d.shard_map[0].buckets: expected an integer from 1 to 65536"]),
        (hash("buckets = 1\n"), &["f:13: database.d.shard_map[0].buckets: 1 buckets are too few for 2 shards"]),
        (
            hash(
                "buckets = 8\nplacement = [{ buckets = \"0-3\", shard = \"s0\" }, { buckets = \"3-5\", shard = \"s1\" }]\n",
            ),
            &[
                "f:13: database.d.shard_map[0].placement: these buckets have no shard: 6-7",
                "f:18: database.d.shard_map[0].placement[1].buckets: some of the buckets 3-5 have a shard already",
            ],
        ),
        (
            hash(
                "buckets = 8\nplacement = [\n{ buckets = \"0-8\", shard = \"s0\" },\n{ buckets = \"x\", shard = \"s3\" }]\n",
            ),
            &[
                "f:19: database.d.shard_map[0].placement[0].buckets: expected \"FIRST-LAST\" or one bucket, within 0-7",
                "f:20: database.d.shard_map[0].placement[1].buckets: expected \"FIRST-LAST\"",
                "f:20: database.d.shard_map[0].placement[1].shard: unknown shard \"s3\"; did you mean \"s0\"? (choices: s0, s1)",
            ],
        ),
        (
            hash(
                "default = \"s0\"\npins = [{ key = [7], shard = \"s0\" }, { key = 7, shard = \"s1\" }, { key = [\"7\"], shard = \"s1\" }]\n",
            ),
            &[
                "f:17: database.d.shard_map[0].default: `default` belongs to function = \"list\", this one is \"hash\"",
                "f:18: database.d.shard_map[0].pins[1].key: 7 is pinned already on line 18",
                "f:18: database.d.shard_map[0].pins[2].key: expected an integer for the key type bigint",
            ],
        ),
    ]);
}

#[test]
fn range_and_list_map_mistakes() {
    let range = |key: &str, text: &str| in_map(&format!("name = \"m\"\nkey = [{key}]\nfunction = \"range\"\n{text}"));
    let list = |text: &str| in_map(&format!("name = \"m\"\nkey = [\"text\"]\nfunction = \"list\"\n{text}"));
    check(&[
        (range("\"date\"", ""), &["f:13: database.d.shard_map[0].ranges: missing"]),
        (
            range(
                "\"date\"",
                "ranges = [\n{ to = \"2026-02-01\", shard = \"s0\" },\n{ from = \"2026-01-01\", shard = \"s1\" } ]\n",
            ),
            &["f:19: database.d.shard_map[0].ranges[1]: overlaps database.d.shard_map[0].ranges[0] on line 18"],
        ),
        (
            range("\"date\"", "ranges = [{ from = \"2026-02-01\", to = \"2026-02-01\", shard = \"s0\" }]\n"),
            &["f:17: database.d.shard_map[0].ranges[0]: the range is empty"],
        ),
        (
            range("\"date\"", "ranges = [{ from = \"soon\", to = 5, shard = \"s0\" }]\n"),
            &[
                "f:17: database.d.shard_map[0].ranges[0].from: expected a date such as \"2026-01-31\", not \"soon\"",
                "f:17: database.d.shard_map[0].ranges[0].to: expected a string for the key type date",
            ],
        ),
        (
            range("\"text\", \"bigint\"", "ranges = [{ from = [\"a\", 1, 2], shard = \"s0\" }]\n"),
            &["f:17: database.d.shard_map[0].ranges[0].from: expected 1 to 2 values (of the first key columns), not 3"],
        ),
        (
            range("\"smallint\"", "ranges = [{ from = 40000, shard = \"s0\" }, { from = 1.5, shard = \"s0\" }]\n"),
            &[
                "f:17: database.d.shard_map[0].ranges[0].from: value \"40000\" is out of range for type smallint",
                "f:17: database.d.shard_map[0].ranges[1].from: expected a string or an integer",
            ],
        ),
        (
            list("lists = [\n{ values = [\"a\", \"b\"], shard = \"s0\" },\n{ values = [\"b\"], shard = \"s1\" } ]\n"),
            &[
                "f:19: database.d.shard_map[0].lists[1].values[0]: \"b\" is listed already at database.d.shard_map[0].lists[0].values[1] on line 18",
            ],
        ),
        (
            list(
                "lists = [{ values = [\"eu\"], then = { function = \"hash\", shards = [\"s0\"] } }]\ndefault = \"s7\"\n",
            ),
            &[
                "f:17: database.d.shard_map[0].lists[0].then: the values name every key column: none is left",
                "f:18: database.d.shard_map[0].default: unknown shard \"s7\"",
            ],
        ),
    ]);
}

#[test]
fn mistakes_on_the_second_level() {
    let list = |then: &str| {
        let key = "name = \"m\"\nkey = [\"text\", \"bigint\"]\nfunction = \"list\"\n";
        in_map(&format!("{key}lists = [\n{{ values = [\"eu\"], {then} }} ]\n"))
    };
    let then = |inner: &str| list(&format!("then = {{ {inner} }}"));
    check(&[
        (
            then("function = \"hash\""),
            &["f:18: database.d.shard_map[0].lists[0].then.shards: missing: expected shards"],
        ),
        (
            then("function = \"hash\", shards = [\"s0\", \"s9\"]"),
            &["f:18: database.d.shard_map[0].lists[0].then.shards[1]: unknown shard \"s9\""],
        ),
        (
            then("function = \"hash\", shards = [\"s0\", \"s0\"]"),
            &["f:18: database.d.shard_map[0].lists[0].then.shards[1]: shard \"s0\" is there already"],
        ),
        (
            then("function = \"hash\", shards = []"),
            &["f:18: database.d.shard_map[0].lists[0].then.shards: expected the names of shards"],
        ),
        (
            then("function = \"hash\", shards = [\"s0\"], placement = [{ buckets = \"0-4095\", shard = \"s0\" }]"),
            &["f:18: database.d.shard_map[0].lists[0].then.shards: `placement` names the shards already"],
        ),
        (
            then("function = \"hash\", shards = [\"s0\", \"s1\"], buckets = 1"),
            &["f:18: database.d.shard_map[0].lists[0].then.buckets: 1 buckets are too few for 2 shards"],
        ),
        (
            then("function = \"hsh\", shards = [\"s0\"]"),
            &["f:18: database.d.shard_map[0].lists[0].then.function: unknown value \"hsh\"; did you mean \"hash\"?"],
        ),
        (
            then("function = \"hash\", shards = [\"s0\"], pins = []"),
            &["f:18: database.d.shard_map[0].lists[0].then.pins: unknown key"],
        ),
        (
            then("function = \"range\", shards = [\"s0\"], ranges = [{ from = 1, shard = \"s0\" }]"),
            &["f:18: database.d.shard_map[0].lists[0].then.shards: `shards` belongs to function = \"hash\""],
        ),
        (
            then("function = \"list\", lists = [{ values = [\"x\"], shard = \"s0\" }]"),
            &[
                "f:18: database.d.shard_map[0].lists[0].then.lists[0].values[0]: expected an integer for the key type bigint",
            ],
        ),
        (
            then("function = \"list\", lists = [{ values = [1], then = { function = \"hash\", shards = [\"s0\"] } }]"),
            &[
                "f:18: database.d.shard_map[0].lists[0].then.lists[0].then: a map has two levels, not more",
                "f:18: database.d.shard_map[0].lists[0].then.lists[0].then: the values name every key column",
            ],
        ),
        (
            list("shard = \"s0\", then = { function = \"hash\", shards = [\"s0\"] }"),
            &["f:18: database.d.shard_map[0].lists[0].shard: `then` chooses the shard"],
        ),
        (
            in_map(
                "name = \"m\"\nkey = [\"text\", \"bigint\", \"bigint\"]\nfunction = \"range\"\nranges = [\n{ to = \"m\", shard = \"s0\" },\n{ from = [\"m\", 1], then = { function = \"hash\", shards = [\"s0\"] } } ]\n",
            ),
            &["f:19: database.d.shard_map[0].ranges[1].from: expected 1 values as in the other bounds"],
        ),
    ]);
}

#[test]
fn a_second_level_chooses_within_its_shards() {
    let text = in_map(
        r#"name = "m"
key = ["text", "bigint"]
function = "list"
lists = [
    { values = ["eu", "uk"], then = { function = "hash", shards = ["s1", "s0"], buckets = 4 } },
    { values = ["us"], then = { function = "range", ranges = [{ to = 0, shard = "s1" }, { from = 0, shard = "s0" }] } },
    { values = ["cn"], shard = "s1" },
]
default = "s0"
pins = [{ key = ["eu", 7], shard = "s1" }]
[[database.d.table]]
name = "t"
shard_map = "m"
key = ["region", "id"]
"#,
    );
    let database = good(&text).databases.remove(0);
    let MapFunction::Groups { columns: 1, first, groups } = &database.maps[0].function else {
        panic!("{:?}", database.maps[0])
    };
    let MapFunction::List { values, default: Some(3) } = first.as_ref() else { panic!("{first:?}") };
    assert_eq!(values.iter().map(|(_, group)| *group).collect::<Vec<_>>(), [0, 0, 1, 2]);
    assert_eq!(groups[0], MapFunction::Hash(vec![1, 1, 0, 0]));
    assert_eq!(groups[2..], [MapFunction::whole(1), MapFunction::whole(0)]);
    assert!(!database.maps[0].placed_by_default);
    let told = super::placement::text(&database);
    let line = told.lines().find(|line| line.starts_with("table")).unwrap();
    assert_eq!(
        line,
        "table \"public\".\"t\" sharded (\"region\", \"id\") (text, integer) 1 by list: ('cn') s1, \
         ('eu') {hash 4: 0-1 s1, 2-3 s0}, ('uk') {hash 4: 0-1 s1, 2-3 s0}, \
         ('us') {range: […, (0)) s1 [(0), …) s0} default s0 pins: ('eu', 7) s1"
    );
}

#[test]
fn table_rule_and_function_mistakes() {
    let maps = "[[database.d.shard_map]]\nname = \"m\"\nkey = [\"text\", \"bigint\"]\nfunction = \"hash\"\n";
    let table = |text: &str| in_database(&format!("{maps}[[database.d.table]]\n{text}"));
    check(&[
        (
            table(""),
            &[
                "f:17: database.d.table[0]: nothing says where the table's rows live; expected one of: shard_map with key",
                "f:17: database.d.table[0].name: missing",
            ],
        ),
        (
            table("name = \"a.b.c\"\nreference = true\nshard = \"s0\"\n"),
            &[
                "f:17: database.d.table[0]: its place is said twice",
                "f:18: database.d.table[0].name: expected \"name\" or \"schema.name\"",
            ],
        ),
        (
            table("name = \"t\"\nshard_map = \"n\"\nkey = [\"a\", \"a\"]\n"),
            &[
                "f:19: database.d.table[0].shard_map: unknown shard map \"n\"; did you mean \"m\"? (choices: m)",
                "f:20: database.d.table[0].key[1]: column a is in the key twice",
            ],
        ),
        (
            table(
                "name = \"t\"\nshard_map = \"m\"\nkey = [\"a\"]\n[[database.d.table]]\nname = \"public.T\"\nreference = true\nkey = [\"a\"]\n",
            ),
            &[
                "f:20: database.d.table[0].key: the key of shard map \"m\" has 2 columns, this one 1",
                "f:22: database.d.table[1].name: table public.t is there already, on line 18",
                "f:24: database.d.table[1].key: only a table with shard_map has a key",
            ],
        ),
        (
            table("name = \"shardway.t\"\nreference = true\n"),
            &["f:18: database.d.table[0].name: tables of the schema shardway"],
        ),
        (
            in_database(&format!("{maps}[[database.d.column_rule]]\ncolumn = \"c\"\nshard_map = \"m\"\n")),
            &["f:19: database.d.column_rule[0].shard_map: the key of shard map \"m\" has several columns"],
        ),
        (
            in_database(&format!("{maps}[[database.d.function]]\nname = \"f\"\nruns_on = \"any\"\nargument = 1\n")),
            &["f:20: database.d.function[0].argument: only a function with runs_on = \"key\""],
        ),
        (
            in_database("[[database.d.function]]\nname = \"f\"\nruns_on = \"key\"\nargument = 0\n"),
            &[
                "f:13: database.d.function[0].shard_map: missing",
                "f:16: database.d.function[0].argument: expected an integer from 1 to 100, not 0",
            ],
        ),
    ]);
}

#[test]
fn a_right_file_is_read() {
    let text = format!(
        r#"
[listen]
address = "[::1]:6432"
http = "[::1]:9632"
drain_timeout = "1m"
[pool]
mode = "session"
idle_timeout = "off"
[[user]]
name = "a"
password = "env:SECRET"
[[user]]
name = "b"
password = "{VERIFIER}"
server_user = "B"
server_password = "file:/secret"
[[user]]
name = "c"
auth = "trust"
[database.d]
control = "shardway:env:SECRET"
shard = [{{ name = "s0", primary = "postgresql://a:b@h/d" }}, {{ name = "s1", primary = "postgresql://a:b@h/e" }}]
[[database.d.shard_map]]
name = "h"
key = ["bigint"]
function = "hash"
buckets = 4
pins = [{{ key = [-7], shard = "s1" }}]
[[database.d.shard_map]]
name = "r"
key = ["text", "date"]
function = "range"
ranges = [ {{ from = ["m", 2026-01-01], shard = "s1" }}, {{ to = ["m", "2026-01-01"], shard = "s0" }} ]
[[database.d.shard_map]]
name = "l"
key = ["text"]
function = "list"
lists = [ {{ values = ["x", ["y"]], shard = "s1" }} ]
default = "s0"
[[database.d.table]]
name = "Sales.\"Orders\""
shard_map = "h"
key = ["Tenant"]
[[database.d.column_rule]]
column = "tenant_id"
shard_map = "h"
[[database.d.function]]
name = "pay"
runs_on = "key"
argument = 2
shard_map = "h"
stateless = true
"#
    );
    let config = good(&text);
    assert_eq!(config.pool.idle_timeout, None);
    assert_eq!(config.listen.drain_timeout, Duration::from_secs(60));
    assert_eq!(config.users[0].auth, UserAuth::Password(Secret("from env".to_owned())));
    assert_eq!(config.users[1].auth, UserAuth::Verifier(VERIFIER.to_owned()));
    assert_eq!(config.users[1].server_password, Some(Secret("from file".to_owned())));
    assert_eq!(config.users[2].auth, UserAuth::Trust);
    let database = &config.databases[0];
    assert_eq!(database.control.as_ref().unwrap().password, Some(Secret("from env".to_owned())));
    assert_eq!(database.maps[0].function, MapFunction::Hash(vec![0, 0, 1, 1]));
    assert_eq!(database.maps[0].pins, vec![(vec![Datum::Int(-7)], 1)]);
    let MapFunction::Range(parts) = &database.maps[1].function else { panic!("{:?}", database.maps[1]) };
    assert_eq!(parts.iter().map(|part| part.2).collect::<Vec<_>>(), vec![0, 1]);
    assert_eq!(parts[0].1, parts[1].0);
    assert_eq!(parts[0].1.as_ref().unwrap()[1], Datum::Date(9497));
    let MapFunction::List { values, default } = &database.maps[2].function else { panic!("{:?}", database.maps[2]) };
    assert_eq!((values.len(), *default), (2, Some(0)));
    assert_eq!((database.tables[0].schema.as_str(), database.tables[0].name.as_str()), ("sales", "Orders"));
    assert_eq!(database.tables[0].place, TablePlace::Sharded { map: 0, key: vec!["Tenant".to_owned()] });
    assert_eq!(database.functions[0].runs_on, RunsOn::Key { argument: 1, map: 0 });
    assert!(!format!("{config:?}").contains("from env"));
}

#[test]
fn the_placement_text_says_where_rows_live_and_no_more() {
    let map = "[[database.d.shard_map]]\nname = \"m\"\nkey = [\"bigint\"]\nfunction = \"hash\"\nbuckets = 4\n";
    let table = "[[database.d.table]]\nname = \"t\"\nshard_map = \"m\"\nkey = [\"k\"]\n";
    let of = |text: &str| good(&in_database(text)).databases.remove(0);
    let database = of(&format!("{map}{table}"));
    let expected = "shard s0 \nshard s1 \ntable \"public\".\"t\" sharded (\"k\") (integer) hash 4: 0-1 s0, 2-3 s1\nunlisted  single where found";
    assert_eq!(super::placement::text(&database), expected);
    let explicit = "placement = [{ buckets = \"0-1\", shard = \"s0\" }, { buckets = \"2-3\", shard = \"s1\" }]\n";
    let same = of(&format!("{map}{explicit}{table}").replace("\"m\"", "\"other\"").replace("bigint", "integer"));
    assert_eq!(super::placement::placement_hash(&same), super::placement::placement_hash(&database));
    assert_eq!(super::placement::placement_hash(&same).len(), 64);
    let moved = of(&format!("{map}pins = [{{ key = 1, shard = \"s1\" }}]\n{table}"));
    assert_ne!(super::placement::placement_hash(&moved), super::placement::placement_hash(&database));
}

/// The files of `config/` are used as they stand.
const EXAMPLES: [(&str, &str); 8] = [
    ("bookshop.toml", include_str!("../../../config/bookshop.toml")),
    ("composite.toml", include_str!("../../../config/composite.toml")),
    ("demo.toml", include_str!("../../../config/demo.toml")),
    ("geography.toml", include_str!("../../../config/geography.toml")),
    ("hash.toml", include_str!("../../../config/hash.toml")),
    ("list.toml", include_str!("../../../config/list.toml")),
    ("range.toml", include_str!("../../../config/range.toml")),
    ("reference.toml", REFERENCE),
];
const REFERENCE: &str = include_str!("../../../config/reference.toml");

#[test]
fn examples_are_right() {
    for (name, text) in EXAMPLES {
        let config = load(text, name, &env, &read).unwrap_or_else(|mistakes| panic!("{mistakes:#?}"));
        assert_eq!(config.databases.len(), 1, "{name}");
    }
}

/// What the reference file calls a default is one.
#[test]
fn the_reference_shows_the_defaults() {
    let is_default = |line: &&str| {
        let comment = line.split_once('#').map(|(_, comment)| comment.trim_start());
        comment.is_some_and(|comment| {
            let said = comment.starts_with("default;") || comment.starts_with("default:") || comment == "default";
            said && !line.trim_start().starts_with('#') && !line.contains("placement") && !line.contains("control")
        })
    };
    let defaults = REFERENCE.lines().filter(is_default).count();
    assert!(defaults >= 15, "{defaults}");
    let without: Vec<&str> = REFERENCE.lines().filter(|line| !is_default(line)).collect();
    assert_eq!(good(&without.join("\n")), good(REFERENCE));
}

#[test]
fn the_manual_names_every_key() {
    let manual = include_str!("../../../docs/configuration.md");
    let keys = REFERENCE.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key.trim_start_matches("# "));
    for key in keys.filter(|key| key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')) {
        assert!(manual.contains(&format!("`{key}`")) || manual.contains(&format!("`{key} =")), "{key}");
    }
}

#[test]
fn the_bookshop_lists_every_check_digit() {
    let config = good(EXAMPLES[0].1);
    let database = &config.databases[0];
    let MapFunction::List { values, default: None } = &database.maps[0].function else { panic!("{:?}", database.maps) };
    assert_eq!((values.len(), database.shards.len()), (11, 3));
}

#[test]
fn damaged_files_are_told_and_never_panic() {
    for end in (0..REFERENCE.len()).step_by(61) {
        if let Some((start, rest)) = REFERENCE.split_at_checked(end) {
            let _ = told(start);
            let _ = told(&rest.replacen('"', "", 1));
            let _ = told(&format!("{start}\u{feff}{}", rest.replacen('=', "", 1)));
        }
    }
}
