//! The stand-in for mcrouter as a program. See [`petra_e2e::stand_in`].

use petra_e2e::stand_in::{self, options::Options};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()),
        )
        .with_writer(std::io::stderr)
        .init();
    let (options, unknown) =
        Options::from_arguments(std::env::args()).unwrap_or_else(|error| error.exit());
    for option in unknown {
        tracing::warn!("option {option} is not known and ignored");
    }
    if options.validate_config.is_some() {
        let status = match stand_in::validate(&options) {
            Ok(()) => 0,
            Err(error) => {
                tracing::error!("{error:#}");
                3
            }
        };
        std::process::exit(status);
    }
    stand_in::run(options).await
}
