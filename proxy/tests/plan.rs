//! Plan cases: `tests/plan/*.plan`, each a name, a statement, and the printed plan with the shards that its own values
//! lead to.
//!
//! `UPDATE_PLANS=1 cargo test -p shardway --test plan` writes what is planned now into the files; every changed line
//! is to be read before it is kept. The catalog is what a real PostgreSQL said (see `plan/record.sh`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use shardway::catalog::Catalog;
use shardway::catalog::schema;
use shardway::catalog::schema::ShardSchema;
use shardway::config;
use shardway::config::MapConfig;
use shardway::config::MapFunction;
use shardway::config::TableConfig;
use shardway::config::TablePlace;
use shardway::plan;
use shardway::plan::Context;
use shardway::plan::Plan;
use shardway::route;
use shardway::route::Route;
use shardway::route::Values;
use shardway::sql::Statement;
use shardway::sql::normalize;
use shardway::value::Datum;
use shardway::value::KeyType;
use std::fmt::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

const SHARDS: [&str; 3] = ["s0", "s1", "s2"];

/// Tables of one shard only.
const ON_S0: [&str; 6] = ["settings", "counters", "counters_id_seq", "counters_pkey", "numbers", "named_settings"];
const ON_S2: [&str; 2] = ["far", "far_pkey"];

#[test]
fn plans_are_as_written() {
    let catalog = catalog();
    let update = std::env::var_os("UPDATE_PLANS").is_some();
    let mut wrong = String::new();
    let mut cases = 0;
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut new = String::new();
        for case in read_cases(&text) {
            cases += 1;
            let planned = planned(&catalog, &case.sql);
            if planned != case.expected {
                let _ = writeln!(
                    wrong,
                    "{}: {}\n{}\n---- expected\n{}\n---- planned\n{planned}\n",
                    file.display(),
                    case.name,
                    case.sql,
                    case.expected
                );
            }
            let _ = writeln!(new, "-- {}\n{}\n----\n{planned}\n", case.name, case.sql);
        }
        if update {
            std::fs::write(&file, new.trim_end().to_owned() + "\n").unwrap();
        }
    }
    assert!(cases > 0, "no cases");
    if !update {
        assert!(wrong.is_empty(), "{wrong}");
    }
}

/// A plan cached for one text serves another of the same form: it must be the plan that is made for the other.
#[test]
fn plans_do_not_depend_on_literals_that_they_do_not_name() {
    let catalog = catalog();
    for file in files() {
        for case in read_cases(&std::fs::read_to_string(&file).unwrap()) {
            let statement = Statement::new(Arc::from(case.sql.as_str()), true).unwrap();
            let Plan::Rows(rows) = plan::plan(&statement, &context(&catalog)) else { continue };
            let other = replace_literals(&case.sql, &rows.fixed);
            let other_statement = Statement::new(Arc::from(other.as_str()), true).unwrap();
            let Plan::Rows(other_rows) = plan::plan(&other_statement, &context(&catalog)) else {
                panic!("{}: {other} has another kind of plan", case.name);
            };
            assert_eq!(format!("{rows:?}"), format!("{other_rows:?}"), "{}: {other}", case.name);
        }
    }
}

/// Whatever a client sends is planned, not panicked on.
#[test]
fn no_prefix_of_a_statement_panics() {
    let catalog = catalog();
    for file in files() {
        for case in read_cases(&std::fs::read_to_string(&file).unwrap()) {
            for (end, _) in case.sql.char_indices().filter(|(at, c)| *at > 0 && !c.is_alphanumeric()) {
                let _ = planned(&catalog, &case.sql[..end]);
            }
        }
    }
}

#[test]
fn statements_that_multiply_are_refused() {
    let catalog = catalog();
    let mut sql = "WITH c0 AS (SELECT 1 AS a FROM orders)".to_owned();
    for n in 1..40 {
        let _ = write!(sql, ", c{n} AS (SELECT x.a FROM c{} x, c{} y)", n - 1, n - 1);
    }
    sql.push_str(" SELECT count(*) FROM c39");
    assert!(planned(&catalog, &sql).contains("so many tables"));
    let joins = " JOIN users u USING (tenant_id)".repeat(400);
    assert!(planned(&catalog, &format!("SELECT 1 FROM orders{joins}")).contains("error"));
}

fn replace_literals(sql: &str, fixed: &[usize]) -> String {
    let mut scanned = normalize::Normalized::default();
    normalize::scan(sql, true, &mut scanned).unwrap();
    let mut other = sql.to_owned();
    for (n, literal) in scanned.literals.iter().enumerate().rev() {
        let range = literal.start as usize..literal.end as usize;
        match literal.kind {
            _ if fixed.contains(&n) => {}
            normalize::LiteralKind::Integer => other.replace_range(range, "4711"),
            normalize::LiteralKind::PlainString => other.replace_range(range, "'2031-07-09'"),
            _ => {}
        }
    }
    other
}

struct Case {
    name: String,
    sql: String,
    expected: String,
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "plan"))
        .collect();
    files.sort();
    files
}

fn read_cases(text: &str) -> Vec<Case> {
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

fn context(catalog: &Catalog) -> Context<'_> {
    static PATH: std::sync::OnceLock<Vec<String>> = std::sync::OnceLock::new();
    Context {
        catalog,
        search_path: PATH.get_or_init(|| vec!["public".to_owned()]),
        temporary: &[],
        param_types: &[],
        standard_conforming_strings: true,
        forced_shard: None,
    }
}

fn planned(catalog: &Catalog, sql: &str) -> String {
    let statement = match Statement::new(Arc::from(sql), true) {
        Ok(statement) => statement,
        Err(error) => return format!("error {error}"),
    };
    let plan = plan::plan(&statement, &context(catalog));
    let mut printed = plan.display(catalog, Some(&statement)).to_string();
    if let Plan::Rows(rows) = &plan
        && matches!(rows.target, plan::Target::Keys { .. })
        && !sql.contains('$')
    {
        let mut scanned = normalize::Normalized::default();
        normalize::scan(sql, true, &mut scanned).unwrap();
        let values = Values {
            text: sql,
            literals: &scanned.literals,
            params: &[],
            standard_conforming_strings: true,
            drawn: &[],
        };
        let route = route::shards(&rows.target, &values, catalog, rows.effect == plan::Effect::Write);
        let route = match route {
            Ok(Route::One(shard)) => catalog.shard_name(shard).to_owned(),
            Ok(Route::Several(shards)) => shards.iter().map(|s| catalog.shard_name(*s)).collect::<Vec<_>>().join(", "),
            Ok(other) => format!("{other:?}").to_lowercase(),
            Err(error) => format!("error {error}"),
        };
        let _ = write!(printed, "\nhere: {route}");
    }
    printed
}

fn catalog() -> Catalog {
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

fn database() -> config::Database {
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
    let by_tenant = [
        "tenants",
        "users",
        "orders",
        "order_items",
        "loose",
        "tickets",
        "audited",
        "guarded",
        "mails",
        "moods",
        "invoices",
    ];
    sharded(&by_tenant, 0, &["tenant_id"]);
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
