//! The commands of the load generator.

use clap::{Parser, Subcommand};
use petra_bench::command;

/// Measures servers that speak memcached's text protocol.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Puts a load on a server that is running
    Load(command::load::Flags),
    /// Says what the load generator itself can do
    SelfTest(command::self_test::Flags),
    /// Checks that every answer of memcached and of a node is right, in two seconds
    Smoke(command::smoke::Flags),
    /// Measures a node side by side with memcached, case by case
    Run(command::run::Flags),
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Load(flags) => command::load::run(&flags),
        Command::SelfTest(flags) => command::self_test::run(&flags),
        Command::Smoke(flags) => command::smoke::run(&flags),
        Command::Run(flags) => command::run::run(&flags),
    }
}
