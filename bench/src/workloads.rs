//! The tables and what is run on them.

/// One row of the report: a pgbench script, its protocol mode, its number of clients.
pub struct Workload {
    pub name: &'static str,
    pub mode: &'static str,
    pub clients: u32,
    pub script: &'static str,
}

impl Workload {
    pub fn title(&self) -> String {
        format!("{}, {}, {} clients", self.name, self.mode, self.clients)
    }
}

pub const SCHEMA: &str = "
CREATE TABLE accounts (aid bigint PRIMARY KEY, bid integer NOT NULL, abalance integer NOT NULL, filler char(84));
CREATE TABLE branches (bid bigint PRIMARY KEY, bbalance integer NOT NULL, filler char(88));
CREATE TABLE tellers (bid bigint, tid integer, tbalance integer NOT NULL, filler char(84), PRIMARY KEY (bid, tid));
CREATE TABLE ledgers (bid bigint, aid integer, abalance integer NOT NULL, filler char(84), PRIMARY KEY (bid, aid));
CREATE TABLE history (bid bigint, tid integer, aid integer, delta integer, mtime timestamp, filler char(22));
CREATE TABLE events (eid bigint, value integer NOT NULL, note text);
CREATE TABLE pages (page bigint, line integer, payload text NOT NULL, PRIMARY KEY (page, line));
CREATE INDEX accounts_balance ON accounts (abalance DESC, aid)";

pub const DATA: &str = "
INSERT INTO accounts SELECT a, 1 + a / 1000, a * 7919 % 1000003, '' FROM generate_series(1, 100000) a;
INSERT INTO branches SELECT b, 0, '' FROM generate_series(1, 200) b;
INSERT INTO tellers SELECT b, t, 0, '' FROM generate_series(1, 200) b, generate_series(1, 10) t;
INSERT INTO ledgers SELECT b, a, 0, '' FROM generate_series(1, 200) b, generate_series(1, 500) a;
INSERT INTO pages SELECT p, l, rpad(md5(p || '/' || l), 92, 'x') FROM generate_series(1, 4) p, generate_series(1, 10000) l;
";

/// Each table with its shard key.
pub const TABLES: [(&str, &str); 7] = [
    ("accounts", "aid"),
    ("branches", "bid"),
    ("tellers", "bid"),
    ("ledgers", "bid"),
    ("history", "bid"),
    ("events", "eid"),
    ("pages", "page"),
];

const POINT: &str = "\\set aid random(1, 100000)\nSELECT abalance FROM accounts WHERE aid = :aid;\n";

const TPC_B: &str =
    "\\set bid random(1, 200)\n\\set tid random(1, 10)\n\\set aid random(1, 500)\n\\set delta random(-5000, 5000)
BEGIN;
UPDATE ledgers SET abalance = abalance + :delta WHERE bid = :bid AND aid = :aid;
SELECT abalance FROM ledgers WHERE bid = :bid AND aid = :aid;
UPDATE tellers SET tbalance = tbalance + :delta WHERE bid = :bid AND tid = :tid;
UPDATE branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO history (bid, tid, aid, delta, mtime) VALUES (:bid, :tid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

const TOP: &str = "SELECT aid, abalance FROM accounts ORDER BY abalance DESC, aid LIMIT 100;\n";
const SUMS: &str = "SELECT count(*), sum(abalance) FROM accounts;\n";
/// Little for the servers to do: what is left is the proxy's own share.
const FEW: &str = "SELECT count(*), sum(bbalance) FROM branches;\n";
const PAGE: &str = "\\set page random(1, 4)\nSELECT line, payload FROM pages WHERE page = :page;\n";

/// Ten rows whose keys are on both shards.
const TEN: &str = "\\set e0 random(1, 1000000000)
\\set e1 :e0 + 1
\\set e2 :e1 + 1
\\set e3 :e2 + 1
\\set e4 :e3 + 1
\\set e5 :e4 + 1
\\set e6 :e5 + 1
\\set e7 :e6 + 1
\\set e8 :e7 + 1
\\set e9 :e8 + 1
INSERT INTO events (eid, value, note) VALUES (:e0, 0, 'a'), (:e1, 1, 'b'), (:e2, 2, 'c'), (:e3, 3, 'd'), (:e4, 4, 'e'), \
(:e5, 5, 'f'), (:e6, 6, 'g'), (:e7, 7, 'h'), (:e8, 8, 'i'), (:e9, 9, 'j');
";

pub fn all() -> Vec<Workload> {
    let mut all = Vec::new();
    for clients in [16, 64] {
        for mode in ["simple", "extended", "prepared"] {
            all.push(Workload { name: "point SELECT", mode, clients, script: POINT });
        }
    }
    all.push(Workload { name: "TPC-B on one tenant", mode: "simple", clients: 16, script: TPC_B });
    all.push(Workload { name: "ORDER BY LIMIT 100, all shards", mode: "simple", clients: 8, script: TOP });
    all.push(Workload { name: "count and sum of 100,000 rows, all shards", mode: "simple", clients: 8, script: SUMS });
    all.push(Workload { name: "count and sum of 200 rows, all shards", mode: "simple", clients: 8, script: FEW });
    all.push(Workload { name: "INSERT of 10 rows, all shards", mode: "simple", clients: 8, script: TEN });
    all.push(Workload { name: "10,000 rows of 100 bytes", mode: "simple", clients: 8, script: PAGE });
    all
}
