//! Bytes ↔ frames, and the messages that we look into.
//!
//! A frame is a type byte, a length of four bytes that counts itself, and a body. A frame is cut whole, and its length
//! checked, before anything in it is read; what is not looked into is forwarded as the bytes it came in
//! (PostgreSQL documentation, "Frontend/Backend Protocol").

pub mod backend;
pub mod copy;
pub mod frontend;
pub mod oids;
pub mod read;
pub mod startup;

use crate::error::Error;
use crate::error::Result;

/// The type byte of a message.
pub type Tag = u8;

/// The head of a frame: its type, and its length in bytes with the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub tag: Tag,
    /// Head and body: the length word and one.
    pub total: usize,
}

/// Bytes of a frame's head.
pub const HEAD: usize = 5;

/// The head of the frame at the start of `buffer`; `None` while it is not there whole.
///
/// # Errors
/// A length below four or above `max` (08P01): after it nothing in the stream can be trusted.
#[inline]
pub fn head(buffer: &[u8], max: usize) -> Result<Option<Head>> {
    let Some(&[tag, a, b, c, d]) = buffer.first_chunk::<HEAD>() else { return Ok(None) };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length < 4 || length > max {
        return Err(Error::protocol("invalid message length"));
    }
    Ok(Some(Head { tag, total: length + 1 }))
}

/// The state that ReadyForQuery reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Idle,
    InTransaction,
    Failed,
}

impl Status {
    pub fn byte(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        }
    }

    pub fn from_byte(byte: u8) -> Option<Status> {
        match byte {
            b'I' => Some(Status::Idle),
            b'T' => Some(Status::InTransaction),
            b'E' => Some(Status::Failed),
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_cut_only_when_it_is_whole() {
        assert_eq!(head(b"Q\0\0\0", 100).unwrap(), None);
        assert_eq!(head(b"Q\0\0\0\x05x", 100).unwrap(), Some(Head { tag: b'Q', total: 6 }));
        assert!(head(b"Q\0\0\0\x03", 100).is_err());
        assert!(head(b"Q\0\0\x01\0", 100).is_err());
    }
}
