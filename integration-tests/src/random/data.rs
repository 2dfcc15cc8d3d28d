//! Rows for the tables: few different values, NULLs, and what PostgreSQL compares in a way of its own.

use super::rng::Rng;
use super::tables::SCHEMA;
use super::tables::layout;
use crate::client::Client;
use crate::deployment::Deployment;
use crate::deployment::SINGLE;
use crate::shop;

/// Days around the bounds of the range map, with their numbers since 2000.
pub const DAYS: [(&str, i32); 6] = [
    ("2024-01-01", 8766),
    ("2024-01-02", 8767),
    ("2024-01-03", 8768),
    ("2024-01-04", 8769),
    ("2024-01-05", 8770),
    ("2024-01-09", 8774),
];
pub const NUMERICS: [&str; 9] = ["1.0", "1.00", "1", "-0.5", "NaN", "Infinity", "100.25", "0", "0.000"];
pub const FLOATS: [&str; 8] = ["0", "-0", "1", "1.5", "NaN", "Infinity", "-Infinity", "0.25"];
pub const TEXTS: [&str; 9] = ["a", "A", "b", "B ", "ä", "", "ab", "Ab", "a b"];
pub const CHARS: [&str; 5] = ["a", "a ", "A", "b", ""];
pub const NAMES: [&str; 6] = ["a", "A", "b", "b ", "ä", "zeta"];
pub const REGIONS: [&str; 4] = ["eu", "us", "EU", "ap"];
pub const PLANS: [&str; 4] = ["free", "trial", "paid", "other"];
pub const STAMPS: [&str; 4] =
    ["2024-01-01 00:00:00", "2024-01-02 12:30:00.5", "2024-01-02 12:30:00.25", "1999-12-31 23:59:59"];
pub const ZONED: [&str; 3] = ["2024-01-01 00:00:00+00", "2024-01-01 01:00:00+01", "2024-06-01 12:00:00+02"];
pub const INTERVALS: [&str; 6] = ["1 day", "24 hours", "1 mon", "30 days", "-1 day", "0"];
pub const UUIDS: [&str; 4] = [
    "00000000-0000-0000-0000-000000000001",
    "00000000-0000-0000-0000-000000000002",
    "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
];
pub const JSONS: [&str; 4] = [r#"{"a": 1}"#, r#"{"a": 1.0}"#, "[1, 2]", "null"];
pub const BYTES: [&str; 4] = ["\\x00", "\\x", "\\xff01", "\\x41"];

/// A running proxy before shards with data, one PostgreSQL with the same rows, and its mirror image.
pub fn deploy(shards: usize) -> Deployment {
    let deployment = Deployment::start(layout(shards));
    let rows = rows();
    let cluster = deployment.cluster(0);
    for name in [SINGLE, shop::MIRRORED] {
        cluster.create_database(name);
        let mut client = Client::connect(&cluster.app(name));
        client.execute(SCHEMA);
        client.execute(&rows.join(";\n"));
        client.execute("ANALYZE");
    }
    shop::mirror(cluster);
    let mut client = deployment.connect();
    for statement in SCHEMA.split(";\n").map(str::trim).filter(|s| !s.is_empty()) {
        client.execute(statement);
    }
    for row in &rows {
        if row.starts_with("INSERT INTO ra ") || row.starts_with("INSERT INTO rb ") {
            deployment.execute_on_shards(row);
        } else {
            client.execute(row);
        }
    }
    deployment.execute_on_shards("ANALYZE");
    deployment
}

/// INSERT statements, one for each row.
pub fn rows() -> Vec<String> {
    let mut rng = Rng::new(20_240_101);
    let r = &mut rng;
    let mut out = Vec::new();
    for id in 1..=36 {
        let k = if id % 12 == 0 { "NULL".into() } else { key(r, 9) };
        let values = [
            k,
            id.to_string(),
            int(r),
            quoted(r, &NUMERICS),
            quoted(r, &FLOATS),
            quoted(r, &TEXTS),
            quoted(r, &TEXTS),
            quoted(r, &CHARS),
            day(r),
            quoted(r, &STAMPS),
            quoted(r, &INTERVALS),
            r.text(&["true", "false", "NULL"]).into(),
            quoted(r, &JSONS),
            quoted(r, &BYTES),
        ];
        out.push(format!("INSERT INTO a VALUES ({})", values.join(", ")));
    }
    for id in 1..=30 {
        let values = [
            key(r, 7),
            id.to_string(),
            int(r),
            numeric(r),
            quoted(r, &["0", "-0", "1.5", "2", "NaN"]),
            quoted(r, &TEXTS),
            day(r),
        ];
        out.push(format!("INSERT INTO b VALUES ({})", values.join(", ")));
    }
    for id in 1..=16 {
        let array = r.text(&["'{1,2}'", "'{}'", "'{2,NULL}'", "NULL", "'{1,2}'"]).to_string();
        let values =
            [id.to_string(), int(r), key(r, 6), quoted(r, &TEXTS), quoted(r, &ZONED), array, quoted(r, &UUIDS)];
        out.push(format!("INSERT INTO c VALUES ({})", values.join(", ")));
    }
    for id in 1..=14 {
        let name = quoted(r, &NAMES);
        out.push(format!("INSERT INTO nm VALUES ({name}, {id}, {}, {}, {})", int(r), quoted(r, &NUMERICS), key(r, 5)));
        out.push(format!("INSERT INTO uu VALUES ({}, {id}, {}, {})", quoted(r, &UUIDS), int(r), quoted(r, &TEXTS)));
        let region = r.text(&REGIONS);
        out.push(format!("INSERT INTO co VALUES ('{region}', {}, {id}, {}, {})", key(r, 4), int(r), numeric(r)));
        let region = quoted(r, &REGIONS);
        out.push(format!("INSERT INTO co2 VALUES ({}, {region}, {id}, {})", key(r, 4), int(r)));
        let day = r.pick(&DAYS).0;
        out.push(format!("INSERT INTO ev VALUES ('{day}', {id}, {}, {})", int(r), quoted(r, &TEXTS)));
        out.push(format!("INSERT INTO li VALUES ('{}', {id}, {})", r.text(&PLANS), int(r)));
    }
    for id in 1..=6 {
        out.push(format!("INSERT INTO ra VALUES ({id}, {}, {}, {})", int(r), key(r, 7), quoted(r, &TEXTS)));
        out.push(format!("INSERT INTO rb VALUES ({id}, {}, {}, {})", numeric(r), quoted(r, &NAMES), day(r)));
        out.push(format!("INSERT INTO s VALUES ({id}, {}, {}, {})", int(r), key(r, 7), quoted(r, &TEXTS)));
    }
    out
}

fn key(r: &mut Rng, bound: usize) -> String {
    (r.below(bound) + 1).to_string()
}

fn int(r: &mut Rng) -> String {
    if r.chance(15) { "NULL".into() } else { (r.below(7) as i64 - 1).to_string() }
}

fn numeric(r: &mut Rng) -> String {
    if r.chance(15) { "NULL".into() } else { r.text(&["1.0", "2.50", "-3", "0", "10.25"]).into() }
}

fn day(r: &mut Rng) -> String {
    if r.chance(12) { "NULL".into() } else { format!("'{}'", r.pick(&DAYS).0) }
}

fn quoted(r: &mut Rng, from: &[&str]) -> String {
    if r.chance(12) { "NULL".into() } else { format!("'{}'", r.text(from)) }
}
