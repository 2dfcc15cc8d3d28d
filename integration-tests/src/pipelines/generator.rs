//! Pipelines by seed: messages in an order that a driver might send, and in some that none would.

use crate::message;
use crate::random::rng::Rng;

/// One message of a pipeline: as a person reads it, and as it is sent.
#[derive(Clone, Debug)]
pub struct Step {
    pub text: String,
    pub bytes: Vec<u8>,
    /// Its replies are waited for before the next message is sent.
    pub flush: bool,
}

/// How a value of a parameter is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A shard key, bigint.
    Key,
    /// A small integer.
    Int,
    Text,
    /// An array of shard keys.
    Keys,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    sql: &'static str,
    params: &'static [Kind],
    /// Columns of its result.
    columns: usize,
}

const fn shape(sql: &'static str, params: &'static [Kind], columns: usize) -> Shape {
    Shape { sql, params, columns }
}

const READS: &[Shape] = &[
    shape("SELECT k, n, v, d FROM kv WHERE k = $1 ORDER BY n", &[Kind::Key], 4),
    shape("SELECT v FROM kv WHERE k = $1 AND n = $2", &[Kind::Key, Kind::Int], 1),
    shape("SELECT k, n, v FROM kv ORDER BY k, n", &[], 3),
    shape("SELECT k, n FROM kv ORDER BY n DESC, k LIMIT $1", &[Kind::Int], 2),
    shape("SELECT k, d FROM kv WHERE k = ANY($1) ORDER BY k, n", &[Kind::Keys], 2),
    shape("SELECT count(*), sum(n), max(k) FROM kv", &[], 3),
    shape("SELECT n, count(*) FROM kv GROUP BY n ORDER BY n", &[], 2),
    shape("SELECT avg(d) FROM kv WHERE n = $1", &[Kind::Int], 1),
    shape("SELECT id, v FROM ref ORDER BY id", &[], 2),
    shape("SELECT k, ref.v FROM kv JOIN ref ON id = n WHERE k = $1 ORDER BY n", &[Kind::Key], 2),
    shape("SELECT k, n, ref.v FROM kv JOIN ref ON id = n ORDER BY k, n", &[], 3),
    shape("SELECT v FROM one WHERE id = $1", &[Kind::Int], 1),
    shape("SELECT id FROM one ORDER BY id", &[], 1),
    shape("SELECT i FROM generate_series(1, 7) i", &[], 1),
    shape("SELECT $1::int + 1, $2::text", &[Kind::Int, Kind::Text], 2),
    shape("SELECT 12 / (id - $1) FROM ref ORDER BY id", &[Kind::Int], 1),
    shape("SELECT k, 6 / n FROM kv WHERE k = $1 ORDER BY n", &[Kind::Key], 2),
    shape("SELECT k, 1 / (n - 2) FROM kv ORDER BY k, n", &[], 2),
    shape("SELECT k FROM kv WHERE k = $1 AND n = 1 FOR UPDATE", &[Kind::Key], 1),
    shape("VALUES (1, 'x'), (2, NULL)", &[], 2),
    shape("SHOW application_name", &[], 1),
    shape("FETCH 2 FROM c", &[], 2),
];

const WRITES: &[Shape] = &[
    shape("INSERT INTO kv VALUES ($1, $2, $3)", &[Kind::Key, Kind::Int, Kind::Text], 0),
    shape("INSERT INTO kv (k, n, v) VALUES ($1, $2, $3) RETURNING n, v", &[Kind::Key, Kind::Int, Kind::Text], 2),
    shape("INSERT INTO kv VALUES ($1, 1, 'new') ON CONFLICT (k, n) DO UPDATE SET v = 'met'", &[Kind::Key], 0),
    shape("UPDATE kv SET v = $2 WHERE k = $1", &[Kind::Key, Kind::Text], 0),
    shape("UPDATE kv SET v = 'u' WHERE k = $1 AND n = 1 RETURNING k, v", &[Kind::Key], 2),
    shape("UPDATE kv SET d = d + 1 WHERE n = $1", &[Kind::Int], 0),
    shape("DELETE FROM kv WHERE k = $1 AND n = $2", &[Kind::Key, Kind::Int], 0),
    shape("DELETE FROM kv WHERE n = $1", &[Kind::Int], 0),
    shape("INSERT INTO kv VALUES (10, 7, 'm'), (11, 7, 'm'), (12, 7, 'm'), (13, 7, 'm')", &[], 0),
    shape("UPDATE ref SET v = $1 WHERE id = 2", &[Kind::Text], 0),
    shape("INSERT INTO ref VALUES ($1, 'r')", &[Kind::Int], 0),
    shape("INSERT INTO one VALUES ($1, $2)", &[Kind::Int, Kind::Text], 0),
    shape("UPDATE one SET v = $1", &[Kind::Text], 0),
];

