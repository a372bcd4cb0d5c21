//! Sizes and times as people write them.
//!
//! Owns the units. All size units are powers of 1024, as memcached's `-I 1m` is.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    pub const fn kib(kib: u64) -> Self {
        Self(kib << 10)
    }

    pub const fn mib(mib: u64) -> Self {
        Self(mib << 20)
    }

    pub const fn gib(gib: u64) -> Self {
        Self(gib << 30)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

#[derive(Debug, Error, PartialEq, Eq)]
#[error("not a size: a whole number of bytes, or with a unit: 512k, 64m, 1g, 1Mi")]
pub struct UnitError;

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (number, unit) = split_unit(text);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "ki" | "kb" | "kib" => 10,
            "m" | "mi" | "mb" | "mib" => 20,
            "g" | "gi" | "gb" | "gib" => 30,
            "t" | "ti" | "tb" | "tib" => 40,
            _ => return Err(UnitError),
        };
        let number: u64 = number.parse().map_err(|_| UnitError)?;
        number.checked_mul(1 << shift).map(Self).ok_or(UnitError)
    }
}

impl fmt::Display for ByteSize {
    /// In the largest unit that leaves no remainder, readable by [`FromStr`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")];
        match units
            .iter()
            .find(|(shift, _)| self.0 != 0 && self.0.trailing_zeros() >= *shift)
        {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

/// A time with its unit, or a bare 0.
pub(super) fn parse_duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(number.checked_mul(60)?)),
        "h" => Some(Duration::from_secs(number.checked_mul(3600)?)),
        "" if number == 0 => Some(Duration::ZERO),
        _ => None,
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    (number, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        let cases = [
            ("0", 0),
            ("1048576", 1 << 20),
            ("1m", 1 << 20),
            ("1Mi", 1 << 20),
            ("1 MiB", 1 << 20),
            ("512k", 512 << 10),
            ("2g", 2 << 30),
            ("1Ti", 1 << 40),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for text in [
            "",
            "m",
            "-1",
            "1.5m",
            "1x",
            "18446744073709551616",
            "16777216Ti",
            "1 2",
        ] {
            assert_eq!(text.parse::<ByteSize>(), Err(UnitError), "{text}");
        }
    }

    #[test]
    fn a_size_is_written_so_that_it_can_be_read_again() {
        for (bytes, text) in [
            (0, "0"),
            (1000, "1000"),
            (1 << 20, "1Mi"),
            (3 << 29, "1536Mi"),
        ] {
            assert_eq!(ByteSize(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
    }

    #[test]
    fn times_need_a_unit() {
        let cases = [
            ("0", 0),
            ("500ms", 500),
            ("1s", 1000),
            ("5m", 300_000),
            ("2h", 7_200_000),
        ];
        for (text, ms) in cases {
            assert_eq!(
                parse_duration(text),
                Some(Duration::from_millis(ms)),
                "{text}"
            );
        }
        for text in ["", "1", "s", "-1s", "1.5s", "1d", "18446744073709551615h"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
