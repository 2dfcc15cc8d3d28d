//! INSERT … SELECT whose rows one server computes: they are read as text, divided by key, and written from arrays.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::exec::split;
use crate::exec::split::ShardText;
use crate::plan::writes;
use crate::plan::writes::Value;
use crate::plan::writes::gather::Gathered;
use crate::route;
use crate::route::Param;
use crate::route::Values;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::writes::Write;
use crate::session::writes::input_of;
use crate::session::writes::parameters;
use crate::sql::lexer::Token;
use crate::value::Oid;
use crate::wire::backend;
use crate::wire::read::Reader;
use bytes::BytesMut;

/// text[]
const TEXT_ARRAY: Oid = 1009;

/// A row as it was read: each column as text.
type TextRow = Vec<Option<Value>>;

impl Session {
    /// Runs an INSERT … SELECT of this kind; see [`Session::write`].
    pub(super) async fn gather(
        &mut self,
        write: &Write<'_>,
        gathered: &Gathered,
        tokens: &[Token],
        preface: BytesMut,
    ) -> Outcome<u64> {
        if let Err(error) = &write.plan.several {
            return Err(error.clone().into());
        }
        self.refuse_short_floats()?;
        let rows = self.read_rows(write, gathered, tokens).await?;
        let of_rows = self.places(gathered, &rows)?;
        let mut shards = of_rows.clone();
        shards.sort_unstable();
        shards.dedup();
        if shards.is_empty() {
            // Without rows there is still a statement.
            shards.push(HOME);
        }
        let mut text = String::new();
        writes::render(&gathered.write, write.text, tokens, &[], &mut text);
        let here = |shard: ShardId| rows.iter().zip(&of_rows).filter(move |(_, s)| **s == shard).map(|(row, _)| row);
        let shard_text = |shard: &ShardId| {
            let arrays: Vec<String> = (0..gathered.columns).map(|column| array(here(*shard), column)).collect();
            let param = |array| Param { oid: TEXT_ARRAY, format: 0, value: Some(String::as_bytes(array)) };
            let params: Vec<Param<'_>> = arrays.iter().map(param).collect();
            ShardText { shard: *shard, text: text.clone(), parameters: parameters(&params, |_| true) }
        };
        let texts: Vec<ShardText> = shards.iter().map(shard_text).collect();
        let order = (gathered.returning && shards.len() > 1)
            .then(|| of_rows.iter().map(|shard| input_of(&shards, *shard)).collect());
        let types = vec![TEXT_ARRAY; gathered.columns];
        self.run_write(write, &texts, &types, order, preface).await
    }

    /// Numbers of float types lose digits under such a setting.
    fn refuse_short_floats(&self) -> Result<()> {
        let digits = self.variables.get("extra_float_digits").and_then(|d| d.trim().parse::<i32>().ok());
        if digits.is_some_and(|digits| digits < 1) {
            return Err(Error::unsupported("INSERT … SELECT over several shards under extra_float_digits below 1")
                .hint("RESET extra_float_digits."));
        }
        Ok(())
    }

    async fn read_rows(&mut self, write: &Write<'_>, gathered: &Gathered, tokens: &[Token]) -> Outcome<Vec<TextRow>> {
        self.drain(false).await?;
        let mut text = String::new();
        writes::render(&gathered.read, write.text, tokens, &[], &mut text);
        let texts = [ShardText { shard: HOME, text, parameters: parameters(write.params, |_| true) }];
        let formats = vec![0; gathered.columns];
        let execution = split::Execution {
            texts: &texts,
            types: &write.description.params,
            returning: None,
            formats: &formats,
            order: None,
            reads: true,
            keep: Some(self.backends.database.config.merge_bytes),
            in_pipeline: self.pipeline.is_open() && !self.backends.transaction.is_block(),
        };
        // Rows come where the client's would.
        let before = std::mem::take(&mut self.client.write);
        let ran = split::run(&mut self.backends, &mut self.client, &self.variables, execution, BytesMut::new()).await;
        let read = std::mem::replace(&mut self.client.write, before);
        self.note_changes(HOME);
        self.backends.transaction.drew |= self.backends.transaction.is_block();
        self.pin_after(write.rows, HOME);
        if let Err(error) = ran? {
            self.learn_from(&error);
            return Err(Failure::Error(error));
        }
        let (rows, others) = rows_of(&read)?;
        self.client.write.extend_from_slice(&others);
        Ok(rows)
    }

    /// The shard of each row.
    fn places(&self, gathered: &Gathered, rows: &[TextRow]) -> Result<Vec<ShardId>> {
        let snapshot = self.snapshot();
        let mut places = Vec::with_capacity(rows.len());
        for row in rows {
            let values = Values {
                text: "",
                literals: &[],
                params: &[],
                standard_conforming_strings: self.conforming_strings(),
                drawn: row,
            };
            places.extend(route::row_shards(&gathered.key, &values, &snapshot.catalog)?);
        }
        Ok(places)
    }
}

/// DataRow frames → rows, and the frames that are none (notices).
fn rows_of(frames: &[u8]) -> Result<(Vec<TextRow>, BytesMut)> {
    let mut rows = Vec::new();
    let mut others = BytesMut::new();
    let mut rest = frames;
    while let Some(head) = crate::wire::head(rest, usize::MAX)? {
        if head.tag == backend::DATA_ROW {
            let mut reader = Reader::new(rest.get(crate::wire::HEAD..head.total).unwrap_or_default());
            let count = reader.count()?;
            let mut row = Vec::with_capacity(count);
            for _ in 0..count {
                row.push(Some(match reader.value()? {
                    None => None,
                    Some(bytes) => Some(std::str::from_utf8(bytes).map_err(|_| not_utf8())?.into()),
                }));
            }
            rows.push(row);
        } else {
            others.extend_from_slice(rest.get(..head.total).unwrap_or_default());
        }
        rest = rest.get(head.total..).unwrap_or_default();
    }
    Ok((rows, others))
}

fn not_utf8() -> Error {
    Error::unsupported("INSERT … SELECT over several shards in another encoding than UTF8")
}

/// A column of some rows as an array's text (array_out in arrayfuncs.c).
fn array<'r>(rows: impl Iterator<Item = &'r TextRow>, column: usize) -> String {
    let mut out = String::from("{");
    for (n, row) in rows.enumerate() {
        out.push_str(if n == 0 { "" } else { "," });
        match row.get(column) {
            Some(Some(Some(value))) => {
                out.push('"');
                for c in value.chars() {
                    if matches!(c, '"' | '\\') {
                        out.push('\\');
                    }
                    out.push(c);
                }
                out.push('"');
            }
            _ => out.push_str("NULL"),
        }
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::array;
    use super::rows_of;

    #[test]
    fn rows_become_arrays() {
        let frames = b"D\0\0\0\x11\0\x02\0\0\0\x03a\"\\\xff\xff\xff\xffN\0\0\0\x04";
        let (rows, others) = rows_of(frames).unwrap();
        assert_eq!(&others[..], b"N\0\0\0\x04");
        assert_eq!(array(rows.iter(), 0), "{\"a\\\"\\\\\"}");
        assert_eq!(array(rows.iter(), 1), "{NULL}");
        assert_eq!(array([].iter(), 1), "{}");
    }
}
