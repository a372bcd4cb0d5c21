//! A `PetraCluster` out of a YAML or JSON file of any number of documents, as `kubectl apply -f` takes it.

use kube::Resource;
use serde_json::Value;

use crate::crd::PetraCluster;

/// Why a file has no cluster to work on.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// Not YAML.
    #[error("the file is not YAML: {0}")]
    NotYaml(String),
    /// Only other kinds.
    #[error("the file has no PetraCluster of {version}; it has {found}: name a file that has one", version = PetraCluster::api_version(&()))]
    None {
        /// Kinds of the file.
        found: String,
    },
    /// More than one.
    #[error("the file has {} PetraClusters ({}): keep one per file, or pipe one of them to `-f -`", .0.len(), .0.join(", "))]
    Several(Vec<String>),
    /// Its fields are wrong.
    #[error("PetraCluster {name} cannot be read: {source}")]
    Malformed {
        /// Name of the cluster.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The API server would refuse it.
    #[error("PetraCluster {name} would be refused: {problems}")]
    Refused {
        /// Name of the cluster.
        name: String,
        /// Messages of the rules.
        problems: String,
    },
}

/// The one `PetraCluster` in `text`, checked by the rules that the API server checks.
///
/// # Errors
///
/// There is none, there are several, or it would be refused.
pub fn read(text: &str) -> Result<PetraCluster, InputError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| InputError::NotYaml(error.to_string()))?;
    let documents: Vec<Value> = documents.into_iter().flat_map(items).collect();
    let field = |document: &Value, pointer| {
        document
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    let name = |document: &Value| {
        field(document, "/metadata/name").unwrap_or_else(|| "without a name".to_owned())
    };
    let is_cluster = |document: &&Value| {
        field(document, "/kind").as_deref() == Some("PetraCluster")
            && field(document, "/apiVersion").as_deref() == Some(&PetraCluster::api_version(&()))
    };
    let mut clusters: Vec<&Value> = documents.iter().filter(is_cluster).collect();
    match (clusters.pop(), clusters.len()) {
        (Some(cluster), 0) => parse(cluster, name(cluster)),
        (Some(last), _) => Err(InputError::Several(
            clusters.into_iter().chain([last]).map(name).collect(),
        )),
        (None, _) => {
            let mut kinds: Vec<String> = documents
                .iter()
                .map(|document| field(document, "/kind").unwrap_or_else(|| "no kind".into()))
                .collect();
            kinds.dedup();
            let found = if kinds.is_empty() {
                "no objects".to_owned()
            } else {
                kinds.join(", ")
            };
            Err(InputError::None { found })
        }
    }
}

/// The objects of a document: those of a `List`, or the one that it is.
fn items(document: Value) -> Vec<Value> {
    if document.is_null() {
        return Vec::new();
    }
    match (
        document.get("kind").and_then(Value::as_str),
        document.get("items"),
    ) {
        (Some("List"), Some(Value::Array(items))) => items.clone(),
        _ => vec![document],
    }
}

fn parse(document: &Value, name: String) -> Result<PetraCluster, InputError> {
    let cluster: PetraCluster = match serde_json::from_value(document.clone()) {
        Ok(cluster) => cluster,
        Err(source) => return Err(InputError::Malformed { name, source }),
    };
    match cluster.validate_cel() {
        Ok(()) => Ok(cluster),
        Err(errors) => {
            let problems: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(InputError::Refused {
                name,
                problems: problems.join("; "),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: &str = "
apiVersion: petracache.io/v1alpha1
kind: PetraCluster
metadata: {name: c}
spec: {regions: [{name: main}]}
";
    const OTHER: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: cache}
";

    #[test]
    fn the_cluster_is_found_among_other_documents_and_in_lists() {
        let file = format!("{OTHER}---{CLUSTER}---\n");
        assert_eq!(read(&file).unwrap().metadata.name.as_deref(), Some("c"));
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "petracache.io/v1alpha1",
            "kind": "PetraCluster", "metadata": {"name": "d"}, "spec": {"regions": [{"name": "main"}]}}]}"#;
        assert_eq!(read(list).unwrap().metadata.name.as_deref(), Some("d"));
    }

    #[test]
    fn none_and_several_are_refused_with_what_to_do() {
        assert!(
            read(OTHER)
                .unwrap_err()
                .to_string()
                .contains("it has Namespace")
        );
        assert!(read("").unwrap_err().to_string().contains("no objects"));
        let two = format!("{CLUSTER}---{}", CLUSTER.replace("name: c", "name: d"));
        assert!(
            read(&two)
                .unwrap_err()
                .to_string()
                .contains("2 PetraClusters (c, d): keep one")
        );
    }

    #[test]
    fn what_the_api_server_would_refuse_is_refused_here() {
        let twice = CLUSTER.replace("[{name: main}]", "[{name: a}, {name: a}]");
        assert!(
            read(&twice)
                .unwrap_err()
                .to_string()
                .contains("region names must be unique")
        );
        let wrong = CLUSTER.replace("{regions", "{replicas: many, regions");
        assert!(
            read(&wrong)
                .unwrap_err()
                .to_string()
                .contains("PetraCluster c cannot be read")
        );
    }
}
