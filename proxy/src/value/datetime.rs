//! Dates and timestamps in PostgreSQL's internal counts, and the one text form that means the same under every session
//! setting: ISO 8601 with a four-digit year.
//!
//! Everything else ('today', '1/2/2026', 'BC', time zone names, two-digit years) depends on DateStyle, TimeZone or the
//! clock and is left to a server.

use std::fmt;

pub const DATE_NEG_INFINITY: i32 = i32::MIN;
pub const DATE_INFINITY: i32 = i32::MAX;
pub const TIMESTAMP_NEG_INFINITY: i64 = i64::MIN;
pub const TIMESTAMP_INFINITY: i64 = i64::MAX;
pub const MICROS_PER_DAY: i64 = 86_400_000_000;
const MICROS_PER_SECOND: i64 = 1_000_000;
/// Days from 0000-03-01 to 2000-01-01 in the proleptic Gregorian calendar.
const EPOCH_DAYS: i64 = 730_425;

/// `YYYY-MM-DD` or an infinity → days since 2000-01-01; `None` where a server must say.
pub fn parse_date(text: &[u8]) -> Option<i32> {
    match text {
        b"infinity" => return Some(DATE_INFINITY),
        b"-infinity" => return Some(DATE_NEG_INFINITY),
        _ => {}
    }
    match date_prefix(text)? {
        (days, []) => i32::try_from(days).ok(),
        _ => None,
    }
}

/// `YYYY-MM-DD[ HH:MM:SS[.ffffff]]` or an infinity → microseconds since 2000-01-01.
pub fn parse_timestamp(text: &[u8]) -> Option<i64> {
    if let Some(infinity) = infinity(text) {
        return Some(infinity);
    }
    match moment_prefix(text)? {
        (micros, []) => Some(micros),
        _ => None,
    }
}

/// `YYYY-MM-DD HH:MM:SS[.ffffff]` with `Z` or a numeric offset from UTC (`+02`, `+0530`, `-03:30`), or an infinity →
/// microseconds since 2000-01-01 UTC.
pub fn parse_timestamptz(text: &[u8]) -> Option<i64> {
    if let Some(infinity) = infinity(text) {
        return Some(infinity);
    }
    let (micros, zone) = moment_prefix(text)?;
    let (sign, offset) = match zone.split_first()? {
        (b'Z', []) => return Some(micros),
        // without a time of day, a sign could be read as part of the date
        _ if text.len() - zone.len() <= 10 => return None,
        (b'+', offset) => (1, offset),
        (b'-', offset) => (-1, offset),
        _ => return None,
    };
    let (hours, minutes) = match offset {
        [_, _] => (number(offset)?, 0),
        [h @ .., b':', m1, m2] if h.len() == 2 => (number(h)?, number(&[*m1, *m2])?),
        [h1, h2, m1, m2] => (number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        _ => return None,
    };
    // PostgreSQL takes up to 15:59:59; real offsets end at 14:00
    (hours <= 14 && minutes <= 59).then(|| micros - sign * (hours * 60 + minutes) * 60 * MICROS_PER_SECOND)
}

fn infinity(text: &[u8]) -> Option<i64> {
    match text {
        b"infinity" => Some(TIMESTAMP_INFINITY),
        b"-infinity" => Some(TIMESTAMP_NEG_INFINITY),
        _ => None,
    }
}

/// Date and, if there is one, time of day; and the rest of the text.
fn moment_prefix(text: &[u8]) -> Option<(i64, &[u8])> {
    let (days, rest) = date_prefix(text)?;
    let midnight = days * MICROS_PER_DAY;
    match rest.split_first() {
        Some((b' ' | b'T', time)) => {
            let (micros, rest) = time_prefix(time)?;
            Some((midnight + micros, rest))
        }
        _ => Some((midnight, rest)),
    }
}

fn date_prefix(text: &[u8]) -> Option<(i64, &[u8])> {
    let (date, rest) = text.split_at_checked(10)?;
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = date else { return None };
    let year = number(&[*y1, *y2, *y3, *y4])?;
    let month = number(&[*m1, *m2])?;
    let day = number(&[*d1, *d2])?;
    let valid = year >= 1 && (1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month);
    valid.then(|| (days_from_civil(year, month, day), rest))
}

fn time_prefix(text: &[u8]) -> Option<(i64, &[u8])> {
    let (time, rest) = text.split_at_checked(8)?;
    let [h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?, number(&[*s1, *s2])?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let (fraction, rest) = fraction_prefix(rest)?;
    Some((((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + fraction, rest))
}

/// `.f` to `.ffffff` → microseconds; more digits would be rounded.
fn fraction_prefix(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some((b'.', rest)) = text.split_first() else { return Some((0, text)) };
    let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(len)?;
    let scale = 10_i64.pow(u32::try_from(6_usize.checked_sub(len)?).ok()?);
    (len > 0).then_some(())?;
    Some((number(digits)? * scale, rest))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0_i64, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 2000-01-01, counting years from March so that the leap day comes last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - EPOCH_DAYS
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// A date as DateStyle ISO writes it (years before 1 are written as such, not as BC: for messages only).
pub struct DateText(pub i32);

impl fmt::Display for DateText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            DATE_INFINITY => f.write_str("infinity"),
            DATE_NEG_INFINITY => f.write_str("-infinity"),
            days => write_date(f, i64::from(days)),
        }
    }
}

/// A time of day; for messages.
pub struct TimeText(pub i64);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(MICROS_PER_SECOND);
        write!(f, "{:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60)?;
        match self.0.rem_euclid(MICROS_PER_SECOND) {
            0 => Ok(()),
            micros => f.write_str(format!(".{micros:06}").trim_end_matches('0')),
        }
    }
}

/// A timestamp as DateStyle ISO writes it, without a zone; for messages.
pub struct TimestampText(pub i64);

impl fmt::Display for TimestampText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TIMESTAMP_INFINITY => f.write_str("infinity"),
            TIMESTAMP_NEG_INFINITY => f.write_str("-infinity"),
            micros => {
                write_date(f, micros.div_euclid(MICROS_PER_DAY))?;
                write!(f, " {}", TimeText(micros.rem_euclid(MICROS_PER_DAY)))
            }
        }
    }
}

