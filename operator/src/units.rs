//! Sizes and durations as users write them, parsed once into types that carry their unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A text that is no size or no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a size.
    #[error("{0:?} is not a size: write a whole number and a unit, such as 512Ki, 1Mi or 20Gi")]
    Size(String),
    /// Not a duration.
    #[error(
        "{0:?} is not a duration: write a whole number and a unit, such as 100ms, 1s, 5m or 1h"
    )]
    Duration(String),
}

/// A number of bytes, ordered by value and written as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteSize {
    bytes: u64,
    text: String,
}

impl ByteSize {
    /// The size in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split(text);
        let factor: u64 = match unit {
            "" => 1,
            "k" => 1000,
            "M" => 1000 * 1000,
            "G" => 1000 * 1000 * 1000,
            "T" => 1000 * 1000 * 1000 * 1000,
            "Ki" => 1 << 10,
            "Mi" => 1 << 20,
            "Gi" => 1 << 30,
            "Ti" => 1 << 40,
            _ => return Err(UnitError::Size(text.into())),
        };
        let bytes = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(factor));
        match bytes {
            Some(bytes @ 1..) => Ok(Self {
                bytes,
                text: text.into(),
            }),
            _ => Err(UnitError::Size(text.into())),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Parses a duration such as `100ms`, `1s`, `5m` or `1h`; never zero.
///
/// # Errors
///
/// What is not of that form.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text);
    let millis: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return Err(UnitError::Duration(text.into())),
    };
    match number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(millis))
    {
        Some(millis @ 1..) => Ok(Duration::from_millis(millis)),
        _ => Err(UnitError::Duration(text.into())),
    }
}

/// Writes a duration in the largest unit that is exact, so that equal durations are equal texts.
pub fn format_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0 => "0s".into(),
        _ if millis % 3_600_000 == 0 => format!("{}h", millis / 3_600_000),
        _ if millis % 60_000 == 0 => format!("{}m", millis / 60_000),
        _ if millis % 1000 == 0 => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    }
}

fn split(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_counted_in_bytes() {
        for (text, bytes) in [
            ("1", 1),
            ("1k", 1000),
            ("1Ki", 1024),
            ("20Gi", 20 << 30),
            ("2T", 2_000_000_000_000),
        ] {
            assert_eq!(text.parse::<ByteSize>().unwrap().bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_says_how_to_write_one() {
        for text in [
            "",
            "0",
            "Gi",
            "1.5Gi",
            "-1",
            "1gb",
            "18446744073709551615Ti",
            "1 Gi",
        ] {
            let error = text.parse::<ByteSize>().unwrap_err();
            assert!(error.to_string().contains("20Gi"), "{text}: {error}");
        }
    }

    #[test]
    fn durations_are_read_and_written_in_the_largest_exact_unit() {
        for (text, millis, written) in [
            ("100ms", 100, "100ms"),
            ("1000ms", 1000, "1s"),
            ("60s", 60_000, "1m"),
            ("90s", 90_000, "90s"),
            ("1h", 3_600_000, "1h"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(format_duration(duration), written);
        }
    }

    #[test]
    fn what_is_no_duration_says_how_to_write_one() {
        for text in ["", "0s", "1", "s", "1.5s", "1d", "18446744073709551615h"] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.to_string().contains("100ms"), "{text}: {error}");
        }
    }
}
