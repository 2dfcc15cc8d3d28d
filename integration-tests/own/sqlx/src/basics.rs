//! Connecting, statements, types, prepared statements, transactions, errors, COPY, notifications.

use crate::Check;
use crate::checks::Checked;
use crate::checks::equal;
use futures_util::StreamExt;
use futures_util::TryStreamExt;
use sqlx::Column;
use sqlx::ConnectOptions;
use sqlx::Connection;
use sqlx::Executor;
use sqlx::PgConnection;
use sqlx::Row;
use sqlx::SqlSafeStr;
use sqlx::Statement;
use sqlx::TypeInfo;
use sqlx::postgres::PgConnectOptions;
use sqlx::postgres::PgListener;
use sqlx::postgres::PgPoolCopyExt;
use sqlx::postgres::PgPoolOptions;
use sqlx::postgres::PgSslMode;
use sqlx::types::BigDecimal;
use sqlx::types::Uuid;
use sqlx::types::chrono::DateTime;
use sqlx::types::chrono::NaiveDate;
use sqlx::types::chrono::Utc;
use std::str::FromStr;
use std::time::Duration;

pub fn checks() -> Vec<Check> {
    vec![
        ("connect with TLS and a verified certificate", Box::pin(tls())),
        ("options of the connection", Box::pin(options())),
        ("several statements in one", Box::pin(several())),
        ("types both ways", Box::pin(types())),
        ("enum and composite by name", Box::pin(own_types())),
        ("prepared statement, reused", Box::pin(reused())),
        ("more statements than the cache holds", Box::pin(evicted())),
        ("without keeping statements", Box::pin(not_kept())),
        ("prepared statement after a schema change", Box::pin(changed())),
        ("describe", Box::pin(described())),
        ("transactions and savepoints", Box::pin(transactions())),
        ("errors", Box::pin(errors())),
        ("stream of rows", Box::pin(streamed())),
        ("copy in and out", Box::pin(copies())),
        ("listen and notify", Box::pin(listening())),
        ("statement time-out", Box::pin(time_out())),
        ("dropped half way", Box::pin(dropped())),
        ("pool with many tasks", Box::pin(pool())),
    ]
}

pub async fn connect() -> sqlx::Result<PgConnection> {
    PgConnectOptions::new().ssl_mode(PgSslMode::Disable).connect().await
}

pub async fn run(c: &mut PgConnection, text: &'static str) -> sqlx::Result<()> {
    c.execute(sqlx::raw_sql(text)).await.map(|_| ())
}

/// # Errors
/// When there was no error, or one with another SQLSTATE.
pub fn refused<T>(result: sqlx::Result<T>, sqlstate: &str) -> Checked {
    match result {
        Err(sqlx::Error::Database(error)) => equal(error.code().as_deref(), Some(sqlstate)),
        Err(error) => Err(error.into()),
        Ok(_) => Err(format!("expected {sqlstate}, got no error").into()),
    }
}

async fn tls() -> Checked {
    let ca = std::env::var("SHARDWAY_CA")?;
    let mut c = PgConnectOptions::new().ssl_mode(PgSslMode::VerifyFull).ssl_root_cert(ca).connect().await?;
    let n: i32 = sqlx::query_scalar("select $1 + 1").bind(41).fetch_one(&mut c).await?;
    equal(n, 42)
}

async fn options() -> Checked {
    let mut c = PgConnectOptions::new()
        .application_name("checks")
        .options([("work_mem", "5MB"), ("statement_timeout", "7s")])
        .connect()
        .await?;
    for (name, value) in
        [("application_name", "checks"), ("work_mem", "5MB"), ("statement_timeout", "7s"), ("extra_float_digits", "2")]
    {
        let shown: String = sqlx::query_scalar("select current_setting($1)").bind(name).fetch_one(&mut c).await?;
        equal(shown, value)?;
    }
    c.ping().await?;
    c.close().await?;
    Ok(())
}

async fn several() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "drop table if exists sqlx_rows; create table sqlx_rows (id int primary key, name text not null); insert into sqlx_rows values (1, 'a'), (2, 'b')").await?;
    let rows = sqlx::raw_sql("select 1 as n; select 2 as n").fetch_all(&mut c).await?;
    equal(rows.iter().map(|r| r.get::<i32, _>("n")).collect::<Vec<_>>(), vec![1, 2])
}

