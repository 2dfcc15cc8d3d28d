//! A server's object identifiers, told as the home shard's: everything above sees the home shard's numbers only.

use crate::catalog::oids::ShardOids;
use crate::error::Error;
use crate::error::Result;
use crate::pool::ServerConnection;
use crate::value::Oid;
use crate::wire::HEAD;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::copy::BINARY_HEADER;
use crate::wire::frontend;
use crate::wire::read::Reader;
use std::sync::Arc;

/// The columns of a statement's rows whose binary values hold numbers of the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowNumbers {
    /// (position, the type's number on the server), in order
    columns: Vec<(usize, Oid)>,
}

/// The same of the data of a binary COPY, one message for each row (CopySendEndOfRow in copyto.c).
#[derive(Debug)]
pub struct CopiedNumbers {
    columns: Vec<(usize, Oid)>,
    /// The first message has a header before its row.
    begun: bool,
}

/// What is rewritten in rows that go to a server.
#[derive(Debug)]
pub struct SentNumbers {
    oids: Arc<ShardOids>,
    columns: Vec<(usize, Oid)>,
}

impl SentNumbers {
    /// Rewrites a row of a binary COPY; what cannot be read the server finds wrong.
    pub fn translate(&self, row: &mut [u8]) {
        let _ = self.oids.to_shard.values(&self.columns, row);
    }
}

impl ServerConnection {
    /// How its numbers are translated, unless they are the home shard's.
    pub fn differing(&self) -> Option<&ShardOids> {
        self.oids.as_deref().filter(|oids| oids.differs)
    }

    /// A server's type as the home shard numbers it, 0 if it has none such.
    pub fn home_type(&self, oid: Oid) -> Oid {
        self.differing().map_or(oid, |oids| oids.to_home.type_oid(oid).unwrap_or(0))
    }

    /// The home shard's type as this server numbers it; a number that no server has if this one has none such.
    pub fn own_type(&self, oid: Oid) -> Oid {
        self.differing().map_or(oid, |oids| oids.to_shard.type_or_nobody(oid))
    }

    /// Adds a Parse; the types are the home shard's.
    pub fn put_parse(&mut self, name: &[u8], text: &[u8], types: &[Oid]) {
        match self.differing() {
            Some(oids) if !types.is_empty() => {
                let own: Vec<Oid> = types.iter().map(|oid| oids.to_shard.type_or_nobody(*oid)).collect();
                frontend::put_parse(&mut self.io.write, name, text, &own);
            }
            _ => frontend::put_parse(&mut self.io.write, name, text, types),
        }
    }

    /// Adds a Bind, whose values hold the home shard's numbers; `types`: of the parameters. What cannot be read in a
    /// value goes as it is: the server says what is wrong with it.
    pub fn put_bind(&mut self, portal: &[u8], statement: &[u8], tail: &[u8], types: &[Oid]) {
        let start = self.io.write.len();
        frontend::put_bind(&mut self.io.write, portal, statement, tail);
        let holds = |oids: &&ShardOids| oids.differs && types.iter().any(|oid| oids.to_shard.holds(*oid));
        let Some(oids) = self.oids.as_deref().filter(holds) else { return };
        let frame = self.io.write.get_mut(start..).unwrap_or_default();
        let body = frame.get_mut(HEAD..).unwrap_or_default();
        let Ok(bind) = frontend::Bind::decode(body) else { return };
        let columns = oids.to_shard.columns(types.iter().enumerate().map(|(n, oid)| (*oid, bind.format(n))));
        if columns.is_empty() {
            return;
        }
        let values = portal.len() + statement.len() + 2 + 2 + 2 * bind.format_count();
        let _ = oids.to_shard.values(&columns, body.get_mut(values..).unwrap_or_default());
    }

    /// What has to be looked into in rows of these columns (the home shard's types and the formats of the rows).
    ///
    /// # Errors
    /// 0A000 for a binary column of a type that is not known here: what its values hold cannot be told.
    pub fn row_numbers(&self, columns: impl Iterator<Item = (Oid, i16)>) -> Result<Option<Arc<RowNumbers>>> {
        let Some(oids) = self.differing() else { return Ok(None) };
        let mut holders = Vec::new();
        for (n, (oid, _)) in columns.enumerate().filter(|(_, (_, format))| *format == 1) {
            let own = oids.to_shard.type_oid(oid).ok_or_else(|| self.lacks_type())?;
            if oids.to_home.holds(own) {
                holders.push((n, own));
            }
        }
        Ok((!holders.is_empty()).then(|| Arc::new(RowNumbers { columns: holders })))
    }

