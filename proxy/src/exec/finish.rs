//! The final phase: the shards' rows, gathered as arrays, go to one server, whose rows are the answer.
//!
//! The statement touches no table and makes no temporary object, so a participant of the transaction can run it.

use super::scatter::describe;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::Held;
use crate::exec::backends::run_on;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::cache::next_number;
use crate::plan::finish::Carried;
use crate::plan::finish::FinalCollation;
use crate::plan::finish::FinalPlan;
use crate::plan::moment;
use crate::pool::ServerConnection;
use crate::pool::own_portal;
use crate::sql::lexer;
use crate::value::Oid;
use crate::value::oid;
use crate::variables::Variables;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;
use std::sync::Arc;

/// The statement as it is prepared on servers.
#[derive(Debug)]
pub struct FinalStatement {
    pub number: u64,
    pub text: String,
    /// Of its parameters: the client's, the times, the arrays.
    pub types: Vec<Oid>,
    /// In which format the shards send their columns.
    pub formats: Vec<i16>,
    /// Types of the arrays' elements.
    pub elements: Vec<Oid>,
}

/// Makes the statement, once for each plan. `types`: of the shards' columns; `params`: of all parameters before the
/// arrays.
///
/// # Errors
/// 0A000 for types that do not travel, and where PostgreSQL does not take the client's expressions over such rows.
pub async fn statement(
    held: &mut Held,
    planned: &Planned,
    plan: &FinalPlan,
    types: &[Oid],
    params: &[Oid],
    description: &Description,
) -> Result<Arc<FinalStatement>> {
    if let Some(statement) = planned.final_statement.get() {
        return Ok(Arc::clone(statement));
    }
    if types.len() != plan.columns.len() {
        return Err(Error::internal("the shards' rows have another number of columns than the plan"));
    }
    let unknown = FinalCollation::Unknown;
    let carried = carriers(held, types, |n| plan.columns.get(n).map_or(&unknown, |c| &c.collation)).await?;
    let conforming = held.lease.parameters.get("standard_conforming_strings").is_none_or(|v| v == "on");
    let tokens = lexer::tokenize(&planned.text, conforming)?;
    let text = plan.render(&planned.text, &tokens, params.len(), &carried)?;
    let mut all = params.to_vec();
    all.extend(carried.iter().map(|c| c.array_oid));
    let number = next_number();
    let described = describe(held, number, text.as_bytes(), &all).await.map_err(|error| {
        if error.raw.is_none() {
            return error;
        }
        tracing::debug!(%error, text, "the statement of the final phase was not taken");
        Error::unsupported("an expression over rows of several shards that needs the tables themselves")
            .detail(error.to_string())
            .hint("Name one value of the shard key in WHERE, so that it runs on one shard.")
    })?;
    let fields = |d: &Description| d.fields.iter().flatten().map(|f| f.type_oid).collect::<Vec<_>>();
    if fields(&described) != fields(description) {
        return Err(Error::unsupported("a statement over several shards whose columns change their types there"));
    }
    let statement = Arc::new(FinalStatement {
        number,
        text,
        types: all,
        formats: carried.iter().map(|c| i16::from(c.cast.is_none())).collect(),
        elements: carried.iter().map(|c| c.element_oid).collect(),
    });
    Ok(Arc::clone(planned.final_statement.get_or_init(|| statement)))
}

/// Arrays for the shards' columns.
///
/// # Errors
/// 0A000 for types that do not travel so.
pub async fn carriers<'c>(
    held: &mut Held,
    types: &[Oid],
    collation: impl Fn(usize) -> &'c FinalCollation,
) -> Result<Vec<Carried>> {
    let list: Vec<String> = types.iter().map(|oid| held.lease.own_type(*oid).to_string()).collect();
    let sql = format!(
        "SELECT t.oid::pg_catalog.int8, t.typarray::pg_catalog.int8, t.typtype, t.typcollation <> 0, \
         t.typsend <> 0 AND t.typreceive <> 0, pg_catalog.format_type(t.oid, NULL), t.typcategory \
         FROM pg_catalog.pg_type t WHERE t.oid::pg_catalog.int8 = ANY ('{{{}}}'::pg_catalog.int8[])",
        list.join(",")
    );
    let answer = run_on(held, &sql).await?;
    let text = |row: &Vec<Option<Vec<u8>>>, n: usize| {
        row.get(n).and_then(|v| v.as_ref()).map(|v| String::from_utf8_lossy(v).into_owned()).unwrap_or_default()
    };
    let mut carried = Vec::with_capacity(types.len());
    for (n, type_oid) in types.iter().enumerate() {
        let refused = || {
            Error::unsupported(format!("a column of {} over several shards", oid::describe(*type_oid)))
                .hint("Cast it to text, or name one value of the shard key in WHERE.")
        };
        let own = held.lease.own_type(*type_oid).to_string();
        let row = answer.rows.iter().find(|r| text(r, 0) == own).ok_or_else(refused)?;
        let array = held.lease.home_type(text(row, 1).parse().unwrap_or(0));
        let (kind, collates, binary, name, category) =
            (text(row, 2), text(row, 3) == "t", text(row, 4) == "t", text(row, 5), text(row, 6));
        if !matches!(kind.as_str(), "b" | "e" | "r" | "m") {
            return Err(refused());
        }
        if collates && *collation(n) == FinalCollation::Unknown {
            return Err(Error::unsupported("text over several shards whose collation is not told apart here")
                .detail("The statement has columns of several collations.")
                .hint("Name one value of the shard key in WHERE, so that it runs on one shard."));
        }
        let as_text = array == 0 || !binary || category == "A";
        carried.push(Carried {
            type_oid: *type_oid,
            array_oid: if as_text { oid::TEXT_ARRAY } else { array },
            element_oid: if as_text { oid::TEXT } else { *type_oid },
            cast: as_text.then_some(name),
        });
    }
    Ok(carried)
}

