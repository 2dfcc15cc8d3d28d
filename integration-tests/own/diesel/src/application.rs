//! A small application: tenants with orders, countries that all share.

use crate::Check;
use crate::checks::Checked;
use crate::checks::equal;
use bigdecimal::BigDecimal;
use diesel::Connection;
use diesel::PgConnection;
use diesel::connection::SimpleConnection;
use diesel::dsl::count_star;
use diesel::dsl::sum;
use diesel::prelude::*;
use diesel::result::DatabaseErrorKind;
use diesel::result::Error;
use diesel::upsert::excluded;

diesel::table! {
    rs_countries (code) {
        code -> Text,
        name -> Text,
    }
}

diesel::table! {
    rs_tenants (tenant_id) {
        tenant_id -> BigInt,
        name -> Text,
        country -> Nullable<Text>,
    }
}

diesel::table! {
    rs_orders (tenant_id, order_id) {
        tenant_id -> BigInt,
        order_id -> BigInt,
        total -> Numeric,
    }
}

diesel::joinable!(rs_tenants -> rs_countries (country));
diesel::joinable!(rs_orders -> rs_tenants (tenant_id));
diesel::allow_tables_to_appear_in_same_query!(rs_countries, rs_tenants, rs_orders);

pub const CHECKS: &[Check] = &[
    ("application schema and rows", fill),
    ("rows of tenants", tenants),
    ("joins and aggregates", joins),
    ("pagination", pages),
    ("transaction over tenants", transaction),
    ("upsert", upsert),
    ("foreign keys", foreign_keys),
    ("migration", migration),
];

fn fill(c: &mut PgConnection) -> Checked {
    c.batch_execute(
        "drop table if exists rs_orders, rs_tenants, rs_countries;
         create table rs_countries (code text primary key, name text not null);
         create table rs_tenants (tenant_id bigint primary key, name text not null, country text references rs_countries);
         create table rs_orders (tenant_id bigint references rs_tenants, order_id bigserial, total numeric(12, 2) not null, primary key (tenant_id, order_id));",
    )?;
    diesel::insert_into(rs_countries::table)
        .values(vec![
            (rs_countries::code.eq("ch"), rs_countries::name.eq("Switzerland")),
            (rs_countries::code.eq("se"), rs_countries::name.eq("Sweden")),
        ])
        .execute(c)?;
    let tenants: Vec<_> = (1..=20i64)
        .map(|i| {
            (
                rs_tenants::tenant_id.eq(i),
                rs_tenants::name.eq(format!("tenant {i}")),
                rs_tenants::country.eq(if i % 2 == 0 { "ch" } else { "se" }),
            )
        })
        .collect();
    equal(diesel::insert_into(rs_tenants::table).values(&tenants).execute(c)?, 20)?;
    let orders: Vec<_> = (1..=20i64)
        .flat_map(|t| {
            (1..=5i64).map(move |n| (rs_orders::tenant_id.eq(t), rs_orders::total.eq(BigDecimal::from(n * 10))))
        })
        .collect();
    let made: Vec<(i64, i64)> = diesel::insert_into(rs_orders::table)
        .values(&orders)
        .returning((rs_orders::tenant_id, rs_orders::order_id))
        .get_results(c)?;
    equal(made.iter().map(|m| m.0).collect::<Vec<_>>(), (1..=20i64).flat_map(|t| [t; 5]).collect::<Vec<_>>())?;
    let mut ids: Vec<i64> = made.iter().map(|m| m.1).collect();
    ids.sort_unstable();
    ids.dedup();
    equal(ids.len(), 100)
}

fn tenants(c: &mut PgConnection) -> Checked {
    for tenant in 1..=20i64 {
        let total: Option<BigDecimal> =
            rs_orders::table.filter(rs_orders::tenant_id.eq(tenant)).select(sum(rs_orders::total)).first(c)?;
        equal(total, Some(BigDecimal::from(150)))?;
    }
    let some: Vec<(i64, i64)> = rs_orders::table
        .filter(rs_orders::tenant_id.eq_any([2i64, 11, 17]))
        .group_by(rs_orders::tenant_id)
        .select((rs_orders::tenant_id, count_star()))
        .order(rs_orders::tenant_id)
        .load(c)?;
    equal(some, vec![(2, 5), (11, 5), (17, 5)])
}

