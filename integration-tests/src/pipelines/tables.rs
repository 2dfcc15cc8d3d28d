//! The tables that random pipelines read and write, the same on one PostgreSQL and on any number of shards.

use crate::client::Client;
use crate::deployment::Deployment;
use crate::deployment::SINGLE;
use crate::layout::Layout;

const SCHEMA: [&str; 3] = [
    "CREATE TABLE kv (k bigint NOT NULL, n integer NOT NULL, v text, d numeric, PRIMARY KEY (k, n))",
    "CREATE TABLE ref (id integer PRIMARY KEY, v text)",
    "CREATE TABLE one (id integer PRIMARY KEY, v text)",
];

/// Brings the tables to what every pipeline starts with.
pub const FILL: [&str; 6] = [
    "DELETE FROM kv",
    "DELETE FROM ref",
    "DELETE FROM one",
    "INSERT INTO kv VALUES (1, 1, 'a', 1.5), (1, 2, 'b', 2.50), (2, 1, NULL, 0), (2, 2, 'ä', NULL), (3, 1, '', -1), \
     (3, 2, 'f', 1e3), (4, 1, 'g', 4), (5, 1, 'h', 5), (5, 2, 'i', 5.0), (6, 1, 'j', 6)",
    "INSERT INTO ref VALUES (1, 'x'), (2, 'y'), (3, NULL)",
    "INSERT INTO one VALUES (1, 'p'), (2, 'q')",
];

/// Everything that the tables hold.
pub const STATE: [&str; 3] = [
    "SELECT k, n, v, d FROM kv ORDER BY k, n",
    "SELECT id, v FROM ref ORDER BY id",
    "SELECT id, v FROM one ORDER BY id",
];

/// The proxy before `shards` shards, and one PostgreSQL, both filled.
pub fn deploy(shards: usize) -> Deployment {
    let layout = Layout::new(shards)
        .hash_map("keys", &["bigint"])
        .sharded("public.kv", &["k"])
        .reference("public.ref")
        .single("public.one", 1);
    let deployment = Deployment::start(layout);
    deployment.cluster(0).create_database(SINGLE);
    for mut client in [Client::connect(&deployment.cluster(0).app(SINGLE)), deployment.connect()] {
        SCHEMA.iter().chain(&FILL).for_each(|sql| client.execute(sql));
    }
    deployment
}

/// What a server holds now, as text.
pub fn state(client: &mut Client) -> Vec<Vec<Vec<Option<String>>>> {
    STATE.iter().map(|sql| client.simple(sql).ok().text()).collect()
}
