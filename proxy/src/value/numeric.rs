//! PostgreSQL's numeric: any precision, a display scale, NaN and the infinities.
//!
//! What a merge computes with it: sums (at the larger scale) and averages (numeric_div, select_div_scale), and the text
//! and binary forms of the results. Comparison works on the binary form, see `binary`. Source of the rules:
//! src/backend/utils/adt/numeric.c.

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use num_bigint::BigInt;
use num_bigint::BigUint;
use num_bigint::Sign;
use num_traits::Pow;
use num_traits::Zero;
use std::fmt;

pub(crate) const SIGN_POSITIVE: u16 = 0x0000;
pub(crate) const SIGN_NEGATIVE: u16 = 0x4000;
pub(crate) const SIGN_NAN: u16 = 0xC000;
pub(crate) const SIGN_INFINITY: u16 = 0xD000;
pub(crate) const SIGN_NEG_INFINITY: u16 = 0xF000;
/// What numeric_send gives as the scale of an infinity: the bits of the header that say which one it is.
const INFINITY_SCALE: u16 = 0x20;
/// NUMERIC_MIN_SIG_DIGITS: significant digits of a quotient at least.
const MIN_SIGNIFICANT_DIGITS: i64 = 16;
/// NUMERIC_MAX_DISPLAY_SCALE.
const MAX_DISPLAY_SCALE: i64 = 1_000;
/// NUMERIC_DSCALE_MAX: the greatest scale that a value can have.
const MAX_SCALE: u16 = 0x3fff;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numeric {
    NaN,
    Infinity,
    NegInfinity,
    /// `unscaled` / 10^`scale`; the scale is the number of digits that are shown after the point.
    Finite {
        unscaled: BigInt,
        scale: u16,
    },
}

impl Numeric {
    pub fn from_i64(value: i64) -> Numeric {
        Numeric::Finite { unscaled: BigInt::from(value), scale: 0 }
    }

    /// Reads the binary format (numeric_recv). Error: 22P03 if it is malformed.
    pub fn from_binary(bytes: &[u8]) -> Result<Numeric> {
        let encoded = Encoded::parse(bytes).ok_or_else(malformed)?;
        match encoded.sign {
            SIGN_NAN => return Ok(Numeric::NaN),
            SIGN_INFINITY => return Ok(Numeric::Infinity),
            SIGN_NEG_INFINITY => return Ok(Numeric::NegInfinity),
            _ => {}
        }
        let digits = BigInt::from(encoded.digits.chunks(8).fold(BigUint::ZERO, add_digits));
        // digits × 10000^(weight + 1 - count), in units of 10^-scale
        let count = (encoded.digits.len() / 2) as i64;
        let shift = 4 * (i64::from(encoded.weight) + 1 - count) + i64::from(encoded.scale);
        let mut unscaled = match shift >= 0 {
            true => digits * ten_to(shift),
            // digits beyond the scale are zeros
            false => digits / ten_to(-shift),
        };
        if encoded.sign == SIGN_NEGATIVE {
            unscaled = -unscaled;
        }
        Ok(Numeric::Finite { unscaled, scale: encoded.scale })
    }

