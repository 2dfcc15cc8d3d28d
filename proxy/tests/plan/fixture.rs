//! The cases of `tests/plan/*.plan`, and the catalog that they are planned against: what a real PostgreSQL said (see
//! `plan/record.sh`), on three shards.

#[path = "by_tenant.rs"]
mod by_tenant;

use by_tenant::BY_TENANT;
use shardway::catalog::Catalog;
use shardway::catalog::schema;
use shardway::catalog::schema::ShardSchema;
use shardway::config;
use shardway::config::MapConfig;
use shardway::config::MapFunction;
use shardway::config::TableConfig;
use shardway::config::TablePlace;
use shardway::value::Datum;
use shardway::value::KeyType;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

const SHARDS: [&str; 3] = ["s0", "s1", "s2"];

/// Tables of one shard only.
const ON_S0: [&str; 6] = ["settings", "counters", "counters_id_seq", "counters_pkey", "numbers", "named_settings"];
const ON_S2: [&str; 2] = ["far", "far_pkey"];

pub struct Case {
    #[allow(dead_code)]
    pub name: String,
    pub sql: String,
    pub expected: String,
}

pub fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "plan"))
        .collect();
    files.sort();
    files
}

pub fn read_cases(text: &str) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    let mut in_plan = false;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("-- ")
            && (in_plan || cases.is_empty())
        {
            cases.push(Case { name: name.to_owned(), sql: String::new(), expected: String::new() });
            in_plan = false;
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        if line == "----" && !in_plan {
            in_plan = true;
            continue;
        }
        let part = if in_plan { &mut case.expected } else { &mut case.sql };
        part.push_str(line);
        part.push('\n');
    }
    for case in &mut cases {
        case.sql = case.sql.trim().to_owned();
        case.expected = case.expected.trim_end().to_owned();
    }
    cases
}

/// The catalog of three shards.
pub fn catalog() -> Catalog {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let recorded = read("schema.json");
    let shard = |n: usize| -> Option<ShardSchema> {
        let mut schema = schema::parse(&recorded).unwrap();
        schema.relations.retain(|r| match r.name.as_str() {
            name if ON_S0.contains(&name) => n == 0,
            name if ON_S2.contains(&name) => n == 2,
            _ => true,
        });
        Some(schema)
    };
    let shards: Vec<Option<ShardSchema>> = (0..SHARDS.len()).map(shard).collect();
    let builtins = schema::parse_builtins(&read("builtins.json")).unwrap();
    Catalog::build(&database(), &shards, Arc::new(builtins), 1).unwrap()
}

pub fn database() -> config::Database {
    let text = |value: &str| Datum::Text(value.to_owned().into());
    let date = |days: i32| Some(vec![Datum::Date(days)]);
    let hash = || MapFunction::Hash((0..4096).map(|bucket| bucket * SHARDS.len() / 4096).collect());
    let map = |name: &str, key: &[KeyType], function: MapFunction| MapConfig {
        name: name.to_owned(),
        key: key.to_vec(),
        function,
        pins: Vec::new(),
        placed_by_default: false,
    };
    // 2024-01-01 and 2024-07-01 in days since 2000-01-01
    let months = vec![(None, date(8766), 0), (date(8766), date(8948), 1), (date(8948), None, 2)];
    let zones = MapFunction::List {
        values: vec![(vec![text("a")], 0), (vec![text("b")], 0), (vec![text("c")], 1)],
        default: None,
    };
    let maps = vec![
        map("tenants", &[KeyType::BigInt], hash()),
        map("logins", &[KeyType::Text], hash()),
        map("devices", &[KeyType::Uuid], hash()),
        map("readings", &[KeyType::Text, KeyType::BigInt], hash()),
        map("months", &[KeyType::Date], MapFunction::Range(months)),
        map("zones", &[KeyType::Text], zones),
    ];
    let mut tables = Vec::new();
    let mut sharded = |names: &[&str], map: usize, key: &[&str]| {
        tables.extend(names.iter().map(|name| TableConfig {
            schema: "public".to_owned(),
            name: (*name).to_owned(),
            place: TablePlace::Sharded { map, key: key.iter().map(|k| (*k).to_owned()).collect() },
        }));
    };
    sharded(&BY_TENANT, 0, &["tenant_id"]);
    sharded(&["accounts"], 1, &["login"]);
    sharded(&["devices"], 2, &["id"]);
    sharded(&["readings"], 3, &["region", "device"]);
    sharded(&["events"], 4, &["day"]);
    sharded(&["parcels"], 5, &["zone"]);
    tables.extend(["countries", "plans"].iter().map(|name| TableConfig {
        schema: "public".to_owned(),
        name: (*name).to_owned(),
        place: TablePlace::Reference,
    }));
    let shard = |name: &&str| config::Shard {
        name: (*name).to_owned(),
        primary: config::Endpoint {
            host: "127.0.0.1".to_owned(),
            port: 5432,
            database: "shop".to_owned(),
            login: None,
            tls: config::ServerTls { mode: config::SslMode::Disable, root_certificate: None },
        },
    };
    config::Database {
        name: "shop".to_owned(),
        unlisted: config::UnlistedTables::Single,
        control: None,
        shards: SHARDS.iter().map(shard).collect(),
        maps,
        tables,
        column_rules: Vec::new(),
        functions: Vec::new(),
        merge_bytes: 1 << 20,
        commit: config::CommitMode::TwoPhase,
    }
}
