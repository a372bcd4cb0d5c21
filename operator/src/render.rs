//! No client. Every object that the operator would apply to a cluster that has none of them yet.

use serde_json::Value;

use crate::controller::build::{Layouts, RegionObjects, build};
use crate::controller::validate::{InvalidSpec, Settings, validate};
use crate::controller::wanted;
use crate::crd::PetraCluster;

/// Why nothing can be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The spec cannot be built.
    #[error(transparent)]
    Invalid(#[from] InvalidSpec),
    /// An object has no text form.
    #[error("an object cannot be written: {0}")]
    Json(#[from] serde_json::Error),
    /// An object has no text form.
    #[error("an object cannot be written as YAML: {0}")]
    Yaml(String),
}

/// What the regions that are built here become, each at its full size.
///
/// # Errors
///
/// The spec cannot be built.
pub fn regions(
    cluster: &PetraCluster,
    settings: &Settings,
) -> Result<Vec<RegionObjects>, InvalidSpec> {
    Ok(build(&validate(cluster, settings)?, &Layouts::new()))
}

/// Every object in the order in which it would be applied. Owner references are there only if `cluster` has the
/// uid that an API server gave it.
///
/// # Errors
///
/// The spec cannot be built.
pub fn objects(cluster: &PetraCluster, settings: &Settings) -> Result<Vec<Value>, RenderError> {
    let wanted = wanted(&regions(cluster, settings)?)?;
    Ok(wanted.into_iter().map(|wanted| wanted.body).collect())
}

/// The objects as one YAML stream.
///
/// # Errors
///
/// An object that YAML cannot express.
pub fn to_yaml(objects: &[Value]) -> Result<String, RenderError> {
    let mut text = String::new();
    for object in objects {
        text.push_str("---\n");
        text.push_str(
            &serde_saphyr::to_string(object)
                .map_err(|error| RenderError::Yaml(error.to_string()))?,
        );
    }
    Ok(text)
}

/// The objects as one JSON `List`, which `kubectl apply -f` takes too.
///
/// # Errors
///
/// None in practice.
pub fn to_json(objects: &[Value]) -> Result<String, RenderError> {
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": objects});
    Ok(serde_json::to_string_pretty(&list)? + "\n")
}