async fn types() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "drop table if exists sqlx_types; create table sqlx_types (id int primary key, i2 int2, i8 int8, n numeric(20, 5), f8 float8, b bool, t text, by bytea,
         j jsonb, u uuid, d date, tz timestamptz, ia int[], ta text[], nil text)").await?;
    let number = BigDecimal::from_str("12345678901.12345")?;
    let moment: DateTime<Utc> = "2024-02-29T12:34:56.789Z".parse()?;
    let day = NaiveDate::from_ymd_opt(2024, 2, 29);
    let document = serde_json(r#"{"a": [1, null]}"#)?;
    sqlx::query("insert into sqlx_types values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)")
        .bind(1)
        .bind(-7i16)
        .bind(9_007_199_254_740_993i64)
        .bind(&number)
        .bind(0.1f64)
        .bind(true)
        .bind("ünïcødé ' \" \\")
        .bind(&[0u8, 1, 255][..])
        .bind(&document)
        .bind(Uuid::from_u128(7))
        .bind(day)
        .bind(moment)
        .bind(vec![Some(1), None, Some(3)])
        .bind(vec!["a,b", ""])
        .bind(None::<String>)
        .execute(&mut c)
        .await?;
    for _ in 0..2 {
        let row = sqlx::query("select * from sqlx_types where id = $1").bind(1).fetch_one(&mut c).await?;
        equal(row.try_get::<i16, _>("i2")?, -7)?;
        equal(row.try_get::<i64, _>("i8")?, 9_007_199_254_740_993)?;
        equal(row.try_get::<BigDecimal, _>("n")?, number.clone())?;
        equal(row.try_get::<f64, _>("f8")?, 0.1)?;
        equal(row.try_get::<String, _>("t")?, "ünïcødé ' \" \\")?;
        equal(row.try_get::<Vec<u8>, _>("by")?, vec![0, 1, 255])?;
        equal(row.try_get::<sqlx::types::JsonValue, _>("j")?, document.clone())?;
        equal(row.try_get::<Uuid, _>("u")?, Uuid::from_u128(7))?;
        equal(row.try_get::<Option<NaiveDate>, _>("d")?, day)?;
        equal(row.try_get::<DateTime<Utc>, _>("tz")?, moment)?;
        equal(row.try_get::<Vec<Option<i32>>, _>("ia")?, vec![Some(1), None, Some(3)])?;
        equal(row.try_get::<Vec<String>, _>("ta")?, vec!["a,b".to_owned(), String::new()])?;
        equal(row.try_get::<Option<String>, _>("nil")?, None::<String>)?;
    }
    Ok(())
}

fn serde_json(text: &str) -> Result<sqlx::types::JsonValue, Box<dyn std::error::Error + Send + Sync>> {
    Ok(text.parse::<sqlx::types::JsonValue>()?)
}

#[derive(Debug, Clone, Copy, PartialEq, sqlx::Type)]
#[sqlx(type_name = "sqlx_mood", rename_all = "lowercase")]
enum Mood {
    Sad,
    Happy,
}

#[derive(Debug, Clone, PartialEq, sqlx::Type)]
#[sqlx(type_name = "sqlx_point")]
struct Point {
    x: i32,
    label: String,
}

async fn own_types() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "drop table if exists sqlx_own; drop type if exists sqlx_mood; drop type if exists sqlx_point; create type sqlx_mood as enum ('sad', 'happy');
         create type sqlx_point as (x int, label text); create table sqlx_own (id int primary key, m sqlx_mood, p sqlx_point)").await?;
    let mut c = connect().await?;
    let point = Point { x: 1, label: "a, b".to_owned() };
    sqlx::query("insert into sqlx_own values ($1, $2, $3)")
        .bind(1)
        .bind(Mood::Happy)
        .bind(&point)
        .execute(&mut c)
        .await?;
    let row = sqlx::query("select m, p from sqlx_own where m <> $1").bind(Mood::Sad).fetch_one(&mut c).await?;
    equal(row.try_get::<Mood, _>("m")?, Mood::Happy)?;
    equal(row.try_get::<Point, _>("p")?, point)
}