    /// The error for a type that only this server or only the home shard has.
    pub fn lacks_type(&self) -> Error {
        Error::unsupported("a type that is not on every shard")
            .detail(format!("Either only {} has it, or only the home shard.", self.place()))
            .hint("Create types through the proxy, or on every shard; or cast the value to text.")
    }

    /// The same for the rows of a RowDescription's body, which tells their formats.
    ///
    /// # Errors
    /// A body that is malformed.
    pub fn row_numbers_of(&self, body: &[u8]) -> Result<Option<Arc<RowNumbers>>> {
        let mut reader = Reader::new(body);
        let mut columns = Vec::new();
        for _ in 0..reader.count()? {
            reader.cstr()?;
            reader.take(6)?;
            let oid = reader.u32()?;
            reader.take(6)?;
            columns.push((oid, reader.i16()?));
        }
        self.row_numbers(columns.into_iter())
    }

    /// What is rewritten in binary rows of these columns (the home shard's types) that are sent.
    pub fn sent_numbers(&self, types: &[Oid]) -> Option<SentNumbers> {
        let oids = self.oids.as_ref().filter(|oids| oids.differs)?;
        let columns = oids.to_shard.columns(types.iter().map(|oid| (*oid, 1)));
        (!columns.is_empty()).then(|| SentNumbers { oids: Arc::clone(oids), columns })
    }

    /// The data of the COPY that comes next are binary rows of these columns (the home shard's types).
    ///
    /// # Errors
    /// As for `row_numbers`.
    pub fn expect_copied(&mut self, types: &[Oid]) -> Result<()> {
        let rows = self.row_numbers(types.iter().map(|oid| (*oid, 1)))?;
        self.copied = rows.map(|rows| CopiedNumbers { columns: rows.columns.clone(), begun: false });
        Ok(())
    }

    fn translate_copied(&mut self, body: &mut [u8]) -> Result<()> {
        let (Some(oids), Some(copied)) = (&self.oids, &mut self.copied) else { return Ok(()) };
        let skip = if std::mem::replace(&mut copied.begun, true) { 0 } else { BINARY_HEADER };
        match body.get_mut(skip..) {
            // only the header, or the trailer
            None | Some([] | [0xff, 0xff]) => Ok(()),
            Some(row) => oids
                .to_home
                .values(&copied.columns, row)
                .map_err(|e| Error::internal(format!("a copied row of a shard: {e}"))),
        }
    }

    /// Whether rows and data have to be looked into.
    pub fn looks_into_rows(&self) -> bool {
        self.rows.is_some() || self.copied.is_some()
    }

    /// Rewrites a message of the server's.
    ///
    /// # Errors
    /// A message that is malformed.
    #[inline]
    pub fn translate(&mut self, tag: Tag, body: &mut [u8]) -> Result<()> {
        match (&self.oids, tag) {
            (Some(_), backend::DATA_ROW) if self.rows.is_some() => self.translate_row(body),
            (Some(_), backend::COPY_DATA) if self.copied.is_some() => self.translate_copied(body),
            (Some(_), backend::ROW_DESCRIPTION | backend::PARAMETER_DESCRIPTION) => {
                self.translate_description(tag, body)
            }
            _ => Ok(()),
        }
    }

    fn translate_row(&self, body: &mut [u8]) -> Result<()> {
        let (Some(oids), Some(rows)) = (&self.oids, &self.rows) else { return Ok(()) };
        oids.to_home.values(&rows.columns, body).map_err(|e| Error::internal(format!("a row of a shard: {e}")))
    }

    fn translate_description(&mut self, tag: Tag, body: &mut [u8]) -> Result<()> {
        let Some(oids) = &self.oids else { return Ok(()) };
        // Where no number differs, one that is not known is a type made since.
        let missing = match tag {
            backend::ROW_DESCRIPTION => oids.to_home.row_description(body)?,
            _ => oids.to_home.parameter_description(body)?,
        };
        self.unknown_type |= missing;
        Ok(())
    }
}
