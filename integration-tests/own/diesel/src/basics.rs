//! Connecting, statements, types, prepared statements, transactions, errors, COPY, notifications.

use crate::Check;
use crate::checks::Checked;
use crate::checks::equal;
use crate::connect;
use bigdecimal::BigDecimal;
use chrono::DateTime;
use chrono::NaiveDate;
use chrono::Utc;
use diesel::Connection;
use diesel::PgConnection;
use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel::r2d2::ConnectionManager;
use diesel::r2d2::Pool;
use diesel::result::DatabaseErrorKind;
use diesel::result::Error;
use diesel::sql_types::Integer;
use diesel::sql_types::Text;
use std::fmt::Display;
use std::str::FromStr;

diesel::table! {
    rs_types (id) {
        id -> Integer,
        small -> SmallInt,
        big -> BigInt,
        number -> Numeric,
        double -> Double,
        yes -> Bool,
        words -> Text,
        bytes -> Binary,
        document -> Jsonb,
        uid -> Uuid,
        day -> Date,
        moment -> Timestamptz,
        numbers -> Array<Nullable<Integer>>,
        texts -> Array<Text>,
        nothing -> Nullable<Text>,
    }
}

diesel::table! {
    rs_rows (id) {
        id -> Integer,
        name -> Text,
    }
}

#[derive(Debug, Clone, PartialEq, Queryable, Insertable, Selectable)]
#[diesel(table_name = rs_types)]
struct Types {
    id: i32,
    small: i16,
    big: i64,
    number: BigDecimal,
    double: f64,
    yes: bool,
    words: String,
    bytes: Vec<u8>,
    document: serde_json::Value,
    uid: uuid::Uuid,
    day: NaiveDate,
    moment: DateTime<Utc>,
    numbers: Vec<Option<i32>>,
    texts: Vec<String>,
    nothing: Option<String>,
}

#[derive(QueryableByName)]
struct Number {
    #[diesel(sql_type = Integer)]
    n: i32,
}

#[derive(QueryableByName)]
struct Setting {
    #[diesel(sql_type = Text)]
    t: String,
}

pub const CHECKS: &[Check] = &[
    ("connect with TLS and a verified certificate", tls),
    ("parameters of the session", session),
    ("several statements in one", several),
    ("types both ways", types),
    ("prepared statement, reused", reused),
    ("prepared statement after a schema change", changed),
    ("transactions and savepoints", transactions),
    ("serializable, read only, deferrable", characteristics),
    ("kinds of errors", errors),
    ("row by row", row_by_row),
    ("copy in and out", copies),
    ("notifications", notifications),
    ("statement time-out", time_out),
    ("pool of connections", pool),
];

/// Fails unless there was an error that says this.
fn says<T, E: Display>(result: Result<T, E>, part: &str) -> Checked {
    match result {
        Err(error) if error.to_string().contains(part) => Ok(()),
        Err(error) => Err(format!("expected {part:?}, got {error}").into()),
        Ok(_) => Err(format!("expected {part:?}, got no error").into()),
    }
}

fn number(c: &mut PgConnection, text: &str) -> QueryResult<i32> {
    Ok(diesel::sql_query(text).get_result::<Number>(c)?.n)
}

fn tls(_: &mut PgConnection) -> Checked {
    let ca = std::env::var("SHARDWAY_CA")?;
    let mut c = PgConnection::establish(&format!("postgresql://?sslmode=verify-full&sslrootcert={ca}"))?;
    equal(number(&mut c, "select count(*)::int4 as n from (values (1), (2)) v")?, 2)
}

fn session(c: &mut PgConnection) -> Checked {
    c.batch_execute("set application_name = 'checks'")?;
    equal(diesel::sql_query("select current_setting('application_name') as t").get_result::<Setting>(c)?.t, "checks")?;
    equal(diesel::sql_query("select current_setting('timezone') as t").get_result::<Setting>(c)?.t, "UTC")
}

fn several(c: &mut PgConnection) -> Checked {
    c.batch_execute("drop table if exists rs_rows; create table rs_rows (id int primary key, name text not null); insert into rs_rows values (1, 'a'), (2, 'b')")?;
    equal(rs_rows::table.count().get_result::<i64>(c)?, 2)
}