async fn reused() -> Checked {
    let mut c = connect().await?;
    for i in 0..30 {
        let n: i32 = sqlx::query_scalar("select $1 + $2").bind(i).bind(1).fetch_one(&mut c).await?;
        equal(n, i + 1)?;
    }
    equal(c.cached_statements_size(), 1)?;
    c.clear_cached_statements().await?;
    let n: i32 = sqlx::query_scalar("select $1 + $2").bind(1).bind(1).fetch_one(&mut c).await?;
    equal(n, 2)
}

async fn evicted() -> Checked {
    let mut c = PgConnectOptions::new().statement_cache_capacity(5).connect().await?;
    for round in 0..3 {
        for i in 0..20 {
            let text = sqlx::AssertSqlSafe(format!("select {i} + $1"));
            let n: i32 = sqlx::query_scalar(text).bind(round).fetch_one(&mut c).await?;
            equal(n, i + round)?;
        }
    }
    Ok(())
}

async fn not_kept() -> Checked {
    let mut c = connect().await?;
    for i in 0..5 {
        let n: i32 = sqlx::query_scalar("select $1 + 1").bind(i).persistent(false).fetch_one(&mut c).await?;
        equal(n, i + 1)?;
    }
    Ok(())
}

async fn changed() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "drop table if exists sqlx_changing; create table sqlx_changing (id int primary key, a int); insert into sqlx_changing values (1, 2)").await?;
    let read = "select a from sqlx_changing where id = $1";
    let a: i32 = sqlx::query_scalar(read).bind(1).fetch_one(&mut c).await?;
    equal(a, 2)?;
    let mut other = connect().await?;
    run(&mut other, "alter table sqlx_changing add column b text").await?;
    let a: i32 = sqlx::query_scalar(read).bind(1).fetch_one(&mut c).await?;
    equal(a, 2)?;
    run(&mut other, "alter table sqlx_changing alter column a type int8").await?;
    refused(sqlx::query_scalar::<_, i64>(read).bind(1).fetch_one(&mut c).await, "0A000")?;
    c.clear_cached_statements().await?;
    let a: i64 = sqlx::query_scalar(read).bind(1).fetch_one(&mut c).await?;
    equal(a, 2)
}

async fn described() -> Checked {
    let mut c = connect().await?;
    let statement = c.prepare("select $1::int8 as a, 'x'::text as b".into_sql_str()).await?;
    let columns: Vec<_> =
        statement.columns().iter().map(|c| format!("{} {}", c.name(), c.type_info().name())).collect();
    equal(columns, vec!["a INT8", "b TEXT"])
}

async fn transactions() -> Checked {
    several().await?;
    let mut c = connect().await?;
    let insert = "insert into sqlx_rows values ($1, 'x')";
    let mut outer = c.begin().await?;
    sqlx::query(insert).bind(3).execute(&mut *outer).await?;
    let mut inner = outer.begin().await?;
    refused(sqlx::query(insert).bind(1).execute(&mut *inner).await, "23505")?;
    refused(sqlx::query(insert).bind(4).execute(&mut *inner).await, "25P02")?;
    inner.rollback().await?;
    let mut inner = outer.begin().await?;
    sqlx::query(insert).bind(5).execute(&mut *inner).await?;
    inner.commit().await?;
    outer.commit().await?;
    {
        let mut lost = c.begin_with("begin isolation level repeatable read").await?;
        sqlx::query(insert).bind(6).execute(&mut *lost).await?;
        // Dropped: the driver rolls back before its next statement.
    }
    let ids: Vec<i32> = sqlx::query_scalar("select id from sqlx_rows order by id").fetch_all(&mut c).await?;
    equal(ids, vec![1, 2, 3, 5])
}

async fn errors() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "drop table if exists sqlx_errors; create table sqlx_errors (id int primary key, n int not null check (n > 0)); insert into sqlx_errors values (1, 1)").await?;
    let insert = "insert into sqlx_errors values ($1, $2)";
    let Err(sqlx::Error::Database(error)) = sqlx::query(insert).bind(1).bind(1).execute(&mut c).await else {
        return Err("no error".into());
    };
    equal(
        (error.is_unique_violation(), error.constraint(), error.table()),
        (true, Some("sqlx_errors_pkey"), Some("sqlx_errors")),
    )?;
    refused(sqlx::query(insert).bind(2).bind(-1).execute(&mut c).await, "23514")?;
    refused(sqlx::query(insert).bind(2).bind(None::<i32>).execute(&mut c).await, "23502")?;
    refused(sqlx::query("select 1 / $1").bind(0).execute(&mut c).await, "22012")?;
    refused(sqlx::query("select nothing from sqlx_errors").execute(&mut c).await, "42703")?;
    refused(sqlx::query("selct 1").execute(&mut c).await, "42601")?;
    refused(sqlx::query("select * from sqlx_missing where id = $1").bind(1).execute(&mut c).await, "42P01")
}

