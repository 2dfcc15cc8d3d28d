//! Floating-point numbers as PostgreSQL writes them in text (float4out, float8out with `extra_float_digits` > 0).
//!
//! The digits are the shortest that read back as the same number, but never a decimal that lies exactly between two
//! numbers (1e23 is written 9.999999999999999e+22): src/common/d2s.c and ryu_common.h, STRICTLY_SHORTEST. Positional
//! notation is used for exponents from -4 up to 14 (float8) or 5 (float4).

use num_bigint::BigUint;
use std::fmt::LowerExp;
use std::str::FromStr;

/// A number's parts: `mantissa` × 2^`exponent`; `low_gap_halved` says that the next smaller number is only half as far
/// away as the next greater one.
struct Binary {
    mantissa: u64,
    exponent: i32,
    low_gap_halved: bool,
}

/// Writes a float8 in text format.
pub fn write_float8(value: f64, out: &mut Vec<u8>) {
    if write_special(value, out) {
        return;
    }
    let bits = value.to_bits();
    let parts = binary(bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32, 52, 1_075);
    write_shortest(value.abs(), &parts, 15, out);
}

/// Writes a float4 in text format.
pub fn write_float4(value: f32, out: &mut Vec<u8>) {
    if write_special(f64::from(value), out) {
        return;
    }
    let bits = value.to_bits();
    let parts = binary(u64::from(bits & ((1 << 23) - 1)), (bits >> 23 & 0xff) as i32, 23, 150);
    write_shortest(value.abs(), &parts, 6, out);
}

/// Writes what has no digits, and the sign of what has; true if nothing is left to write.
fn write_special(value: f64, out: &mut Vec<u8>) -> bool {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
        return true;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    match value {
        0.0 => out.push(b'0'),
        value if value.is_infinite() => out.extend_from_slice(b"Infinity"),
        _ => return false,
    }
    true
}

fn binary(fraction: u64, biased: i32, fraction_bits: u32, bias: i32) -> Binary {
    match biased {
        0 => Binary { mantissa: fraction, exponent: 1 - bias, low_gap_halved: false },
        _ => Binary {
            mantissa: fraction | 1 << fraction_bits,
            exponent: biased - bias,
            low_gap_halved: fraction == 0 && biased > 1,
        },
    }
}

fn write_shortest<F: LowerExp + FromStr + PartialEq + Copy>(
    value: F,
    parts: &Binary,
    positional: i32,
    out: &mut Vec<u8>,
) {
    let (digits, exponent) = digits_and_exponent(&shortest(value, parts));
    if (-4..positional).contains(&exponent) {
        write_positional(&digits, exponent, out);
    } else {
        write_scientific(&digits, exponent, out);
    }
}

/// The shortest decimal as `d.ddde-x`. Of two equally short and equally near ones PostgreSQL takes the even one, which
/// correct rounding to that many digits gives; where a rounded one does not read back (the gap below a power of two is
/// smaller than the gap above), the standard library's own shortest one is right.
fn shortest<F: LowerExp + FromStr + PartialEq + Copy>(value: F, parts: &Binary) -> String {
    let free = format!("{value:e}");
    let len = digits_and_exponent(&free).0.len();
    let usable = |text: &String| text.parse::<F>().is_ok_and(|read| read == value) && !is_midpoint(text, parts);
    let rounded = |precision: usize| format!("{value:.precision$e}");
    let short = Some(rounded(len - 1)).filter(usable).or_else(|| Some(free.clone()).filter(usable));
    // 17 digits always tell numbers apart
    short.or_else(|| (len..17).map(rounded).find(usable)).unwrap_or(free)
}

/// `d.ddde-x` → the digits without trailing zeros, and the exponent of the first one.
fn digits_and_exponent(text: &str) -> (Vec<u8>, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let mut digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    while digits.len() > 1 && digits.ends_with(b"0") {
        digits.pop();
    }
    (digits, exponent.parse().unwrap_or(0))
}

/// Whether a decimal lies exactly between the number and one of its neighbours.
fn is_midpoint(text: &str, parts: &Binary) -> bool {
    let (digits, first) = digits_and_exponent(text);
    let ten = first + 1 - digits.len() as i32;
    // an exact midpoint has at most 54 bits times a power of two, so its power of five is small
    if !(-30..=30).contains(&ten) {
        return false;
    }
    // in quarters of the last place: decimal × 10^ten = quarters × 2^(exponent - 2)
    let two = parts.exponent - 2;
    let mut decimal =
        BigUint::parse_bytes(&digits, 10).unwrap_or_default() * BigUint::from(10_u32).pow(ten.max(0) as u32);
    let mut unit = BigUint::from(10_u32).pow((-ten).max(0) as u32);
    decimal <<= (-two).max(0) as usize;
    unit <<= two.max(0) as usize;
    let quarters = 4 * parts.mantissa;
    let below = if parts.low_gap_halved { quarters - 1 } else { quarters.saturating_sub(2) };
    decimal == &unit * (quarters + 2) || decimal == unit * below
}

fn write_positional(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(digits);
        return;
    }
    let whole = exponent as usize + 1;
    match digits.split_at_checked(whole) {
        Some((integer, fraction)) => {
            out.extend_from_slice(integer);
            if !fraction.is_empty() {
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        }
        None => {
            out.extend_from_slice(digits);
            out.resize(out.len() + whole - digits.len(), b'0');
        }
    }
}

fn write_scientific(digits: &[u8], exponent: i32, out: &mut Vec<u8>) {
    if let Some((first, rest)) = digits.split_first() {
        out.push(*first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    out.extend_from_slice(format!("e{sign}{:02}", exponent.unsigned_abs()).as_bytes());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    fn text8(value: f64) -> String {
        let mut out = Vec::new();
        write_float8(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn text4(value: f32) -> String {
        let mut out = Vec::new();
        write_float4(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// Recorded from PostgreSQL 15.
    #[test]
    fn float8_texts() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.234567890123456e+15"),
            (9007199254740993.0, "9.007199254740992e+15"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.00012345, "0.00012345"),
            (1e23, "9.999999999999999e+22"),
            (1e22, "1e+22"),
            (1e100, "1e+100"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
            (1.0 / 3.0, "0.3333333333333333"),
            (0.1 + 0.2, "0.30000000000000004"),
            (2f64.powi(-25), "2.9802322387695312e-08"),
            (-1949643438370141.0 / 8.0, "-243705429796267.62"),
        ];
        for (value, text) in cases {
            assert_eq!(text8(value), text);
        }
    }

    /// Recorded from PostgreSQL 15.
    #[test]
    fn float4_texts() {
        let cases = [
            (0.1_f32, "0.1"),
            (1e5, "100000"),
            (1e6, "1e+06"),
            (123456.0, "123456"),
            (1234567.0, "1.234567e+06"),
            (16777216.0, "1.6777216e+07"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (f32::MAX, "3.4028235e+38"),
            (1e-45, "1e-45"),
            (-2.5, "-2.5"),
            (2f32.powi(-12), "0.00024414062"),
            (8010861.0 / 4.0, "2.0027152e+06"),
            (f32::NAN, "NaN"),
        ];
        for (value, text) in cases {
            assert_eq!(text4(value), text);
        }
    }
}