const CONTROL: &[Shape] = &[
    shape("", &[], 0),
    shape("BEGIN", &[], 0),
    shape("COMMIT", &[], 0),
    shape("ROLLBACK", &[], 0),
    shape("BEGIN ISOLATION LEVEL REPEATABLE READ", &[], 0),
    shape("SAVEPOINT a", &[], 0),
    shape("ROLLBACK TO a", &[], 0),
    shape("RELEASE a", &[], 0),
    shape("SET application_name = 'one'", &[], 0),
    shape("SET LOCAL application_name = 'two'", &[], 0),
    shape("DECLARE c CURSOR FOR SELECT k, n FROM kv WHERE k = 1 ORDER BY n", &[], 0),
    shape("CLOSE c", &[], 0),
    shape("DEALLOCATE ALL", &[], 0),
];

const WRONG: &[Shape] = &[
    shape("SELECT * FROM nowhere", &[], 1),
    shape("SELEKT 1", &[], 1),
    shape("SELECT nothing FROM kv WHERE k = $1", &[Kind::Key], 1),
    shape("SELECT 1; SELECT 2", &[], 1),
    shape("ROLLBACK TO nowhere", &[], 0),
    shape("SELECT k FROM kv WHERE k = 'x'", &[], 1),
    shape("INSERT INTO kv VALUES (1, 1)", &[], 0),
];

const COPIES: &[(&str, &str)] = &[
    ("COPY kv (k, n, v) FROM STDIN", "20\t1\tcopied\n21\t1\tcopied\n22\t1\t\\N\n"),
    ("COPY kv (k, n, v) FROM STDIN (FORMAT csv)", "30,1,\"x,y\"\n31,1,\n"),
    ("COPY one FROM STDIN", "50\tc\n"),
    ("COPY ref FROM STDIN", "60\tc\n61\td\n"),
    ("COPY kv (k, n, v) FROM STDIN", "1\t1\tdouble\n2\t9\tx\n"),
    ("COPY kv (k, n, v) FROM STDIN", "wrong\t1\tx\n"),
];

const COPIES_OUT: &[&str] = &["COPY (SELECT k, n FROM kv WHERE k = 1 ORDER BY n) TO STDOUT", "COPY ref TO STDOUT"];

const STATEMENTS: [&str; 4] = ["", "s1", "s2", "s3"];
const PORTALS: [&str; 4] = ["", "", "p1", "p2"];

/// The steps of one seed.
pub fn pipeline(seed: u64) -> Vec<Step> {
    let mut writer = Writer { rng: Rng::new(seed), steps: Vec::new(), known: Vec::new() };
    let parts = 2 + writer.rng.below(12);
    // Some pipelines are free of errors that are there by intention, so that much of them is run.
    let wild = writer.rng.chance(40);
    for _ in 0..parts {
        writer.part(wild);
    }
    writer.steps
}

struct Writer {
    rng: Rng,
    steps: Vec<Step>,
    /// The shapes that statement names have, if nothing failed.
    known: Vec<(&'static str, Shape)>,
}

impl Writer {
    fn step(&mut self, text: String, bytes: Vec<u8>) {
        self.steps.push(Step { text, bytes, flush: false });
    }

    fn part(&mut self, wild: bool) {
        match self.rng.below(100) {
            0..=11 if wild => self.odd(),
            0..=4 => self.copy(),
            5..=6 => self.copy_out(),
            7..=17 => self.sync(),
            18..=20 => self.flush(),
            21..=23 => self.query(),
            24..=38 => self.again(),
            _ => self.statement(wild),
        }
    }

