//! Values in binary format, compared and normalised as PostgreSQL's btree and equality operators do, without decoding
//! more than that takes.
//!
//! Text compares as bytes: whoever sorts by it must know that its collation does the same. Types that are not here
//! (jsonb, arrays, composites, enums, ranges, …) are compared by PostgreSQL only.

use super::Oid;
use super::numeric;
use super::numeric::Encoded;
use super::oid;
use super::trim_padding;
use std::cmp::Ordering;

/// How the values of a type compare; found once per column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparer {
    Int16,
    Int32,
    Int64,
    Float4,
    Float8,
    /// Byte by byte, all of one length.
    Fixed(usize),
    /// Byte by byte, the prefix first.
    Bytes,
    /// Byte by byte without trailing spaces: character(n).
    Padded,
    Numeric,
    /// Months of 30 days, days of 24 hours.
    Interval,
    /// By the moment, then by the zone.
    TimeTz,
    /// bit, bit varying.
    Bits,
    /// inet, cidr.
    Inet,
}

impl Comparer {
    /// `None` for types that are not compared here.
    pub fn of(oid: Oid) -> Option<Comparer> {
        Some(match oid {
            oid::INT2 => Comparer::Int16,
            oid::INT4 | oid::DATE => Comparer::Int32,
            oid::INT8 | oid::MONEY | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ => Comparer::Int64,
            oid::FLOAT4 => Comparer::Float4,
            oid::FLOAT8 => Comparer::Float8,
            oid::BOOL | oid::CHAR => Comparer::Fixed(1),
            oid::OID => Comparer::Fixed(4),
            oid::MACADDR => Comparer::Fixed(6),
            oid::MACADDR8 | oid::PG_LSN => Comparer::Fixed(8),
            oid::UUID => Comparer::Fixed(16),
            oid::TEXT | oid::VARCHAR | oid::NAME | oid::BYTEA => Comparer::Bytes,
            oid::BPCHAR => Comparer::Padded,
            oid::NUMERIC => Comparer::Numeric,
            oid::INTERVAL => Comparer::Interval,
            oid::TIMETZ => Comparer::TimeTz,
            oid::BIT | oid::VARBIT => Comparer::Bits,
            oid::INET | oid::CIDR => Comparer::Inet,
            _ => return None,
        })
    }

    /// Whether the bytes are a value's binary format, as far as comparing needs it.
    pub fn accepts(self, bytes: &[u8]) -> bool {
        match self {
            Comparer::Int16 => bytes.len() == 2,
            Comparer::Int32 | Comparer::Float4 => bytes.len() == 4,
            Comparer::Int64 | Comparer::Float8 => bytes.len() == 8,
            Comparer::Fixed(len) => bytes.len() == len,
            Comparer::Bytes | Comparer::Padded => true,
            Comparer::Numeric => Encoded::parse(bytes).is_some(),
            Comparer::Interval => bytes.len() == 16,
            Comparer::TimeTz => bytes.len() == 12,
            Comparer::Bits => bits(bytes).is_some(),
            Comparer::Inet => inet(bytes).is_some(),
        }
    }