fn types(c: &mut PgConnection) -> Checked {
    c.batch_execute(
        "drop table if exists rs_types; create table rs_types (id int primary key, small int2 not null, big int8 not null, number numeric(20, 5) not null,
         double float8 not null, yes bool not null, words text not null, bytes bytea not null, document jsonb not null, uid uuid not null,
         day date not null, moment timestamptz not null, numbers int[] not null, texts text[] not null, nothing text)",
    )?;
    let given = Types {
        id: 1,
        small: -7,
        big: 9_007_199_254_740_993,
        number: BigDecimal::from_str("12345678901.12345")?,
        double: 0.1,
        yes: true,
        words: "ünïcødé ' \" \\".to_owned(),
        bytes: vec![0, 1, 255],
        document: serde_json::json!({ "a": [1, null] }),
        uid: uuid::Uuid::from_u128(7),
        day: NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no such day")?,
        moment: "2024-02-29T12:34:56.789Z".parse()?,
        numbers: vec![Some(1), None, Some(3)],
        texts: vec!["a,b".to_owned(), String::new()],
        nothing: None,
    };
    let back: Types = diesel::insert_into(rs_types::table).values(&given).get_result(c)?;
    equal(&back, &given)?;
    equal(rs_types::table.filter(rs_types::uid.eq(given.uid)).first::<Types>(c)?, given)
}

fn reused(c: &mut PgConnection) -> Checked {
    several(c)?;
    for i in 0..20 {
        let names: Vec<String> =
            rs_rows::table.filter(rs_rows::id.gt(i)).order(rs_rows::id).select(rs_rows::name).load(c)?;
        equal(names.len(), usize::try_from(2 - i.min(2))?)?;
    }
    for i in 0..100 {
        let n = diesel::sql_query(format!("select {i} + $1 as n")).bind::<Integer, _>(1).get_result::<Number>(c)?.n;
        equal(n, i + 1)?;
    }
    Ok(())
}

fn changed(c: &mut PgConnection) -> Checked {
    several(c)?;
    let query = || rs_rows::table.filter(rs_rows::id.eq(1)).select((rs_rows::id, rs_rows::name));
    equal(query().first::<(i32, String)>(c)?, (1, "a".to_owned()))?;
    c.batch_execute("alter table rs_rows add column more int")?;
    equal(query().first::<(i32, String)>(c)?, (1, "a".to_owned()))?;
    connect()?.batch_execute("alter table rs_rows alter column name type varchar(20)")?;
    says(query().first::<(i32, String)>(c), "cached plan must not change result type")
}

fn transactions(c: &mut PgConnection) -> Checked {
    several(c)?;
    let insert = |c: &mut PgConnection, id: i32| {
        diesel::insert_into(rs_rows::table).values((rs_rows::id.eq(id), rs_rows::name.eq("x"))).execute(c)
    };
    c.transaction::<_, Error, _>(|c| {
        insert(c, 3)?;
        let inner = c.transaction::<(), Error, _>(|c| {
            insert(c, 4)?;
            insert(c, 1).map(|_| ())
        });
        assert!(matches!(inner, Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _))));
        c.transaction::<_, Error, _>(|c| insert(c, 5))
    })?;
    let undone = c.transaction::<(), Error, _>(|c| {
        insert(c, 6)?;
        Err(Error::RollbackTransaction)
    });
    equal(undone, Err(Error::RollbackTransaction))?;
    equal(rs_rows::table.select(rs_rows::id).order(rs_rows::id).load::<i32>(c)?, vec![1, 2, 3, 5])
}

fn characteristics(c: &mut PgConnection) -> Checked {
    let ran = c.build_transaction().serializable().read_only().deferrable().run::<_, Error, _>(|c| {
        let level =
            diesel::sql_query("select current_setting('transaction_isolation') as t").get_result::<Setting>(c)?.t;
        assert_eq!(level, "serializable");
        c.batch_execute("create table rs_never (id int)")
    });
    says(ran, "read-only transaction")
}

