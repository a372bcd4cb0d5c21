//! Compute resources of a container.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::KubeSchema;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// What a container asks for, and what it may use at most.
#[derive(KubeSchema, Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What the scheduler reserves, such as `{cpu: 500m, memory: 1Gi}`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Amount>,
    /// What the container may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Amount>,
}

/// A quantity as Kubernetes writes it. A bare number is read as its text, because everybody writes `cpu: 1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Amount(pub String);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Raw {
            Text(String),
            Integer(i64),
        }
        Ok(match Raw::deserialize(deserializer)? {
            Raw::Text(text) => Self(text),
            Raw::Integer(number) => Self(number.to_string()),
        })
    }
}

impl JsonSchema for Amount {
    fn schema_name() -> Cow<'static, str> {
        "Amount".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A quantity, such as 500m, 1, 512Mi or 2Gi.",
            "x-kubernetes-int-or-string": true,
            "pattern": r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$",
        })
    }
}

impl Resources {
    /// Builds resources from pairs of name and quantity.
    pub(super) fn new(requests: &[(&str, &str)], limits: &[(&str, &str)]) -> Self {
        let amounts = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(name, text)| ((*name).into(), Amount((*text).into())))
                .collect()
        };
        Self {
            requests: amounts(requests),
            limits: amounts(limits),
        }
    }
}

impl From<&Resources> for ResourceRequirements {
    fn from(resources: &Resources) -> Self {
        let quantities = |amounts: &BTreeMap<String, Amount>| {
            let map: BTreeMap<_, _> = amounts
                .iter()
                .map(|(name, amount)| (name.clone(), Quantity(amount.0.clone())))
                .collect();
            (!map.is_empty()).then_some(map)
        };
        Self {
            requests: quantities(&resources.requests),
            limits: quantities(&resources.limits),
            ..Self::default()
        }
    }
}
