//! The first packet of a connection: it has no type byte.

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::limits;
use crate::wire::read::Reader;
use bytes::BufMut;
use bytes::BytesMut;

/// What a client wants when it connects.
#[derive(Debug, PartialEq, Eq)]
pub enum First {
    Ssl,
    Gss,
    Cancel { pid: i32, secret: Vec<u8> },
    Startup(Startup),
}

#[derive(Debug, PartialEq, Eq)]
pub struct Startup {
    pub minor: u16,
    /// Parameters in the client's order, `user` and `database` among them; options that begin with `_pq_.` apart.
    pub parameters: Vec<(String, String)>,
    pub protocol_options: Vec<String>,
}

impl Startup {
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }
}

pub const PROTOCOL_3_0: u32 = 3 << 16;
/// The newest minor version that we speak (cancel keys of any length).
pub const NEWEST_MINOR: u16 = 2;
pub const SSL_REQUEST: u32 = 80_877_103;
pub const GSS_REQUEST: u32 = 80_877_104;
pub const CANCEL_REQUEST: u32 = 80_877_102;

/// The length of the packet at the start of `buffer`, `None` while its length word is not there.
///
/// # Errors
/// Lengths that PostgreSQL refuses too.
pub fn packet_length(buffer: &[u8]) -> Result<Option<usize>> {
    let Some(word) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*word) as usize;
    if !(8..=limits::STARTUP_PACKET_BYTES).contains(&length) {
        return Err(Error::protocol("invalid length of startup packet"));
    }
    Ok(Some(length))
}

/// A whole CancelRequest packet.
pub fn cancel_request(pid: i32, secret: &[u8]) -> BytesMut {
    let mut packet = BytesMut::with_capacity(12 + secret.len());
    packet.put_u32(u32::try_from(12 + secret.len()).unwrap_or(u32::MAX));
    packet.put_u32(CANCEL_REQUEST);
    packet.put_i32(pid);
    packet.put_slice(secret);
    packet
}

/// A whole packet, its length word included.
pub fn decode(packet: &[u8]) -> Result<First> {
    let mut reader = Reader::new(packet);
    reader.u32()?;
    match reader.u32()? {
        SSL_REQUEST => Ok(First::Ssl),
        GSS_REQUEST => Ok(First::Gss),
        CANCEL_REQUEST => {
            let pid = reader.i32()?;
            let secret = reader.rest().to_vec();
            if secret.is_empty() || secret.len() > 256 {
                return Err(Error::protocol("invalid length of cancel request packet"));
            }
            Ok(First::Cancel { pid, secret })
        }
        version if version >> 16 == 3 => startup(version as u16, reader).map(First::Startup),
        version => Err(Error::fatal(
            codes::NOT_SUPPORTED,
            format!(
                "unsupported frontend protocol {}.{}: server supports 3.0 to 3.{NEWEST_MINOR}",
                version >> 16,
                version & 0xffff
            ),
        )),
    }
}

fn startup(minor: u16, mut reader: Reader<'_>) -> Result<Startup> {
    let layout = || Error::protocol("invalid startup packet layout: expected terminator as last byte");
    let mut parameters = Vec::new();
    let mut protocol_options = Vec::new();
    loop {
        let name = reader.cstr().map_err(|_| layout())?;
        if name.is_empty() {
            break;
        }
        let value = reader.cstr().map_err(|_| layout())?;
        let name = String::from_utf8_lossy(name).into_owned();
        if name.starts_with("_pq_.") {
            protocol_options.push(name);
        } else {
            parameters.push((name, String::from_utf8_lossy(value).into_owned()));
        }
    }
    reader.end().map_err(|_| layout())?;
    Ok(Startup { minor, parameters, protocol_options })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packet(code: u32, rest: &[u8]) -> Vec<u8> {
        let mut p = ((rest.len() + 8) as u32).to_be_bytes().to_vec();
        p.extend(code.to_be_bytes());
        p.extend(rest);
        p
    }

    #[test]
    fn packets_are_told_apart() {
        assert_eq!(decode(&packet(SSL_REQUEST, b"")).unwrap(), First::Ssl);
        let First::Startup(s) = decode(&packet(PROTOCOL_3_0 + 2, b"user\0u\0_pq_.x\x001\0\0")).unwrap() else {
            unreachable!("a startup packet")
        };
        assert_eq!((s.minor, s.parameter("user")), (2, Some("u")));
        assert_eq!(s.protocol_options, ["_pq_.x"]);
        assert!(decode(&packet(PROTOCOL_3_0, b"user\0u")).is_err());
        assert!(decode(&packet(2 << 16, b"")).is_err());
        assert!(packet_length(&[0, 0, 0, 4]).is_err());
        assert!(packet_length(&[0, 1, 0, 0]).is_err());
    }

    proptest! {
        #[test]
        fn no_packet_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&body);
        }
    }
}