fn write_date(f: &mut fmt::Formatter<'_>, days: i64) -> fmt::Result {
    let (year, month, day) = civil_from_days(days);
    write!(f, "{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::*;

    #[test]
    fn dates_of_every_day_round_trip() {
        for days in -730_119..2_921_939 {
            let text = DateText(days).to_string();
            assert_eq!(parse_date(text.as_bytes()), Some(days), "{text}");
        }
    }

    #[test]
    fn iso_texts() {
        assert_eq!(parse_date(b"2000-01-01"), Some(0));
        assert_eq!(parse_date(b"2026-11-30"), Some(9830));
        assert_eq!(parse_timestamp(b"2000-01-02"), Some(MICROS_PER_DAY));
        assert_eq!(parse_timestamp(b"2000-01-01 00:00:01.5"), Some(1_500_000));
        assert_eq!(parse_timestamp(b"2000-01-01T00:00:01.000001"), Some(1_000_001));
        assert_eq!(parse_timestamptz(b"2000-01-01 00:00:00Z"), Some(0));
        assert_eq!(parse_timestamptz(b"2000-01-01 02:00:00+02"), Some(0));
        assert_eq!(parse_timestamptz(b"1999-12-31 20:30:00-03:30"), Some(0));
        assert_eq!(parse_timestamptz(b"2000-01-01 05:30:00+0530"), Some(0));
        assert_eq!(parse_timestamptz(b"-infinity"), Some(i64::MIN));
        assert_eq!(parse_date(b"infinity"), Some(i32::MAX));
    }

    #[test]
    fn a_server_must_say() {
        for text in ["2026-02-30", "0000-01-01", "26-01-01", "today", "2026-1-1", "2026-01-01 ", "01/02/2026", ""] {
            assert_eq!(parse_date(text.as_bytes()), None, "{text}");
        }
        for text in ["2026-01-01 24:00:00", "2026-01-01 10:00", "2026-01-01 10:00:60", "2026-01-01 10:00:00.1234567"] {
            assert_eq!(parse_timestamp(text.as_bytes()), None, "{text}");
        }
        for text in
            ["2026-01-01 10:00:00", "2026-01-01", "2026-01-01-05", "2026-01-01 10:00:00+99", "2026-01-01 10:00:00 UTC"]
        {
            assert_eq!(parse_timestamptz(text.as_bytes()), None, "{text}");
        }
    }
}
