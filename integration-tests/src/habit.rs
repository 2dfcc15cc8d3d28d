//! Random steps of a client that touch everything a session can have: settings, roles, transactions, temporary tables,
//! locks, prepared statements, portals, cursors, notifications.
//!
//! Clients use the same names for different things, so that what leaks shows.

use crate::message;

/// Small random numbers, the same for the same seed.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.below(2);
        }
        random
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    pub fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

/// What a client sends at once; the answer ends with one ReadyForQuery.
#[derive(Clone, Debug)]
pub struct Step {
    pub shown: String,
    pub bytes: Vec<u8>,
    /// It may leave behind what only its server connection has, until DISCARD ALL.
    pub pins: bool,
}

impl Step {
    /// SQL in the simple protocol.
    pub fn query(sql: &str) -> Step {
        Step { shown: sql.to_owned(), bytes: message::query(sql), pins: false }
    }

    /// SQL in the extended protocol, unnamed.
    pub fn extended(sql: &str) -> Step {
        let parts = [
            message::parse("", sql, &[]),
            message::bind("", "", &[], &[], &[]),
            message::describe(b'P', ""),
            message::execute("", 0),
            message::sync(),
        ];
        Step { shown: format!("[{sql}]"), bytes: parts.concat(), pins: false }
    }

    fn messages(shown: String, parts: &[Vec<u8>]) -> Step {
        let mut bytes = parts.concat();
        bytes.extend(message::sync());
        Step { shown, bytes, pins: false }
    }

    fn pinning(mut self) -> Step {
        self.pins = true;
        self
    }
}

const SETTINGS: &[(&str, &[&str])] = &[
    ("work_mem", &["'1MB'", "'2MB'", "3000", "'x'"]),
    ("datestyle", &["'SQL, DMY'", "'German'", "ISO"]),
    ("timezone", &["'UTC'", "'Europe/Paris'", "'nowhere'", "-7"]),
    ("search_path", &["other, public", "public", "pg_catalog, public", "''"]),
    ("application_name", &["'one'", "'two'", "''"]),
    ("statement_timeout", &["'100s'", "'200s'", "0"]),
    ("my.own", &["'x'", "'y'"]),
    ("extra_float_digits", &["0", "-1", "3"]),
    ("intervalstyle", &["'iso_8601'", "'postgres'"]),
    ("default_transaction_isolation", &["'serializable'", "'repeatable read'"]),
    ("default_transaction_read_only", &["on", "off"]),
    ("standard_conforming_strings", &["on", "off"]),
    ("client_min_messages", &["notice", "warning"]),
    ("bytea_output", &["'escape'", "'hex'"]),
    ("role", &["'helper'", "'none'", "'stranger'"]),
];

const SETTINGS_QUERY: &str = "SELECT current_user, session_user, current_setting('work_mem'), current_setting('datestyle'), \
     current_setting('timezone'), current_setting('search_path'), current_setting('application_name'), \
     current_setting('statement_timeout'), nullif(current_setting('my.own', true), ''), \
     current_setting('extra_float_digits'), current_setting('intervalstyle'), \
     current_setting('default_transaction_isolation'), current_setting('default_transaction_read_only'), \
     current_setting('transaction_isolation'), current_setting('transaction_read_only'), \
     current_setting('standard_conforming_strings'), current_setting('client_min_messages'), \
     current_setting('bytea_output'), current_setting('role'), \
     timestamptz '2020-01-02 03:04:05+00', interval '1 day 2 hours', 0.1::float8, decode('01', 'hex')";

const REST_QUERY: &str = "SELECT (SELECT array_agg(c ORDER BY c) FROM pg_listening_channels() c), \
     (SELECT array_agg(objid ORDER BY objid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 0 \
        AND pid = pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database())), \
     to_regclass('pg_temp.mine') IS NULL, to_regclass('pg_temp.yours') IS NULL, \
     (SELECT array_agg(name ORDER BY name) FROM pg_cursors WHERE name IN ('one', 'two'))";

/// Looks at all settings.
pub fn look() -> Step {
    Step { shown: "look".to_owned(), ..Step::query(SETTINGS_QUERY) }
}

/// Looks at everything else that a session has.
pub fn look_around() -> Step {
    Step { shown: "look around".to_owned(), ..Step::extended(REST_QUERY) }
}

/// A step by a client, who is the `who`th; `serial` makes its texts unlike all others.
pub fn random_step(random: &mut Random, who: usize, serial: usize) -> Step {
    match random.below(24) {
        0..=4 => setting(random),
        5 => role(random),
        6..=10 => transaction(random),
        11 => temporary(random, who),
        12 | 13 => lock(random),
        14 | 15 => prepared(random, &format!("{who}:{serial}")),
        16 => portal(random, serial),
        17 => cursor(random, serial),
        18 | 19 => notification(random, &format!("{who}:{serial}")),
        20 => discard(random),
        21 => sequence(random),
        22 => mistake(random),
        _ => several(random, who, serial),
    }
}

