//! Specs that tests apply.

/// One region, `nodes` nodes, one router. What is scaled warms for a second only, so that tests are not long.
pub(crate) fn one_region(name: &str, nodes: usize) -> String {
    format!(
        "apiVersion: petracache.io/v1alpha1
kind: PetraCluster
metadata: {{name: {name}}}
spec:
  replicas: {nodes}
  regions: [{{name: main}}]
  node:
    resources: {{requests: {{cpu: 10m, memory: 64Mi}}, limits: {{memory: 256Mi}}}}
    storage: {{size: 256Mi}}
  router:
    replicas: 1
    resources: {{requests: {{cpu: 10m, memory: 32Mi}}}}
  scaling: {{window: 1s}}
"
    )
}
