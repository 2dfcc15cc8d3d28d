//! Clients whose encoding is not UTF-8.
//!
//! Statements and values are read here as UTF-8. In another encoding the same bytes are other letters, which a server
//! would hash and compare differently: what could be misread is left to one shard, or refused.

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::session::Session;
use crate::wire::read::Reader;

/// Encodings in which a byte of a letter may look like ASCII (pg_wchar.h, PG_ENCODING_BE_LAST and those after it).
const TRICKY: [&str; 17] = [
    "SJIS",
    "MSKANJI",
    "SHIFTJIS",
    "WIN932",
    "WINDOWS932",
    "SHIFTJIS2004",
    "BIG5",
    "WIN950",
    "WINDOWS950",
    "GBK",
    "WIN936",
    "WINDOWS936",
    "UHC",
    "WIN949",
    "WINDOWS949",
    "GB18030",
    "JOHAB",
];

/// An encoding's name as it is compared (clean_encoding_name in encnames.c), in upper case.
fn letters(name: &str) -> String {
    name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| char::from(b.to_ascii_uppercase())).collect()
}

impl Session {
    /// As the client has set it, in whatever form, else as it was reported: a change is reported only at the end.
    fn client_encoding(&self) -> String {
        let set = match self.backends.transaction.settings_changed {
            true => self.variables.get("client_encoding"),
            false => None,
        };
        let reported = || self.reported.get("client_encoding").map(String::as_str);
        letters(set.or_else(reported).unwrap_or("UTF8"))
    }

    /// Bytes beyond ASCII are not what they are in UTF-8. SQL_ASCII is no conversion: servers take them as they are.
    pub(super) fn is_foreign(&self) -> bool {
        !matches!(self.client_encoding().as_str(), "UTF8" | "UNICODE" | "SQLASCII")
    }

    pub(super) fn is_tricky_encoding(&self) -> bool {
        TRICKY.contains(&self.client_encoding().as_str())
    }

    /// Whether data in an encoding (the client's, if none is given) have other bytes beyond ASCII than UTF-8, and
    /// whether they cannot even be cut.
    pub(super) fn copy_encoding(&self, given: Option<&str>) -> (bool, bool) {
        let name = given.map_or_else(|| self.client_encoding(), letters);
        let foreign = !matches!(name.as_str(), "UTF8" | "UNICODE" | "SQLASCII");
        (foreign, TRICKY.contains(&name.as_str()))
    }

    /// # Errors
    /// 0A000 when the client's encoding is another one, and one of the values is not ASCII.
    pub(super) fn refuse_foreign<'a>(&self, values: impl IntoIterator<Item = &'a [u8]>) -> Result<()> {
        if !values.into_iter().all(<[u8]>::is_ascii) && self.is_foreign() {
            return Err(foreign_encoding());
        }
        Ok(())
    }

    /// The text of a Parse message.
    ///
    /// # Errors
    /// 22021 as PostgreSQL says it (report_invalid_encoding in mbutils.c), 0A000 in another encoding.
    pub(super) fn readable<'a>(&self, text: &'a [u8]) -> Result<&'a str> {
        if !text.is_ascii() && self.is_foreign() {
            return Err(foreign_encoding());
        }
        std::str::from_utf8(text).map_err(|error| {
            let rest = text.get(error.valid_up_to()..).unwrap_or_default();
            let length = match rest.first() {
                Some(b) if b & 0xe0 == 0xc0 => 2,
                Some(b) if b & 0xf0 == 0xe0 => 3,
                Some(b) if b & 0xf8 == 0xf0 => 4,
                _ => 1,
            };
            let bytes: Vec<String> = rest.iter().take(length).map(|b| format!("0x{b:02x}")).collect();
            let message = format!("invalid byte sequence for encoding \"UTF8\": {}", bytes.join(" "));
            Error::new(codes::CHARACTER_NOT_IN_REPERTOIRE, message)
        })
    }
}

impl Session {
    /// The error of a message that cannot be read: its texts, which come behind `skip` bytes, are judged before what
    /// follows them.
    pub(super) fn first_wrong(&self, body: &[u8], skip: usize, texts: usize, error: Error) -> Error {
        let mut reader = Reader::new(body.get(skip..).unwrap_or_default());
        for _ in 0..texts {
            let Ok(text) = reader.cstr() else { break };
            if let Err(unreadable) = self.check_name(text) {
                return unreadable;
            }
        }
        error
    }

    /// A statement's or portal's name: as PostgreSQL, text of the client's encoding.
    ///
    /// # Errors
    /// 22021
    pub(super) fn check_name(&self, name: &[u8]) -> Result<()> {
        if name.is_ascii() || self.is_foreign() { Ok(()) } else { self.readable(name).map(|_| ()) }
    }
}

pub fn foreign_encoding() -> Error {
    Error::unsupported("text beyond ASCII in an encoding other than UTF-8 is not supported here yet")
        .hint("SET client_encoding TO 'UTF8'.")
}