fn errors(c: &mut PgConnection) -> Checked {
    c.batch_execute("drop table if exists rs_errors; create table rs_errors (id int primary key, n int not null constraint positive check (n > 0)); insert into rs_errors values (1, 1)")?;
    let mut kind = |text: &str| match diesel::sql_query(text).execute(c) {
        Err(Error::DatabaseError(kind, details)) => {
            Ok((format!("{kind:?}"), details.constraint_name().map(str::to_owned)))
        }
        other => Err(format!("{other:?}")),
    };
    equal(
        kind("insert into rs_errors values (1, 1)")?,
        ("UniqueViolation".to_owned(), Some("rs_errors_pkey".to_owned())),
    )?;
    equal(kind("insert into rs_errors values (2, -1)")?, ("CheckViolation".to_owned(), Some("positive".to_owned())))?;
    equal(kind("insert into rs_errors values (2, null)")?.0, "NotNullViolation")?;
    equal(kind("select 1 / 0")?.0, "Unknown")?;
    equal(kind("selct 1")?.0, "Unknown")
}

fn row_by_row(c: &mut PgConnection) -> Checked {
    use diesel::pg::PgRowByRowLoadingMode;
    let mut sum = 0;
    for row in diesel::sql_query("select i as n from generate_series(1, 2000) i")
        .load_iter::<Number, PgRowByRowLoadingMode>(c)?
    {
        sum += row?.n;
    }
    equal(sum, 2_001_000)?;
    equal(number(c, "select 1 as n")?, 1)
}

fn copies(c: &mut PgConnection) -> Checked {
    use std::io::Read;
    several(c)?;
    let rows = diesel::copy_from(rs_rows::table)
        .from_raw_data((rs_rows::id, rs_rows::name), |copy| {
            for i in 10..1010 {
                writeln!(copy, "{i}\trow {i}").map_err(|e| Error::QueryBuilderError(e.into()))?;
            }
            Ok::<_, Error>(())
        })
        .execute(c)?;
    equal(rows, 1000)?;
    let mut out = String::new();
    diesel::copy_to(rs_rows::table).load_raw(c)?.read_to_string(&mut out)?;
    equal(out.lines().count(), 1002)?;
    let c = &mut connect()?;
    let failed = diesel::copy_from(rs_rows::table)
        .from_raw_data((rs_rows::id, rs_rows::name), |copy| {
            writeln!(copy, "x\ty").map_err(|e| Error::QueryBuilderError(e.into()))
        })
        .execute(c);
    says(failed, "invalid input syntax")?;
    equal(rs_rows::table.count().get_result::<i64>(c)?, 1002)
}

fn notifications(c: &mut PgConnection) -> Checked {
    c.batch_execute("listen rs_channel")?;
    connect()?.batch_execute("notify rs_channel, 'hello'")?;
    for _ in 0..250 {
        if let Some(note) = c.notifications_iter().next() {
            let note = note?;
            return equal((note.channel.as_str(), note.payload.as_str()), ("rs_channel", "hello"));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Err("nothing heard".into())
}

fn time_out(c: &mut PgConnection) -> Checked {
    c.batch_execute("set statement_timeout = '200ms'")?;
    says(diesel::sql_query("select pg_sleep(5)").execute(c), "statement timeout")?;
    c.batch_execute("reset statement_timeout")?;
    equal(number(c, "select 1 as n")?, 1)
}

fn pool(_: &mut PgConnection) -> Checked {
    let pool = Pool::builder()
        .max_size(10)
        .test_on_check_out(true)
        .build(ConnectionManager::<PgConnection>::new("postgresql://"))?;
    let threads: Vec<_> = (0..20)
        .map(|number| {
            let pool = pool.clone();
            std::thread::spawn(move || -> Checked {
                for i in 0..30 {
                    let mut c = pool.get()?;
                    let n = diesel::sql_query("select $1 * 1000 + $2 as n")
                        .bind::<Integer, _>(number)
                        .bind::<Integer, _>(i)
                        .get_result::<Number>(&mut c)?
                        .n;
                    equal(n, number * 1000 + i)?;
                }
                Ok(())
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")??;
    }
    Ok(())
}