fn either(random: &mut Random, sql: &str) -> Step {
    if random.below(3) == 0 { Step::extended(sql) } else { Step::query(sql) }
}

fn setting(random: &mut Random) -> Step {
    let (name, values) = SETTINGS[random.below(SETTINGS.len())];
    let value = random.pick(values);
    let text = format!("'{}'", value.trim_matches('\''));
    let local = random.pick(&["true", "false"]);
    let sql = match random.below(12) {
        0..=2 => format!("SET {name} TO {value}"),
        3 => format!("SET SESSION {name} = {value}"),
        4 | 5 => format!("SET LOCAL {name} TO {value}"),
        6 => format!("RESET {name}"),
        7 => format!("SET {name} TO DEFAULT"),
        8 => format!("SET LOCAL {name} TO DEFAULT"),
        9 => format!("SELECT set_config('{name}', {text}, {local})"),
        10 => format!("SHOW {name}"),
        _ if random.below(4) == 0 => "RESET ALL".to_owned(),
        _ => format!("WITH s AS (SELECT set_config('{name}', {text}, {local}) v) SELECT v FROM s"),
    };
    either(random, &sql)
}

fn role(random: &mut Random) -> Step {
    let sql = random.pick(&[
        "SET ROLE helper",
        "SET ROLE NONE",
        "RESET ROLE",
        "SET LOCAL ROLE helper",
        "SET SESSION ROLE helper",
        "SET ROLE stranger",
        "SET SESSION AUTHORIZATION app",
        "SET SESSION AUTHORIZATION helper",
        "SET SESSION AUTHORIZATION DEFAULT",
        "RESET SESSION AUTHORIZATION",
        "SET LOCAL SESSION AUTHORIZATION app",
        "SET TIME ZONE 'Asia/Tokyo'",
        "SET LOCAL TIME ZONE -3",
        "SET TIME ZONE LOCAL",
        "SET NAMES 'UTF8'",
        "SET SCHEMA 'other'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SEED TO 0.5",
    ]);
    either(random, sql)
}

fn transaction(random: &mut Random) -> Step {
    let sql = random.pick(&[
        "BEGIN",
        "BEGIN",
        "BEGIN",
        "BEGIN ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION READ ONLY",
        "COMMIT",
        "COMMIT",
        "END",
        "ROLLBACK",
        "ROLLBACK",
        "COMMIT AND CHAIN",
        "ROLLBACK AND CHAIN",
        "SAVEPOINT a",
        "SAVEPOINT a",
        "SAVEPOINT b",
        "RELEASE a",
        "ROLLBACK TO a",
        "ROLLBACK TO a",
        "ROLLBACK TO SAVEPOINT b",
    ]);
    either(random, sql)
}

fn temporary(random: &mut Random, who: usize) -> Step {
    let sql = match random.below(7) {
        0 => format!("CREATE TEMP TABLE mine AS SELECT {who} a"),
        1 => format!("CREATE TEMP TABLE yours (a int DEFAULT {who}) ON COMMIT DROP"),
        2 => format!("INSERT INTO mine VALUES ({who})"),
        3 => "DROP TABLE mine".to_owned(),
        4 => format!("CREATE TEMP VIEW yours AS SELECT {who} a"),
        5 => "SELECT * FROM yours".to_owned(),
        _ => "SELECT * FROM mine".to_owned(),
    };
    either(random, &sql).pinning()
}

fn lock(random: &mut Random) -> Step {
    let key = random.below(3);
    let sql = match random.below(6) {
        0 => format!("SELECT pg_advisory_lock({key})"),
        1 => format!("SELECT pg_try_advisory_lock_shared({key})"),
        2 => format!("SELECT pg_advisory_unlock({key})"),
        3 => "SELECT pg_advisory_unlock_all()".to_owned(),
        4 => format!("SELECT pg_advisory_xact_lock({key})"),
        _ => format!("SELECT 1/{key}, pg_try_advisory_lock({key})"),
    };
    either(random, &sql).pinning()
}

fn prepared(random: &mut Random, mark: &str) -> Step {
    let name = random.pick(&["p", "q"]);
    let bind = |values: &[Option<Vec<u8>>]| message::bind("", name, &[], values, &[]);
    match random.below(9) {
        0 => Step::query(&format!("PREPARE {name} AS SELECT '{mark}'::text")),
        1 => Step::query(&format!("PREPARE {name} (int) AS SELECT '{mark}'::text, $1 + 1")),
        2 => Step::query(&format!("EXECUTE {name}")),
        3 => Step::query(&format!("EXECUTE {name} (41)")),
        4 => either(random, &format!("DEALLOCATE {name}")),
        5 => {
            let parse = message::parse(name, &format!("SELECT '{mark}'::text, current_user"), &[]);
            Step::messages(format!("Parse {name} {mark}"), &[message::close(b'S', name), parse])
        }
        6 => {
            let parse = message::parse(name, &format!("SELECT '{mark}'::text, $1::int"), &[]);
            Step::messages(format!("Parse {name}, which may be there, {mark}"), &[parse])
        }
        7 => {
            let value = Some(b"7".to_vec());
            let parts = [message::describe(b'S', name), bind(&[value]), message::execute("", 0)];
            Step::messages(format!("Bind {name} (7), Execute"), &parts)
        }
        _ => {
            let parts = [bind(&[]), message::describe(b'P', ""), message::execute("", 0)];
            Step::messages(format!("Bind {name}, Execute"), &parts)
        }
    }
}