    /// The btree order of two values that [`Comparer::accepts`] accepts (others compare as bytes).
    pub fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Comparer::Int16 => by(a, b, |x| Some(i16::from_be_bytes(x.try_into().ok()?))),
            Comparer::Int32 => by(a, b, |x| Some(i32::from_be_bytes(x.try_into().ok()?))),
            Comparer::Int64 => by(a, b, |x| Some(i64::from_be_bytes(x.try_into().ok()?))),
            Comparer::Float4 => {
                by(a, b, |x| Some(f32::from_be_bytes(x.try_into().ok()?)).map(|x| FloatOrder(x.into())))
            }
            Comparer::Float8 => by(a, b, |x| Some(FloatOrder(f64::from_be_bytes(x.try_into().ok()?)))),
            Comparer::Fixed(_) | Comparer::Bytes => a.cmp(b),
            Comparer::Padded => trim_padding(a).cmp(trim_padding(b)),
            Comparer::Numeric => compare_numeric(a, b),
            Comparer::Interval => by(a, b, interval_span),
            Comparer::TimeTz => by(a, b, timetz),
            Comparer::Bits => by(a, b, bits),
            Comparer::Inet => match (inet(a), inet(b)) {
                (Some(a), Some(b)) => a.compare(&b),
                _ => a.cmp(b),
            },
        }
    }

    /// Appends bytes that are the same for two values exactly when PostgreSQL's equality says so.
    pub fn canonical(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Comparer::Float4 => {
                out.extend_from_slice(&float(bytes, |x| Some(f32::from_be_bytes(x.try_into().ok()?).into())))
            }
            Comparer::Float8 => out.extend_from_slice(&float(bytes, |x| Some(f64::from_be_bytes(x.try_into().ok()?)))),
            Comparer::Padded => out.extend_from_slice(trim_padding(bytes)),
            Comparer::Numeric => canonical_numeric(bytes, out),
            Comparer::Interval => match interval_span(bytes) {
                Some(span) => out.extend_from_slice(&span.to_be_bytes()),
                None => out.extend_from_slice(bytes),
            },
            Comparer::Inet => match inet(bytes) {
                Some(inet) => inet.canonical(out),
                None => out.extend_from_slice(bytes),
            },
            _ => out.extend_from_slice(bytes),
        }
    }
}

/// Whether values of the type are compared here.
pub fn comparable(oid: Oid) -> bool {
    Comparer::of(oid).is_some()
}

/// The btree order of two values of one type in binary format; types that are not [`comparable`] compare as bytes.
pub fn compare_binary(oid: Oid, a: &[u8], b: &[u8]) -> Ordering {
    Comparer::of(oid).unwrap_or(Comparer::Bytes).compare(a, b)
}

/// Appends bytes that are the same for two values of the type exactly when PostgreSQL's equality says so (text: under
/// any deterministic collation).
pub fn canonical(oid: Oid, bytes: &[u8], out: &mut Vec<u8>) {
    Comparer::of(oid).unwrap_or(Comparer::Bytes).canonical(bytes, out);
}

/// Compares what a function reads from both; what it cannot read compares as bytes.
fn by<'a, T: Ord>(a: &'a [u8], b: &'a [u8], read: impl Fn(&'a [u8]) -> Option<T>) -> Ordering {
    match (read(a), read(b)) {
        (Some(x), Some(y)) => x.cmp(&y),
        _ => a.cmp(b),
    }
}

/// float8_cmp_internal: NaN is equal to itself and greater than all, -0 equals 0.
struct FloatOrder(f64);

impl Ord for FloatOrder {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or_else(|| self.0.is_nan().cmp(&other.0.is_nan()))
    }
}

