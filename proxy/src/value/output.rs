//! A value that the proxy computed → the bytes of a column: int8out, numeric_out, float8out and the like.

use super::Oid;
use super::float;
use super::numeric::Numeric;
use super::oid;
use crate::error::Error;
use crate::error::Result;

/// Appends the text format of a value that is given in binary format. Types: boolean, the integers, real, double
/// precision (as with `extra_float_digits` of 1 or more, its default), numeric. Error: XX000 for other types and for
/// malformed bytes.
pub fn write_text(oid: Oid, binary: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match oid {
        oid::BOOL => out.push(if fixed::<1>(binary)? == [0] { b'f' } else { b't' }),
        oid::INT2 => out.extend_from_slice(i16::from_be_bytes(fixed(binary)?).to_string().as_bytes()),
        oid::INT4 => out.extend_from_slice(i32::from_be_bytes(fixed(binary)?).to_string().as_bytes()),
        oid::INT8 => out.extend_from_slice(i64::from_be_bytes(fixed(binary)?).to_string().as_bytes()),
        oid::FLOAT4 => float::write_float4(f32::from_be_bytes(fixed(binary)?), out),
        oid::FLOAT8 => float::write_float8(f64::from_be_bytes(fixed(binary)?), out),
        oid::NUMERIC => out.extend_from_slice(Numeric::from_binary(binary)?.to_string().as_bytes()),
        other => return Err(Error::internal(format!("no text output for {}", oid::describe(other)))),
    }
    Ok(())
}

/// The bytes as an array of the type's length.
pub(crate) fn fixed<const N: usize>(binary: &[u8]) -> Result<[u8; N]> {
    binary.try_into().map_err(|_| Error::internal(format!("a shard sent {} bytes where {N} are due", binary.len())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn text(oid: Oid, binary: &[u8]) -> String {
        let mut out = Vec::new();
        write_text(oid, binary, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts() {
        assert_eq!(text(oid::BOOL, &[1]), "t");
        assert_eq!(text(oid::BOOL, &[0]), "f");
        assert_eq!(text(oid::INT2, &(-2_i16).to_be_bytes()), "-2");
        assert_eq!(text(oid::INT4, &7_i32.to_be_bytes()), "7");
        assert_eq!(text(oid::INT8, &i64::MIN.to_be_bytes()), "-9223372036854775808");
        assert_eq!(text(oid::FLOAT4, &0.1_f32.to_be_bytes()), "0.1");
        assert_eq!(text(oid::FLOAT8, &1e15_f64.to_be_bytes()), "1e+15");
        assert_eq!(text(oid::NUMERIC, &[0, 1, 0, 0, 0, 0, 0, 2, 0, 5]), "5.00");
        assert!(write_text(oid::INT4, &[0; 3], &mut Vec::new()).is_err());
        assert!(write_text(oid::JSONB, &[0; 3], &mut Vec::new()).is_err());
    }
}