    /// Appends the binary format (numeric_send). Error: 22003 if the value has too many digits for PostgreSQL.
    pub fn write_binary(&self, out: &mut Vec<u8>) -> Result<()> {
        let (unscaled, scale) = match self {
            Numeric::NaN => return write_special(SIGN_NAN, 0, out),
            Numeric::Infinity => return write_special(SIGN_INFINITY, INFINITY_SCALE, out),
            Numeric::NegInfinity => return write_special(SIGN_NEG_INFINITY, INFINITY_SCALE, out),
            Numeric::Finite { unscaled, scale } => (unscaled, *scale),
        };
        let padding = (4 - scale % 4) % 4;
        let mut text = (unscaled.magnitude() * ten_to_unsigned(padding.into())).to_string();
        text.insert_str(0, ["", "000", "00", "0"].get(text.len() % 4).copied().unwrap_or_default());
        let groups = text.as_bytes().chunks(4);
        let fraction_groups = usize::from(scale.div_ceil(4));
        let leading = groups.clone().take_while(|group| *group == b"0000").count();
        let trailing = groups.clone().rev().take_while(|group| *group == b"0000").count();
        let total = groups.len();
        let used = total.saturating_sub(leading + trailing);
        let weight = if used == 0 { 0 } else { (total - leading) as i64 - fraction_groups as i64 - 1 };
        let (Ok(count), Ok(weight)) = (u16::try_from(used), i16::try_from(weight)) else { return Err(overflow()) };
        let sign = if unscaled.sign() == Sign::Minus { SIGN_NEGATIVE } else { SIGN_POSITIVE };
        out.extend_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&weight.to_be_bytes());
        out.extend_from_slice(&sign.to_be_bytes());
        out.extend_from_slice(&scale.to_be_bytes());
        for group in groups.skip(leading).take(used) {
            let digit = group.iter().fold(0_u16, |digit, byte| digit * 10 + u16::from(byte - b'0'));
            out.extend_from_slice(&digit.to_be_bytes());
        }
        Ok(())
    }

    /// The sum, at the larger scale. NaN and the difference of infinities are NaN.
    #[must_use]
    pub fn add(&self, other: &Numeric) -> Numeric {
        match (self, other) {
            (Numeric::NaN, _) | (_, Numeric::NaN) => Numeric::NaN,
            (Numeric::Infinity, Numeric::NegInfinity) | (Numeric::NegInfinity, Numeric::Infinity) => Numeric::NaN,
            (Numeric::Infinity, _) | (_, Numeric::Infinity) => Numeric::Infinity,
            (Numeric::NegInfinity, _) | (_, Numeric::NegInfinity) => Numeric::NegInfinity,
            (Numeric::Finite { unscaled: a, scale: s }, Numeric::Finite { unscaled: b, scale: t }) => {
                let scale = *s.max(t);
                let unscaled = a * ten_to((scale - s).into()) + b * ten_to((scale - t).into());
                Numeric::Finite { unscaled, scale }
            }
        }
    }

    /// numeric_div(self, count): what avg gives for a sum and a count. `count` is at least 1.
    #[must_use]
    pub fn average(&self, count: i64) -> Numeric {
        let Numeric::Finite { unscaled, scale } = self else { return self.clone() };
        let (weight, first) = leading_digit(unscaled.magnitude(), *scale);
        let (count_weight, count_first) = leading_digit(&BigUint::from(count.unsigned_abs()), 0);
        // select_div_scale: the quotient's weight as far as the first digits tell
        let quotient_weight = weight - count_weight - i64::from(first <= count_first);
        let wanted = (MIN_SIGNIFICANT_DIGITS - quotient_weight * 4).max((*scale).into()).clamp(0, MAX_DISPLAY_SCALE);
        let result_scale = u16::try_from(wanted).unwrap_or_default();
        let magnitude = rescale(unscaled.magnitude(), *scale, result_scale);
        let (dividend, divisor) = magnitude;
        let divisor = divisor * count.unsigned_abs();
        if divisor.is_zero() {
            return Numeric::NaN;
        }
        // round half away from zero
        let rounded = (dividend * 2_u32 + &divisor) / (divisor * 2_u32);
        Numeric::Finite { unscaled: BigInt::from_biguint(unscaled.sign(), rounded), scale: result_scale }
    }
}

/// As numeric_out writes it.
impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unscaled, scale) = match self {
            Numeric::NaN => return f.write_str("NaN"),
            Numeric::Infinity => return f.write_str("Infinity"),
            Numeric::NegInfinity => return f.write_str("-Infinity"),
            Numeric::Finite { unscaled, scale } => (unscaled, usize::from(*scale)),
        };
        let digits = format!("{:0>width$}", unscaled.magnitude().to_string(), width = scale + 1);
        let sign = if unscaled.sign() == Sign::Minus { "-" } else { "" };
        match digits.split_at_checked(digits.len() - scale) {
            Some((integer, fraction)) if scale > 0 => write!(f, "{sign}{integer}.{fraction}"),
            _ => write!(f, "{sign}{digits}"),
        }
    }
}

