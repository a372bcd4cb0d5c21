//! The routers' configuration as an object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use md5::{Digest, Md5};
use petra_routing::Config;

use super::metadata;
use crate::controller::validate::{ValidatedCluster, ValidatedRegion};
use crate::names::{CONFIG_KEY, Component};

/// The `ConfigMap` whose one key is the file that routers read.
pub(super) fn config_map(
    cluster: &ValidatedCluster,
    region: &ValidatedRegion,
    config: &Config,
) -> ConfigMap {
    ConfigMap {
        metadata: metadata(
            cluster,
            region,
            Component::Router,
            region.names.config_map(),
        ),
        data: Some(BTreeMap::from([(CONFIG_KEY.to_owned(), config.to_json())])),
        ..ConfigMap::default()
    }
}

/// MD5 of a configuration's text in lower case hexadecimal: what mcrouter answers to `config_md5_digest`.
pub fn config_hash(text: &str) -> String {
    Md5::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_md5_in_lower_case() {
        assert_eq!(config_hash(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(config_hash("abc"), "900150983cd24fb0d6963f7d28e17f72");
    }
}
