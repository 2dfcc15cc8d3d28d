//! COPY over several shards against one PostgreSQL with all rows: the same bytes in make the same rows, in every format
//! and in chunks of any size; what is wrong with the data is told as PostgreSQL tells it, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bytes::Bytes;
use futures::SinkExt;
use futures::StreamExt;
use integration_tests::client::Address;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::direct;
use integration_tests::layout::Layout;
use std::pin::pin;
use tokio_postgres::Client;

const TABLES: [&str; 3] = [
    "CREATE TABLE items (tenant bigint, id integer, note text, amount numeric, raw bytea, PRIMARY KEY (tenant, id))",
    "CREATE TABLE names (id integer, name varchar(12) NOT NULL, PRIMARY KEY (name, id))",
    "CREATE TABLE words (id integer PRIMARY KEY, word text)",
];

/// Options of COPY; those of the tables' columns besides.
const OPTIONS: [&str; 8] = [
    "",
    "WITH (FORMAT binary)",
    "WITH (FORMAT csv)",
    "WITH (FORMAT csv, HEADER)",
    "WITH (FORMAT csv, DELIMITER ';', QUOTE '''', ESCAPE '\\', NULL 'nil')",
    "WITH (FORMAT csv, FORCE_QUOTE *, NULL '')",
    "WITH (FORMAT text, DELIMITER '|', NULL '<null>')",
    "WITH (ENCODING 'utf8')",
];

/// Texts that a format may trip over.
const TEXTS: [&str; 16] = [
    "",
    "plain",
    "a,b",
    "a;b",
    "a|b",
    "tab\there",
    "line\nbreak",
    "return\rhere",
    "both\r\nhere",
    "\"quoted\"",
    "it's",
    "back\\slash",
    "\\N",
    "\\.",
    "nil <null>",
    "žluť 漢字 🦀",
];

struct Random(u64);

impl Random {
    /// xorshift64*
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        usize::try_from(self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33).unwrap() % below
    }
}

async fn connect(address: &Address) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(address.port).user(&address.user).password(&address.password);
    let (client, connection) = config.dbname(&address.database).connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn copy_in(client: &Client, sql: &str, data: &[u8], random: &mut Random) -> Result<u64, tokio_postgres::Error> {
    let mut sink = pin!(client.copy_in::<_, Bytes>(sql).await?);
    let mut rest = data;
    while !rest.is_empty() {
        let most = [1, 7, 100, 9_000][random.next(4)];
        let (chunk, after) = rest.split_at(rest.len().min(1 + random.next(most)));
        sink.send(Bytes::copy_from_slice(chunk)).await?;
        rest = after;
    }
    sink.finish().await
}

async fn copy_out(client: &Client, sql: &str) -> Vec<u8> {
    let mut stream = pin!(client.copy_out(sql).await.unwrap());
    let mut data = Vec::new();
    while let Some(chunk) = stream.next().await {
        data.extend_from_slice(&chunk.unwrap());
    }
    data
}

/// All rows, each as text, in order.
async fn rows(client: &Client, table: &str) -> Vec<String> {
    let sql = format!("SELECT t::text FROM {table} t");
    let sql = if table == "items" {
        "SELECT concat_ws('/', tenant, id, coalesce(note, '~'), coalesce(amount::text, '~'), coalesce(raw::text, '~')) FROM items"
    } else {
        &sql
    };
    let mut rows: Vec<String> =
        client.query(sql, &[]).await.unwrap_or_else(|e| panic!("{sql}: {e:?}")).iter().map(|row| row.get(0)).collect();
    rows.sort_unstable();
    rows
}

fn layout(shards: usize) -> Layout {
    Layout::new(shards)
        .map("tenants", &["bigint"], "function = \"hash\"")
        .sharded("public.items", &["tenant"])
        .map("names", &["varchar"], "function = \"hash\"")
        .sharded("public.names", &["name"])
        .reference("public.words")
}

async fn fill(single: &Client, random: &mut Random) {
    for row in 0..400 {
        let text = |random: &mut Random| match random.next(20) {
            n if n < TEXTS.len() => Some(TEXTS[n].to_owned()),
            _ => None,
        };
        let (note, name, word) = (text(random), text(random).unwrap_or_default(), text(random));
        let name: String = name.chars().take(11).chain(" ".chars().take(random.next(2))).collect();
        let tenant = i64::try_from(random.next(50)).unwrap() - 10;
        let raw = note.as_ref().map(|n| n.as_bytes().to_vec());
        let sql = "INSERT INTO items VALUES ($1, $2, $3, $4::text::numeric, $5)";
        let amount = (random.next(3) > 0).then(|| format!("{}.{:02}", random.next(100_000), random.next(100)));
        single.execute(sql, &[&tenant, &row, &note, &amount, &raw]).await.unwrap();
        single.execute("INSERT INTO names VALUES ($1, $2)", &[&row, &name]).await.unwrap();
        single.execute("INSERT INTO words VALUES ($1, $2)", &[&row, &word]).await.unwrap();
    }
}

