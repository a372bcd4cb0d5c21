pub mod crd;
pub mod names;
pub mod units;

/// The custom resource definition as YAML, as `petra-operator crd` prints it.
pub fn crd_yaml() -> Result<String, serde_saphyr::SerializeError> {
    serde_saphyr::to_string(&<crd::PetraCluster as kube::CustomResourceExt>::crd())
}