/// The binary format, checked: `digits` are big-endian 16-bit base-10000 digits.
pub(crate) struct Encoded<'a> {
    pub weight: i16,
    pub sign: u16,
    pub scale: u16,
    pub digits: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// `None` if it is malformed; leading and trailing zero digits are taken away.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Encoded<'a>> {
        let ([n1, n2, w1, w2, s1, s2, d1, d2], digits) = bytes.split_first_chunk::<8>()?;
        let count = usize::from(u16::from_be_bytes([*n1, *n2]));
        let sign = u16::from_be_bytes([*s1, *s2]);
        let scale = u16::from_be_bytes([*d1, *d2]);
        let known = matches!(sign, SIGN_POSITIVE | SIGN_NEGATIVE | SIGN_NAN | SIGN_INFINITY | SIGN_NEG_INFINITY);
        let valid = digits.len() == 2 * count && scale <= MAX_SCALE && known;
        let valid = valid && digits.chunks_exact(2).all(|digit| digit_value(digit) < 10_000);
        let encoded = Encoded { weight: i16::from_be_bytes([*w1, *w2]), sign, scale, digits };
        valid.then(|| encoded.stripped()).flatten()
    }

    fn stripped(mut self) -> Option<Encoded<'a>> {
        while let Some(rest) = self.digits.strip_prefix(&[0, 0]) {
            self.digits = rest;
            self.weight = self.weight.checked_sub(1)?;
        }
        while let Some(rest) = self.digits.strip_suffix(&[0, 0]) {
            self.digits = rest;
        }
        if self.digits.is_empty() && self.sign == SIGN_NEGATIVE {
            self.sign = SIGN_POSITIVE;
        }
        Some(self)
    }
}

fn digit_value(digit: &[u8]) -> u64 {
    digit.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Up to four base-10000 digits behind a number.
fn add_digits(number: BigUint, digits: &[u8]) -> BigUint {
    let (value, scale) = digits
        .chunks_exact(2)
        .fold((0, 1), |(value, scale), digit| (value * 10_000 + digit_value(digit), scale * 10_000_u64));
    number * scale + value
}

/// Weight and value of the first non-zero base-10000 digit; (0, 0) for zero.
fn leading_digit(magnitude: &BigUint, scale: u16) -> (i64, u64) {
    if magnitude.is_zero() {
        return (0, 0);
    }
    let text = magnitude.to_string();
    let exponent = text.len() as i64 - 1 - i64::from(scale);
    let shown = exponent.rem_euclid(4) as usize + 1;
    let first =
        text.bytes().chain(std::iter::repeat(b'0')).take(shown).fold(0, |v, byte| v * 10 + u64::from(byte - b'0'));
    (exponent.div_euclid(4), first)
}

/// A magnitude at another scale, as a fraction (the divisor is 1 unless the scale shrinks).
fn rescale(magnitude: &BigUint, from: u16, to: u16) -> (BigUint, BigUint) {
    match to.checked_sub(from) {
        Some(more) => (magnitude * ten_to_unsigned(more.into()), BigUint::from(1_u32)),
        None => (magnitude.clone(), ten_to_unsigned((from - to).into())),
    }
}

fn ten_to_unsigned(exponent: u32) -> BigUint {
    BigUint::from(10_u32).pow(exponent)
}

/// 10^exponent; exponents come from 16-bit weights and scales.
fn ten_to(exponent: i64) -> BigInt {
    BigInt::from(ten_to_unsigned(u32::try_from(exponent).unwrap_or_default()))
}

fn write_special(sign: u16, scale: u16, out: &mut Vec<u8>) -> Result<()> {
    out.extend_from_slice(&[0, 0, 0, 0]);
    out.extend_from_slice(&sign.to_be_bytes());
    out.extend_from_slice(&scale.to_be_bytes());
    Ok(())
}

fn malformed() -> Error {
    Error::new(codes::INVALID_BINARY, "invalid binary numeric from a shard")
}

fn overflow() -> Error {
    Error::new(codes::NUMERIC_OUT_OF_RANGE, "value overflows numeric format")
}

#[cfg(test)]
mod tests;
