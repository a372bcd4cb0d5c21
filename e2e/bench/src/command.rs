//! What the command line offers; each command has a file.

pub mod load;
pub mod run;
pub mod self_test;
pub mod smoke;
