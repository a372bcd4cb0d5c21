//! The reconcile driver.

pub mod build;
pub mod layout;
pub mod validate;
