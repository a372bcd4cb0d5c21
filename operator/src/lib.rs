//! Turns a PetraCluster into objects.
pub mod controller;
pub mod crd;
pub mod names;