fn joins(c: &mut PgConnection) -> Checked {
    let rows: Vec<(String, i64, Option<BigDecimal>)> = rs_orders::table
        .inner_join(rs_tenants::table.inner_join(rs_countries::table))
        .group_by(rs_countries::name)
        .select((rs_countries::name, count_star(), sum(rs_orders::total)))
        .order(rs_countries::name)
        .load(c)?;
    let each = Some(BigDecimal::from(1500));
    equal(rows, vec![("Sweden".to_owned(), 50, each.clone()), ("Switzerland".to_owned(), 50, each)])
}

fn pages(c: &mut PgConnection) -> Checked {
    let mut seen = Vec::new();
    for offset in (0..100).step_by(30) {
        let page: Vec<(i64, i64)> = rs_orders::table
            .select((rs_orders::tenant_id, rs_orders::order_id))
            .order((rs_orders::tenant_id, rs_orders::order_id))
            .limit(30)
            .offset(offset)
            .load(c)?;
        seen.extend(page);
    }
    equal(seen.len(), 100)?;
    equal(seen.is_sorted(), true)
}

fn transaction(c: &mut PgConnection) -> Checked {
    c.transaction::<_, Error, _>(|c| {
        for tenant in [1i64, 2, 3, 4] {
            diesel::update(rs_orders::table.filter(rs_orders::tenant_id.eq(tenant)))
                .set(rs_orders::total.eq(rs_orders::total + BigDecimal::from(1)))
                .execute(c)?;
        }
        Ok(())
    })?;
    let total: Option<BigDecimal> = rs_orders::table.select(sum(rs_orders::total)).first(c)?;
    equal(total, Some(BigDecimal::from(3020)))?;
    let undone = c.transaction::<(), Error, _>(|c| {
        diesel::delete(rs_orders::table).execute(c)?;
        Err(Error::RollbackTransaction)
    });
    equal(undone.is_err(), true)?;
    equal(rs_orders::table.count().get_result::<i64>(c)?, 100)
}

fn upsert(c: &mut PgConnection) -> Checked {
    for name in ["first", "second"] {
        let rows: Vec<_> = (30..33i64).map(|i| (rs_tenants::tenant_id.eq(i), rs_tenants::name.eq(name))).collect();
        let names: Vec<String> = diesel::insert_into(rs_tenants::table)
            .values(&rows)
            .on_conflict(rs_tenants::tenant_id)
            .do_update()
            .set(rs_tenants::name.eq(excluded(rs_tenants::name)))
            .returning(rs_tenants::name)
            .get_results(c)?;
        equal(names, vec![name; 3])?;
    }
    equal(diesel::delete(rs_tenants::table.filter(rs_tenants::tenant_id.ge(30))).execute(c)?, 3)
}

fn foreign_keys(c: &mut PgConnection) -> Checked {
    let result = diesel::insert_into(rs_orders::table)
        .values((rs_orders::tenant_id.eq(99), rs_orders::total.eq(BigDecimal::from(1))))
        .execute(c);
    equal(matches!(result, Err(Error::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, _))), true)?;
    let result = diesel::delete(rs_tenants::table.find(1)).execute(c);
    equal(matches!(result, Err(Error::DatabaseError(DatabaseErrorKind::ForeignKeyViolation, _))), true)
}

fn migration(c: &mut PgConnection) -> Checked {
    c.transaction::<_, Error, _>(|c| c.batch_execute("alter table rs_orders add column status text not null default 'new'; create index on rs_orders (tenant_id, status)"))?;
    equal(
        diesel::sql_query("update rs_orders set status = 'old' where tenant_id = 4 and status = 'new'").execute(c)?,
        5,
    )?;
    let undone = c.transaction::<(), Error, _>(|c| {
        c.batch_execute("alter table rs_orders drop column status")?;
        Err(Error::RollbackTransaction)
    });
    equal(undone.is_err(), true)?;
    equal(diesel::sql_query("update rs_orders set status = 'new' where status = 'old'").execute(c)?, 5)
}