    fn choose(&mut self, wild: bool) -> Shape {
        match self.rng.below(100) {
            0..=7 if wild => *self.rng.pick(WRONG),
            0..=54 => *self.rng.pick(READS),
            55..=82 => *self.rng.pick(WRITES),
            _ => *self.rng.pick(CONTROL),
        }
    }

    /// Parse, Bind, Execute of a new statement, and what may come between.
    fn statement(&mut self, wild: bool) {
        let shape = self.choose(wild);
        let name = *self.rng.pick(&STATEMENTS);
        if !name.is_empty() && self.known.iter().any(|(n, _)| *n == name) && !self.rng.chance(10) {
            self.step(format!("Close S {name:?}"), message::close(b'S', name));
        }
        self.step(format!("Parse {name:?} {:?}", shape.sql), message::parse(name, shape.sql, &[]));
        self.known.retain(|(n, _)| *n != name);
        self.known.push((name, shape));
        if self.rng.chance(25) {
            self.step(format!("Describe S {name:?}"), message::describe(b'S', name));
        }
        if self.rng.chance(4) {
            self.flush();
        }
        self.run(name, shape);
    }

    /// Bind and Execute of a statement that is there already.
    fn again(&mut self) {
        if self.known.is_empty() {
            return self.sync();
        }
        let (name, shape) = *self.rng.pick(&self.known);
        for _ in 0..1 + self.rng.below(3) {
            self.run(name, shape);
        }
    }

    fn run(&mut self, name: &'static str, shape: Shape) {
        let portal = *self.rng.pick(&PORTALS);
        let binary = self.rng.chance(30);
        let values: Vec<Option<Vec<u8>>> = shape.params.iter().map(|kind| self.value(*kind, binary)).collect();
        let formats: &[i16] = if binary && !values.is_empty() { &[1] } else { &[] };
        let results: &[i16] = match self.rng.below(10) {
            0..=1 => &[1],
            2 if shape.columns == 2 => &[1, 0],
            _ => &[],
        };
        let shown: Vec<String> = values.iter().map(|v| v.as_deref().map_or("NULL".into(), message::readable)).collect();
        self.step(
            format!("Bind {portal:?} to {name:?} {formats:?} {shown:?} {results:?}"),
            message::bind(portal, name, formats, &values, results),
        );
        if self.rng.chance(35) {
            self.step(format!("Describe P {portal:?}"), message::describe(b'P', portal));
        }
        let times = if self.rng.chance(15) { 2 + self.rng.below(3) } else { 1 };
        for _ in 0..times {
            let limit = if times > 1 || self.rng.chance(12) { 1 + self.rng.below(4) as i32 } else { 0 };
            self.step(format!("Execute {portal:?} {limit}"), message::execute(portal, limit));
            if times > 1 && self.rng.chance(25) {
                self.statement_between();
            }
        }
        if !portal.is_empty() && self.rng.chance(80) || self.rng.chance(5) {
            self.step(format!("Close P {portal:?}"), message::close(b'P', portal));
        }
    }

    /// Something short while a portal is suspended.
    fn statement_between(&mut self) {
        if self.rng.chance(50) {
            return self.flush();
        }
        let sql =
            self.rng.text(&["SELECT 'between'", "SELECT k FROM kv WHERE k = 3 AND n = 1", "SELECT count(*) FROM kv"]);
        self.step(format!("Parse \"between\" {sql:?}"), message::parse("between", sql, &[]));
        self.step("Bind \"between\" to \"between\"".into(), message::bind("between", "between", &[], &[], &[]));
        self.step("Execute \"between\" 0".into(), message::execute("between", 0));
        self.step("Close P \"between\"".into(), message::close(b'P', "between"));
        self.step("Close S \"between\"".into(), message::close(b'S', "between"));
    }