/// Arrays travel as text, which some settings make a text of less than the value.
///
/// # Errors
/// 0A000 under such settings.
pub fn check_text(held: &Held, variables: &Variables, formats: &[i16]) -> Result<()> {
    if formats.iter().all(|format| *format == 1) {
        return Ok(());
    }
    let digits = variables.get("extra_float_digits").and_then(|v| v.trim_matches('\'').parse::<i32>().ok());
    let intervals = held.lease.parameters.get("IntervalStyle").is_some_and(|v| v == "sql_standard");
    if intervals || digits.is_some_and(|digits| digits < 1) {
        return Err(Error::unsupported(
            "arrays over several shards under IntervalStyle sql_standard or fewer float digits",
        )
        .hint("RESET IntervalStyle and extra_float_digits."));
    }
    Ok(())
}

/// The values for the parameters of now() and its kin, in the binary form of timestamptz.
///
/// # Errors
/// What the server says.
pub async fn times(held: &mut Held) -> Result<Vec<Bytes>> {
    let answer = run_on(held, moment::QUERY).await?;
    let row = answer.rows.first().ok_or_else(|| Error::internal("a server does not tell the time"))?;
    let value = |v: &Option<Vec<u8>>| {
        let micros = std::str::from_utf8(v.as_deref()?).ok()?.parse::<i64>().ok()?;
        Some(Bytes::copy_from_slice(&micros.to_be_bytes()))
    };
    let times: Option<Vec<Bytes>> = row.iter().map(value).collect();
    times.filter(|t| t.len() == 2).ok_or_else(|| Error::internal("a server does not tell the time"))
}

/// Parameter formats and values of a Bind, with more values behind them, in binary format.
///
/// # Errors
/// XX000 if the client's part is malformed; 54000 for a value or a message that is too long.
pub fn with_values(parameters: &[u8], more: &[impl AsRef<[u8]>]) -> Result<BytesMut> {
    let malformed = || Error::internal("parameters that cannot be read");
    let mut reader = crate::wire::read::Reader::new(parameters);
    let given = reader.count().map_err(|_| malformed())?;
    let mut formats = Vec::with_capacity(given);
    for _ in 0..given {
        formats.push(reader.i16().map_err(|_| malformed())?);
    }
    let values = reader.count().map_err(|_| malformed())?;
    let start = 4 + 2 * given;
    let rest = parameters.get(start..).ok_or_else(malformed)?;
    let mut out = BytesMut::with_capacity(parameters.len() + more.iter().map(|m| m.as_ref().len() + 8).sum::<usize>());
    let count = u16::try_from(values + more.len()).map_err(|_| too_long())?;
    out.put_u16(count);
    for n in 0..values {
        let format = if formats.len() == 1 { formats.first() } else { formats.get(n) };
        out.put_i16(format.copied().unwrap_or(0));
    }
    more.iter().for_each(|_| out.put_u16(1));
    out.put_u16(count);
    out.put_slice(rest);
    for value in more {
        let value = value.as_ref();
        out.put_i32(i32::try_from(value.len()).map_err(|_| too_long())?);
        out.put_slice(value);
    }
    if out.len() > i32::MAX as usize / 2 { Err(too_long()) } else { Ok(out) }
}

fn too_long() -> Error {
    Error::new(codes::PROGRAM_LIMIT, "the shards' rows are more than one statement can take")
        .hint("Narrow the statement, or name the shard key so that one shard answers.")
}

/// Runs a text of our own once, with values in binary format, and reads its answer; inside an open pipeline it leaves
/// that open.
///
/// # Errors
/// What the server says; 08006 when it is gone.
pub async fn run(held: &mut Held, sql: &str, types: &[Oid], values: &[impl AsRef<[u8]>]) -> Result<()> {
    let mut tail = with_values(&[0, 0, 0, 0], values)?;
    tail.put_u16(0);
    let unsynced = held.unsynced;
    let portal = own_portal();
    let server: &mut ServerConnection = &mut held.lease;
    server.broken = true;
    server.put_parse(b"", sql.as_bytes(), types);
    server.put_bind(portal.as_bytes(), b"", &tail, types);
    let out = &mut server.io.write;
    frontend::put_execute(out, portal.as_bytes(), 0);
    frontend::put_close_portal(out, portal.as_bytes());
    frontend::put_empty(out, if unsynced { frontend::FLUSH } else { frontend::SYNC });
    let last = if unsynced { backend::CLOSE_COMPLETE } else { backend::READY };
    server.answer(last).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::with_values;

    #[test]
    fn values_follow_those_of_the_client() {
        let none: [&[u8]; 0] = [];
        assert_eq!(&with_values(&[0, 0, 0, 0], &none).unwrap()[..], [0, 0, 0, 0]);
        // one format for both values, the second of which is NULL
        let client = [0, 1, 0, 1, 0, 2, 0, 0, 0, 1, 7, 255, 255, 255, 255];
        let all = with_values(&client, &[b"ab"]).unwrap();
        let expected = [0, 3, 0, 1, 0, 1, 0, 1, 0, 3, 0, 0, 0, 1, 7, 255, 255, 255, 255, 0, 0, 0, 2, b'a', b'b'];
        assert_eq!(&all[..], expected);
        for end in 0..4 {
            assert!(with_values(&client[..end], &[b"ab"]).is_err());
        }
    }
}