async fn streamed() -> Checked {
    let mut c = connect().await?;
    let mut sum = 0i64;
    let mut rows = sqlx::query_scalar::<_, i32>("select i from generate_series(1, $1) i").bind(5000).fetch(&mut c);
    while let Some(n) = rows.try_next().await? {
        sum += i64::from(n);
    }
    drop(rows);
    equal(sum, 12_502_500)?;
    let some: Vec<i32> = sqlx::query_scalar::<_, i32>("select i from generate_series(1, 100000) i")
        .fetch(&mut c)
        .take(5)
        .try_collect()
        .await?;
    equal(some, vec![1, 2, 3, 4, 5])?;
    let one: i32 = sqlx::query_scalar("select 1").fetch_one(&mut c).await?;
    equal(one, 1)
}

async fn copies() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "drop table if exists sqlx_copied; create table sqlx_copied (tenant_id bigint, id int, t text)")
        .await?;
    let mut copy = c.copy_in_raw("copy sqlx_copied from stdin").await?;
    for i in 0..1000 {
        copy.send(format!("{}\t{i}\trow {i}\n", i % 7).into_bytes()).await?;
    }
    equal(copy.finish().await?, 1000)?;
    let mut copy = c.copy_in_raw("copy sqlx_copied from stdin").await?;
    copy.send(&b"1\t1\ta\n"[..]).await?;
    copy.abort("given up").await?;
    let mut copy = c.copy_in_raw("copy sqlx_copied from stdin").await?;
    copy.send(&b"1\tx\ta\n"[..]).await?;
    refused(copy.finish().await, "22P02")?;
    let pool = PgPoolOptions::new().connect_with(PgConnectOptions::new()).await?;
    let parts: Vec<_> = pool.copy_out_raw("copy sqlx_copied to stdout").await?.try_collect().await?;
    let lines: usize = parts.iter().map(|p| p.iter().filter(|b| **b == b'\n').count()).sum();
    equal(lines, 1000)
}

async fn listening() -> Checked {
    let pool = PgPoolOptions::new().connect_with(PgConnectOptions::new()).await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all(["sqlx_one", "sqlx two"]).await?;
    sqlx::query("select pg_notify($1, $2)").bind("sqlx_one").bind("a").execute(&pool).await?;
    sqlx::query("select pg_notify($1, $2)").bind("sqlx two").bind("b").execute(&pool).await?;
    for (channel, payload) in [("sqlx_one", "a"), ("sqlx two", "b")] {
        let note = tokio::time::timeout(Duration::from_secs(5), listener.recv()).await??;
        equal((note.channel(), note.payload()), (channel, payload))?;
    }
    listener.unlisten_all().await?;
    Ok(())
}

async fn time_out() -> Checked {
    let mut c = connect().await?;
    run(&mut c, "set statement_timeout = '200ms'").await?;
    refused(sqlx::query("select pg_sleep(5)").execute(&mut c).await, "57014")?;
    run(&mut c, "reset statement_timeout").await?;
    let one: i32 = sqlx::query_scalar("select 1").fetch_one(&mut c).await?;
    equal(one, 1)
}

/// A future that is dropped leaves answers behind, which the driver reads before its next statement.
async fn dropped() -> Checked {
    let mut c = connect().await?;
    let slow = sqlx::query("select pg_sleep(0.5)").execute(&mut c);
    equal(tokio::time::timeout(Duration::from_millis(100), slow).await.is_err(), true)?;
    let one: i32 = sqlx::query_scalar("select $1 + 1").bind(1).fetch_one(&mut c).await?;
    equal(one, 2)
}

async fn pool() -> Checked {
    let pool = PgPoolOptions::new().max_connections(20).connect_with(PgConnectOptions::new()).await?;
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for i in 0..20 {
                    let n: i32 =
                        sqlx::query_scalar("select $1 * 1000 + $2").bind(number).bind(i).fetch_one(&pool).await?;
                    equal(n, number * 1000 + i)?;
                }
                Checked::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}