    fn value(&mut self, kind: Kind, binary: bool) -> Option<Vec<u8>> {
        if self.rng.chance(4) {
            return None;
        }
        let key = 1 + self.rng.below(9) as i64;
        let int = self.rng.below(4) as i32;
        Some(match (kind, binary) {
            (Kind::Key, false) => key.to_string().into_bytes(),
            (Kind::Key, true) => key.to_be_bytes().to_vec(),
            (Kind::Int, false) => int.to_string().into_bytes(),
            // LIMIT wants a bigint: a length that does not fit is part of the game.
            (Kind::Int, true) => int.to_be_bytes().to_vec(),
            (Kind::Text, _) => self.rng.text(&["t", "", "ü", "long text in here", "'"]).as_bytes().to_vec(),
            (Kind::Keys, false) => format!("{{{key},{},3}}", key + 1).into_bytes(),
            (Kind::Keys, true) => {
                let mut out = Vec::new();
                [1i32, 0, 20, 2, 1].iter().for_each(|n| out.extend(n.to_be_bytes()));
                [key, key + 1].iter().for_each(|n| {
                    out.extend(8i32.to_be_bytes());
                    out.extend(n.to_be_bytes());
                });
                out
            }
        })
    }

    fn sync(&mut self) {
        self.step("Sync".into(), message::sync());
    }

    fn flush(&mut self) {
        let wait = self.rng.chance(15);
        self.steps.push(Step { text: "Flush".into(), bytes: message::flush(), flush: wait });
    }

    /// A simple query in between.
    fn query(&mut self) {
        let shape = self.choose(false);
        let sql = if shape.params.is_empty() { shape.sql } else { "SELECT 1; SELECT count(*) FROM kv" };
        self.step(format!("Query {sql:?}"), message::query(sql));
    }

    fn copy(&mut self) {
        let (sql, data) = *self.rng.pick(COPIES);
        self.step(format!("Parse \"copy\" {sql:?}"), message::parse("copy", sql, &[]));
        self.step("Bind \"\" to \"copy\"".into(), message::bind("", "copy", &[], &[], &[]));
        self.step("Execute \"\" 0".into(), message::execute("", 0));
        if self.rng.chance(10) {
            self.flush();
        }
        let cut = self.rng.below(data.len());
        for part in [&data[..cut], &data[cut..]] {
            self.step(format!("CopyData {part:?}"), message::frame(b'd', part.as_bytes()));
        }
        match self.rng.below(10) {
            0 => self.step("CopyFail \"no more\"".into(), message::frame(b'f', &message::cstring("no more"))),
            _ => self.step("CopyDone".into(), message::frame(b'c', b"")),
        }
        self.step("Close S \"copy\"".into(), message::close(b'S', "copy"));
    }

    fn copy_out(&mut self) {
        let sql = *self.rng.pick(COPIES_OUT);
        self.step(format!("Parse \"\" {sql:?}"), message::parse("", sql, &[]));
        self.step("Bind \"\" to \"\"".into(), message::bind("", "", &[], &[], &[]));
        self.step("Execute \"\" 0".into(), message::execute("", 0));
    }

    /// What a client should not send.
    fn odd(&mut self) {
        match self.rng.below(9) {
            0 => self.step("Bind \"\" to \"gone\"".into(), message::bind("", "gone", &[], &[], &[])),
            1 => self.step("Execute \"gone\" 0".into(), message::execute("gone", 0)),
            2 => self.step("Describe S \"gone\"".into(), message::describe(b'S', "gone")),
            3 => self.step("Describe P \"gone\"".into(), message::describe(b'P', "gone")),
            4 => self.step("Close P \"gone\"".into(), message::close(b'P', "gone")),
            5 => self.step("CopyDone".into(), message::frame(b'c', b"")),
            6 => {
                let values = [Some(b"1".to_vec()), Some(b"2".to_vec()), Some(b"3".to_vec()), Some(b"4".to_vec())];
                let name = *self.rng.pick(&STATEMENTS);
                self.step(format!("Bind \"\" to {name:?} with four"), message::bind("", name, &[], &values, &[]));
            }
            7 => {
                let name = *self.rng.pick(&STATEMENTS);
                self.step(format!("Close S {name:?}"), message::close(b'S', name));
            }
            _ => self.step("Execute \"p1\" 1".into(), message::execute("p1", 1)),
        }
    }
}
