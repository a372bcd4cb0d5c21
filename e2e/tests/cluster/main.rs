//! The cluster tests: what a `PetraCluster` does on a real API server and a real kubelet, a file per boundary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod admission;
mod auth;
mod autoscaling;
mod cert_manager;
mod deletion;
mod drift;
mod idle;
mod modes;
mod readiness;
mod regions;
mod restart;
mod rolling;
mod routers;
mod routing;
mod scaling;
mod secrets;
mod specs;
mod storage;
mod tls;
mod volumes;
