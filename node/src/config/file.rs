//! The configuration file.
//!
//! Owns reading TOML into [`Layers`], and that a key nobody knows is a mistake.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use toml::{Table, Value};
use tracing::warn;

use super::layers::{Layers, Origin, Setting};

/// Settings that once existed. Buffers are sized by what is in them, files by the disk quota.
const IGNORED: [(&str, &str); 3] = [
    ("storage", "target_file_size_base"),
    ("server", "read_buffer_size"),
    ("server", "write_buffer_size"),
];

#[derive(Debug, Error)]
pub enum FileError {
    #[error("cannot read the configuration file {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the configuration file {} is not TOML: {source}", path.display())]
    Syntax {
        path: PathBuf,
        source: Box<toml::de::Error>,
    },
    #[error("{section}.{key} in the file {} is no setting; {section} has: {known}", path.display())]
    Unknown {
        path: PathBuf,
        section: String,
        key: String,
        known: String,
    },
    #[error("{name} in the file {} must be {expected}", path.display())]
    Shape {
        path: PathBuf,
        name: String,
        expected: &'static str,
    },
}

/// Puts everything the file sets into `layers`.
pub(super) fn read(path: &Path, layers: &mut Layers) -> Result<(), FileError> {
    let text = fs::read_to_string(path).map_err(|source| FileError::Read {
        path: path.to_path_buf(),
        source,
    })?;
    let table: Table = text.parse().map_err(|source| FileError::Syntax {
        path: path.to_path_buf(),
        source: Box::new(source),
    })?;
    for (section, value) in &table {
        let Value::Table(entries) = value else {
            return Err(FileError::Shape {
                path: path.to_path_buf(),
                name: section.clone(),
                expected: "below [server], [access], [tls], [storage] or [metrics]",
            });
        };
        for (key, value) in entries {
            read_entry(path, section, key, value, layers)?;
        }
    }
    Ok(())
}

fn read_entry(
    path: &Path,
    section: &str,
    key: &str,
    value: &Value,
    layers: &mut Layers,
) -> Result<(), FileError> {
    if IGNORED.contains(&(section, key)) {
        warn!(
            "{section}.{key} in the file {} has no effect any more",
            path.display()
        );
        return Ok(());
    }
    let Some(setting) = Setting::ALL
        .iter()
        .find(|known| known.toml() == Some((section, key)))
    else {
        return Err(FileError::Unknown {
            path: path.to_path_buf(),
            section: section.to_owned(),
            key: key.to_owned(),
            known: known_keys(section),
        });
    };
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Float(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => {
            return Err(FileError::Shape {
                path: path.to_path_buf(),
                name: format!("{section}.{key}"),
                expected: "a text, a whole number, or true or false",
            });
        }
    };
    layers.put(*setting, text, Origin::File(path.to_path_buf()));
    Ok(())
}

fn known_keys(section: &str) -> String {
    let keys = Setting::ALL
        .iter()
        .filter_map(|setting| setting.toml())
        .filter(|(known, _)| *known == section)
        .map(|(_, key)| key);
    match keys.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => {
            "nothing, the sections are server, access, tls, storage and metrics".into()
        }
        keys => keys,
    }
}