impl PartialOrd for FloatOrder {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for FloatOrder {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for FloatOrder {}

fn float(bytes: &[u8], read: impl Fn(&[u8]) -> Option<f64>) -> [u8; 8] {
    match read(bytes) {
        Some(value) if value.is_nan() => f64::NAN.to_be_bytes(),
        // -0 + 0 is 0
        Some(value) => (value + 0.0).to_be_bytes(),
        None => [0; 8],
    }
}

/// interval_cmp_value, in 128 bits.
fn interval_span(bytes: &[u8]) -> Option<i128> {
    let (time, rest) = bytes.split_first_chunk::<8>()?;
    let (day, rest) = rest.split_first_chunk::<4>()?;
    let month: [u8; 4] = rest.try_into().ok()?;
    let days = i128::from(i32::from_be_bytes(month)) * 30 + i128::from(i32::from_be_bytes(*day));
    Some(i128::from(i64::from_be_bytes(*time)) + days * 86_400_000_000)
}

/// timetz_cmp_internal: the moment in UTC, then the zone (seconds west).
fn timetz(bytes: &[u8]) -> Option<(i128, i32)> {
    let (time, zone) = bytes.split_first_chunk::<8>()?;
    let zone = i32::from_be_bytes(zone.try_into().ok()?);
    Some((i128::from(i64::from_be_bytes(*time)) + i128::from(zone) * 1_000_000, zone))
}

/// bit_cmp: the bytes, then the number of bits.
fn bits(bytes: &[u8]) -> Option<(&[u8], i32)> {
    let (len, bits) = bytes.split_first_chunk::<4>()?;
    let len = i32::from_be_bytes(*len);
    (bits.len() == usize::try_from(len).ok()?.div_ceil(8)).then_some((bits, len))
}

struct Inet<'a> {
    family: u8,
    bits: u8,
    address: &'a [u8],
}

/// inet_send: family, bits, is_cidr, length, address.
fn inet(bytes: &[u8]) -> Option<Inet<'_>> {
    let ([family, bits, _is_cidr, len], address) = bytes.split_first_chunk::<4>()?;
    let valid = usize::from(*len) == address.len() && matches!(len, 4 | 16) && usize::from(*bits) <= 8 * address.len();
    valid.then_some(Inet { family: *family, bits: *bits, address })
}

impl Inet<'_> {
    /// network_cmp_internal: the common network bits, the length of the network, the whole address.
    fn compare(&self, other: &Inet<'_>) -> Ordering {
        if self.family != other.family {
            return self.family.cmp(&other.family);
        }
        let common = self.bits.min(other.bits);
        let network = self.network(common).cmp(other.network(common));
        network.then(self.bits.cmp(&other.bits)).then(self.address.cmp(other.address))
    }

    fn network(&self, bits: u8) -> impl Iterator<Item = u8> {
        let last = usize::from(bits / 8);
        let mask = !(0xff_u8.checked_shr(u32::from(bits % 8)).unwrap_or(0));
        self.address.iter().enumerate().take(last + 1).map(move |(i, byte)| if i < last { *byte } else { byte & mask })
    }

    fn canonical(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.family, self.bits]);
        out.extend_from_slice(self.address);
    }
}

/// -Infinity < numbers < Infinity < NaN.
fn numeric_class(encoded: &Encoded<'_>) -> u8 {
    match encoded.sign {
        numeric::SIGN_NEG_INFINITY => 0,
        numeric::SIGN_INFINITY => 2,
        numeric::SIGN_NAN => 3,
        _ => 1,
    }
}

/// cmp_numerics.
fn compare_numeric(a: &[u8], b: &[u8]) -> Ordering {
    let (Some(x), Some(y)) = (Encoded::parse(a), Encoded::parse(b)) else { return a.cmp(b) };
    let classes = (numeric_class(&x), numeric_class(&y));
    if classes != (1, 1) {
        return classes.0.cmp(&classes.1);
    }
    let sign = |n: &Encoded<'_>| match (n.sign, n.digits) {
        (_, []) => 0,
        (numeric::SIGN_NEGATIVE, _) => -1,
        _ => 1,
    };
    match (sign(&x), sign(&y)) {
        (1, 1) => magnitude(&x).cmp(&magnitude(&y)),
        (-1, -1) => magnitude(&y).cmp(&magnitude(&x)),
        (x, y) => x.cmp(&y),
    }
}

/// Digits are big-endian and without zeros at the ends, so that their bytes compare as they do.
fn magnitude<'a>(number: &Encoded<'a>) -> (i16, &'a [u8]) {
    (number.weight, number.digits)
}

fn canonical_numeric(bytes: &[u8], out: &mut Vec<u8>) {
    let Some(number) = Encoded::parse(bytes) else { return out.extend_from_slice(bytes) };
    out.extend_from_slice(&number.sign.to_be_bytes());
    if numeric_class(&number) == 1 && !number.digits.is_empty() {
        out.extend_from_slice(&number.weight.to_be_bytes());
        out.extend_from_slice(number.digits);
    }
}

#[cfg(test)]
mod tests;
