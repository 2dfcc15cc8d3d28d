//! A small application: tenants with orders, countries that all share.

use crate::Check;
use crate::basics::connect;
use crate::basics::refused;
use crate::basics::run;
use crate::checks::Checked;
use crate::checks::equal;
use sqlx::Connection;
use sqlx::types::BigDecimal;

pub fn checks() -> Vec<Check> {
    vec![
        ("application schema and rows", Box::pin(fill())),
        ("rows of tenants", Box::pin(tenants())),
        ("joins and aggregates", Box::pin(joins())),
        ("pagination", Box::pin(pages())),
        ("transaction over tenants", Box::pin(transaction())),
        ("upsert", Box::pin(upsert())),
        ("foreign keys", Box::pin(foreign_keys())),
        ("migration", Box::pin(migration())),
    ]
}

async fn fill() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "drop table if exists sqlx_orders, sqlx_tenants, sqlx_countries;
         create table sqlx_countries (code text primary key, name text not null);
         create table sqlx_tenants (tenant_id bigint primary key, name text not null, country text references sqlx_countries);
         create table sqlx_orders (tenant_id bigint references sqlx_tenants, order_id bigint generated always as identity, total numeric(12, 2) not null,
           primary key (tenant_id, order_id));
         insert into sqlx_countries values ('ch', 'Switzerland'), ('se', 'Sweden')").await?;
    let ids: Vec<i64> = (1..=20).collect();
    let made = sqlx::query("insert into sqlx_tenants select i, 'tenant ' || i, case i % 2 when 0 then 'ch' else 'se' end from unnest($1::bigint[]) i").bind(&ids).execute(&mut c).await?;
    equal(made.rows_affected(), 20)?;
    let mut numbers = Vec::new();
    for tenant in &ids {
        for n in 1..=5 {
            let number: i64 =
                sqlx::query_scalar("insert into sqlx_orders (tenant_id, total) values ($1, $2) returning order_id")
                    .bind(tenant)
                    .bind(BigDecimal::from(n * 10))
                    .fetch_one(&mut c)
                    .await?;
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    equal(numbers.len(), 100)
}

async fn tenants() -> Checked {
    let mut c = connect().await?;
    for tenant in 1..=20i64 {
        let total: BigDecimal = sqlx::query_scalar("select sum(total) from sqlx_orders where tenant_id = $1")
            .bind(tenant)
            .fetch_one(&mut c)
            .await?;
        equal(total, BigDecimal::from(150))?;
    }
    let some: Vec<(i64, i64)> =
        sqlx::query_as("select tenant_id, count(*) from sqlx_orders where tenant_id = any($1) group by 1 order by 1")
            .bind(vec![2i64, 11, 17])
            .fetch_all(&mut c)
            .await?;
    equal(some, vec![(2, 5), (11, 5), (17, 5)])
}

async fn joins() -> Checked {
    let mut c = connect().await?;
    let rows: Vec<(String, i64, BigDecimal)> = sqlx::query_as(
        "select c.name, count(*), sum(o.total) from sqlx_tenants t join sqlx_countries c on c.code = t.country join sqlx_orders o using (tenant_id) where o.total > $1 group by 1 order by 1",
    )
    .bind(BigDecimal::from(5))
    .fetch_all(&mut c)
    .await?;
    equal(
        rows,
        vec![("Sweden".to_owned(), 50, BigDecimal::from(1500)), ("Switzerland".to_owned(), 50, BigDecimal::from(1500))],
    )
}

async fn pages() -> Checked {
    let mut c = connect().await?;
    let mut seen = Vec::new();
    for offset in (0..100i64).step_by(30) {
        let page: Vec<(i64, i64)> =
            sqlx::query_as("select tenant_id, order_id from sqlx_orders order by 1, 2 limit $1 offset $2")
                .bind(30i64)
                .bind(offset)
                .fetch_all(&mut c)
                .await?;
        seen.extend(page);
    }
    equal(seen.len(), 100)?;
    equal(seen.is_sorted(), true)
}

async fn transaction() -> Checked {
    let mut c = connect().await?;
    let mut t = c.begin().await?;
    for tenant in 1..=4i64 {
        let done = sqlx::query("update sqlx_orders set total = total + 1 where tenant_id = $1")
            .bind(tenant)
            .execute(&mut *t)
            .await?;
        equal(done.rows_affected(), 5)?;
    }
    t.commit().await?;
    let mut t = c.begin().await?;
    equal(sqlx::query("delete from sqlx_orders").execute(&mut *t).await?.rows_affected(), 100)?;
    t.rollback().await?;
    let total: BigDecimal = sqlx::query_scalar("select sum(total) from sqlx_orders").fetch_one(&mut c).await?;
    equal(total, BigDecimal::from(3020))
}

async fn upsert() -> Checked {
    let mut c = connect().await?;
    for name in ["first", "second"] {
        let text = "insert into sqlx_tenants (tenant_id, name) values ($1, $3), ($2, $3) on conflict (tenant_id) do update set name = excluded.name returning name";
        let names: Vec<String> = sqlx::query_scalar(text).bind(30i64).bind(31i64).bind(name).fetch_all(&mut c).await?;
        equal(names, vec![name; 2])?;
    }
    equal(
        sqlx::query("delete from sqlx_tenants where tenant_id >= $1")
            .bind(30i64)
            .execute(&mut c)
            .await?
            .rows_affected(),
        2,
    )
}

async fn foreign_keys() -> Checked {
    let mut c = connect().await?;
    refused(
        sqlx::query("insert into sqlx_orders (tenant_id, total) values ($1, 1)").bind(99i64).execute(&mut c).await,
        "23503",
    )?;
    refused(sqlx::query("delete from sqlx_tenants where tenant_id = $1").bind(1i64).execute(&mut c).await, "23503")
}

async fn migration() -> Checked {
    let mut c = connect().await?;
    let count = "select count(*) from sqlx_orders where status = $1";
    let mut t = c.begin().await?;
    sqlx::raw_sql("alter table sqlx_orders add column status text not null default 'new'; create index on sqlx_orders (tenant_id, status)").execute(&mut *t).await?;
    t.commit().await?;
    equal(sqlx::query_scalar::<_, i64>(count).bind("new").fetch_one(&mut c).await?, 100)?;
    let mut t = c.begin().await?;
    sqlx::raw_sql("alter table sqlx_orders drop column status").execute(&mut *t).await?;
    t.rollback().await?;
    equal(sqlx::query_scalar::<_, i64>(count).bind("new").fetch_one(&mut c).await?, 100)
}
