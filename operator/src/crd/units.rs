//! Durations and sizes as people write them: `200ms`, `1Gi`. Text in the object, numbers once parsed.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

const PERIOD_UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

const BYTE_UNITS: [(&str, u64); 10] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("", 1),
];

/// Why a text is not a duration or a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

/// A duration: a whole number and `ms`, `s`, `m` or `h`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Period(pub String);

impl Period {
    /// The duration that is written.
    ///
    /// # Errors
    ///
    /// The text is not a positive whole number with one of the units.
    pub fn parse(&self) -> Result<Duration, UnitError> {
        number_with_unit(&self.0, &PERIOD_UNITS)
            .map(Duration::from_millis)
            .ok_or_else(|| UnitError {
                text: self.0.clone(),
                expected: "a duration: write a whole number above 0 with ms, s, m or h, for instance 200ms",
            })
    }
}

/// A number of bytes: a whole number, by itself or with `Ki`, `Mi`, `Gi`, `Ti`, `Pi`, `k`, `M`, `G` or `T`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ByteSize(pub String);

impl ByteSize {
    /// The number of bytes that is written.
    ///
    /// # Errors
    ///
    /// The text is not a positive whole number with one of the units.
    pub fn parse(&self) -> Result<u64, UnitError> {
        number_with_unit(&self.0, &BYTE_UNITS).ok_or_else(|| UnitError {
            text: self.0.clone(),
            expected: "a size: write a whole number above 0 with Ki, Mi, Gi or Ti, for instance 20Gi",
        })
    }
}

impl From<&str> for Period {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<&str> for ByteSize {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": 10, "pattern": "^[1-9][0-9]{0,7}(ms|s|m|h)$"})
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": 17, "pattern": "^[1-9][0-9]{0,14}(Ki|Mi|Gi|Ti|Pi|k|M|G|T)?$"})
    }
}

fn number_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(*factor)
        .filter(|value| *value > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_their_units() {
        for (text, ms) in [
            ("200ms", 200),
            ("1s", 1000),
            ("5m", 300_000),
            ("2h", 7_200_000),
        ] {
            assert_eq!(
                Period::from(text).parse(),
                Ok(Duration::from_millis(ms)),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_are_read_in_binary_and_decimal_units() {
        for (text, bytes) in [
            ("1048576", 1 << 20),
            ("1Mi", 1 << 20),
            ("20Gi", 20 << 30),
            ("5k", 5000),
        ] {
            assert_eq!(ByteSize::from(text).parse(), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_an_example() {
        for text in [
            "",
            "ms",
            "0s",
            "-1s",
            "1.5s",
            "1 s",
            "99999999999999999999s",
        ] {
            let error = Period::from(text).parse().unwrap_err().to_string();
            assert!(error.contains("200ms"), "{error}");
        }
        assert!(
            ByteSize::from("1gb")
                .parse()
                .unwrap_err()
                .to_string()
                .contains("20Gi")
        );
    }
}