fn portal(random: &mut Random, serial: usize) -> Step {
    let name = random.pick(&["x", "y", ""]);
    match random.below(4) {
        0 | 1 => {
            let sql = format!("SELECT {serial} + n FROM generate_series(1, 5) n");
            let parts =
                [message::parse("", &sql, &[]), message::bind(name, "", &[], &[], &[]), message::execute(name, 2)];
            Step::messages(format!("portal \"{name}\" of {serial}"), &parts)
        }
        // A statement that fails leaves an unnamed portal behind, which cannot be run: not to be told from none.
        2 if !name.is_empty() => Step::messages(format!("Execute portal {name}"), &[message::execute(name, 1)]),
        _ => Step::messages(format!("Close portal \"{name}\""), &[message::close(b'P', name)]),
    }
}

fn cursor(random: &mut Random, serial: usize) -> Step {
    let name = random.pick(&["one", "two"]);
    let query = format!("SELECT {serial} + n FROM generate_series(1, 5) n");
    let sql = match random.below(7) {
        0 | 1 => format!("DECLARE {name} CURSOR FOR {query}"),
        2 => format!("DECLARE {name} CURSOR WITH HOLD FOR {query}"),
        3 => format!("MOVE 1 IN {name}"),
        4 => format!("CLOSE {name}"),
        5 if random.below(3) == 0 => "CLOSE ALL".to_owned(),
        _ => format!("FETCH 2 FROM {name}"),
    };
    either(random, &sql).pinning()
}

fn notification(random: &mut Random, mark: &str) -> Step {
    let channel = random.pick(&["news", "\"Gossip\""]);
    let sql = match random.below(9) {
        0..=2 => format!("LISTEN {channel}"),
        3 => format!("UNLISTEN {channel}"),
        4 => "UNLISTEN *".to_owned(),
        5 => format!("NOTIFY {channel}"),
        6 => format!("SELECT pg_notify('news', '{mark}')"),
        _ => format!("NOTIFY {channel}, '{mark}'"),
    };
    either(random, &sql)
}

fn discard(random: &mut Random) -> Step {
    let sql = random.pick(&[
        "DISCARD ALL",
        "DISCARD ALL",
        "DISCARD TEMP",
        "DISCARD PLANS",
        "DISCARD SEQUENCES",
        "DEALLOCATE ALL",
        "RESET ALL",
    ]);
    either(random, sql)
}

fn sequence(random: &mut Random) -> Step {
    let sql = random.pick(&["SELECT nextval('numbers') > 0", "SELECT currval('numbers') > 0", "SELECT lastval() > 0"]);
    either(random, sql).pinning()
}

fn mistake(random: &mut Random) -> Step {
    let sql = random.pick(&[
        "SELECT 1/0",
        "SELEC 1",
        "SELECT nothing FROM nowhere",
        "SET nothing TO 1",
        "SELECT 'a\\'b'",
        "DO $$ BEGIN PERFORM set_config('work_mem', '9MB', false); END $$",
        "DO $$ BEGIN RAISE EXCEPTION 'no'; END $$",
    ]);
    either(random, sql).pinning()
}

/// Several statements in one Query, or a pipeline.
fn several(random: &mut Random, who: usize, serial: usize) -> Step {
    // None of it pins.
    let sql = random.pick(&[
        "SET work_mem TO '4MB'; SELECT 1",
        "SET work_mem TO '5MB'; SELECT 1/0",
        "BEGIN; SET LOCAL work_mem TO '6MB'; SELECT 1",
        "BEGIN; SET ROLE helper; SAVEPOINT a; SET my.own TO 'z'",
        "SELECT 1; COMMIT; SET timezone TO 'Asia/Tokyo'; SELECT 1/0",
        "ROLLBACK; BEGIN; SET search_path TO other",
        "ROLLBACK; LISTEN news; SELECT 2",
        "COMMIT; NOTIFY news, 'of several'; SELECT 3",
        "COMMIT; LISTEN news; SELECT 1/0",
    ]);
    if random.below(2) == 0 {
        return Step::query(sql);
    }
    let mut parts = Vec::new();
    for sql in sql.split("; ") {
        let more = [message::parse("", sql, &[]), message::bind("", "", &[], &[], &[]), message::execute("", 0)];
        parts.extend(more);
    }
    let own = format!("SELECT '{who}:{serial}'");
    parts.extend([message::parse("", &own, &[]), message::bind("", "", &[], &[], &[]), message::execute("", 0)]);
    Step::messages(format!("[{sql}; {own}]"), &parts)
}
