//! Durations (`500ms`, `5s`, `1m`, `1h`, `1d`) and sizes (`64MB`), spelled as PostgreSQL spells them.

use std::time::Duration;

/// A number and its unit: `us`, `ms`, `s`, `min` or `m`, `h`, `d`.
///
/// # Errors
/// What was expected, for a message.
pub fn duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("expected a duration such as \"500ms\", \"5s\" or \"1m\", not \"{text}\"");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let micros: u64 = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" | "min" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(expected()),
    };
    number.checked_mul(micros).map(Duration::from_micros).ok_or_else(expected)
}

/// A number of bytes with its unit: `B`, `kB`, `MB`, `GB` (powers of 1024, as in postgresql.conf).
///
/// # Errors
/// What was expected, for a message.
pub fn size(text: &str) -> Result<usize, String> {
    let expected = || format!("expected a size such as \"64MB\" or \"512kB\", not \"{text}\"");
    let (number, unit) = split(text).ok_or_else(expected)?;
    let bytes: u64 = match unit {
        "B" => 1,
        "kB" | "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return Err(expected()),
    };
    number.checked_mul(bytes).and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(expected)
}

fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at_checked(end)?;
    Some((number.parse().ok()?, unit.trim()))
}

#[cfg(test)]
mod tests {
    use super::duration;
    use super::size;
    use std::time::Duration;

    #[test]
    fn durations_and_sizes() {
        assert_eq!(duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("500 ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("2h"), Ok(Duration::from_secs(7200)));
        for wrong in ["5", "s", "", "-1s", "5 parsecs", "99999999999999999999s", "18446744073709551615d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size("64MB"), Ok(64 << 20));
        assert_eq!(size("10kB"), Ok(10 << 10));
        assert!(size("64").is_err());
        assert!(size("64TB").is_err());
    }
}