async fn over(shards: usize) {
    if direct() {
        return;
    }
    let deployment = Deployment::start(layout(shards));
    deployment.cluster(0).create_database(SINGLE);
    let single = connect(&deployment.cluster(0).app(SINGLE)).await;
    let proxy = connect(&deployment.address()).await;
    for table in TABLES {
        single.batch_execute(table).await.unwrap();
        proxy.batch_execute(table).await.unwrap();
    }
    let mut random = Random(0x5eed + shards as u64);
    fill(&single, &mut random).await;
    for table in ["items", "names", "words"] {
        let expected = rows(&single, table).await;
        for options in OPTIONS {
            let data = copy_out(&single, &format!("COPY {table} TO STDOUT {options}")).await;
            let from = format!("COPY {table} FROM STDIN {}", options.replace("FORCE_QUOTE *, ", ""));
            let count = copy_in(&proxy, &from, &data, &mut random).await.unwrap_or_else(|e| panic!("{from}: {e:?}"));
            assert_eq!(count, 400, "{from}");
            assert_eq!(rows(&proxy, table).await, expected, "{from}");
            // What comes out goes in again.
            let out = copy_out(&proxy, &format!("COPY {table} TO STDOUT {options}")).await;
            assert_eq!(out.len(), data.len(), "{table} {options}");
            proxy.batch_execute(&format!("DELETE FROM {table}")).await.unwrap();
            copy_in(&proxy, &from, &out, &mut random).await.unwrap();
            assert_eq!(rows(&proxy, table).await, expected, "again: {from}");
            proxy.batch_execute(&format!("TRUNCATE {table}")).await.unwrap();
        }
    }
    wrong_data(&single, &proxy, &mut random).await;
}

/// How many rows of `names` are not found by their key.
async fn placed_by_name(client: &Client) -> i64 {
    let mut lost = 0;
    for row in client.query("SELECT name FROM names", &[]).await.unwrap() {
        let name: String = row.get(0);
        let found = client.query_one("SELECT count(*) FROM names WHERE name = $1", &[&name]).await.unwrap();
        lost += i64::from(found.get::<_, i64>(0) == 0);
    }
    lost
}

/// The same error as from one PostgreSQL, with the client's line, and nothing is left behind.
async fn wrong_data(single: &Client, proxy: &Client, random: &mut Random) {
    single.batch_execute("TRUNCATE items").await.unwrap();
    let good: String = (0..300).map(|n| format!("{}\t{n}\tx\t1.5\t\\N\n", n % 17)).collect();
    for (name, bad) in [
        ("too few columns", "3\t1000\tx\n"),
        ("too many columns", "3\t1000\tx\t1\t\\N\tmore\n"),
        ("a key that is no number", "three\t1000\tx\t1\t\\N\n"),
        ("another value that is none", "3\tone\tx\t1\t\\N\n"),
        ("a number out of range", "99999999999999999999\t1\tx\t1\t\\N\n"),
        ("a key twice", "0\t0\tx\t1\t\\N\n"),
        ("an escape at the end", "3\t1000\tx\t1\t\\N\\"),
    ] {
        for (place, data) in [("last", format!("{good}{bad}")), ("first", format!("{bad}{good}"))] {
            let sql = "COPY items FROM STDIN";
            let expected = copy_in(single, sql, data.as_bytes(), random).await;
            let actual = copy_in(proxy, sql, data.as_bytes(), random).await;
            let told = |result: Result<u64, tokio_postgres::Error>| match result {
                Ok(count) => (count.to_string(), None, None),
                Err(error) => {
                    let db = error.as_db_error().unwrap_or_else(|| panic!("{name} {place}: {error:?}"));
                    let context = db.where_().map(str::to_owned);
                    (db.code().code().to_owned(), Some(db.message().to_owned()), context)
                }
            };
            let (expected, actual) = (told(expected), told(actual));
            assert_eq!((&expected.0, &expected.1), (&actual.0, &actual.1), "{name} {place}");
            if actual.2.is_some() {
                assert_eq!(expected.2, actual.2, "{name} {place}");
            }
            let left = rows(proxy, "items").await;
            assert_eq!(left, rows(single, "items").await, "{name} {place}");
            proxy.batch_execute("TRUNCATE items").await.unwrap();
            single.batch_execute("TRUNCATE items").await.unwrap();
        }
    }
    // In a block, which the error fails.
    proxy.batch_execute("BEGIN; INSERT INTO items VALUES (1, 1), (2, 1), (3, 1)").await.unwrap();
    copy_in(proxy, "COPY items (tenant, id) FROM STDIN", b"4\t1\n5\t1\n6\t1\n", random).await.unwrap();
    assert_eq!(rows(proxy, "items").await.len(), 6);
    assert!(copy_in(proxy, "COPY items (tenant, id) FROM STDIN", b"7\t1\n1\t1\n", random).await.is_err());
    assert_eq!(proxy.batch_execute("SELECT 1").await.unwrap_err().code().unwrap().code(), "25P02");
    proxy.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(proxy, "items").await.len(), 0);
    // NULL as a key, by either option.
    let forced = "COPY names (name, id) FROM STDIN \
         WITH (FORMAT csv, NULL 'nil', FORCE_NULL (name), FORCE_NOT_NULL (name))";
    for (data, placed) in [("nil,1\nother,2\n", true), ("\"nil\",3\n", false)] {
        for client in [single, proxy] {
            client.batch_execute("DELETE FROM names").await.unwrap();
            assert_eq!(copy_in(client, forced, data.as_bytes(), random).await.is_ok(), placed, "{data}");
        }
        assert_eq!(rows(proxy, "names").await, rows(single, "names").await, "{data}");
        assert_eq!(placed_by_name(proxy).await, 0, "{data}");
    }
    // A client that stops.
    let sink = proxy.copy_in::<_, Bytes>("COPY items (tenant, id) FROM STDIN").await.unwrap();
    let mut sink = Box::pin(sink);
    sink.send(Bytes::from_static(b"1\t1\n2\t1\n3\t")).await.unwrap();
    drop(sink);
    assert_eq!(rows(proxy, "items").await.len(), 0);
}

#[tokio::test]
async fn over_one_shard() {
    over(1).await;
}

#[tokio::test]
async fn over_two_shards() {
    over(2).await;
}

#[tokio::test]
async fn over_three_shards() {
    over(3).await;
}

#[tokio::test]
async fn over_four_shards() {
    over(4).await;
}
