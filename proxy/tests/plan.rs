//! Plan cases: `tests/plan/*.plan`, each a name, a statement, and the printed plan with the shards that its own values
//! lead to.
//!
//! `UPDATE_PLANS=1 cargo test -p shardway --test plan` writes what is planned now into the files; every changed line
//! is to be read before it is kept. The catalog is what a real PostgreSQL said (see `plan/record.sh`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "plan/fixture.rs"]
mod fixture;

use fixture::catalog;
use fixture::files;
use fixture::read_cases;
use shardway::catalog::Catalog;
use shardway::plan;
use shardway::plan::Context;
use shardway::plan::Plan;
use shardway::route;
use shardway::route::Route;
use shardway::route::Values;
use shardway::sql::Statement;
use shardway::sql::normalize;
use std::fmt::Write as _;
use std::sync::Arc;

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
