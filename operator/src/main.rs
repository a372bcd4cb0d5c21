//! `petra-operator`: arguments, tracing, client, run. The only file that knows about files, output and `anyhow`.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use kube::client::ClientBuilder;
use kube::{Client, Config, CustomResourceExt};
use petra_operator::api_requests::CountRequests;
use petra_operator::controller::run;
use petra_operator::controller::validate::Settings;
use petra_operator::crd::PetraCluster;
use petra_operator::leader::Leader;
use petra_operator::metrics::Metrics;
use petra_operator::{admin, check, explain, input, render};
use petra_routing::Config as RouterConfig;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// Turns a PetraCluster into StatefulSets, Services and mcrouter configurations, and keeps them true.
#[derive(Parser)]
#[command(name = "petra-operator", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Watch PetraClusters and do what they say, until SIGTERM.
    Run(Run),
    /// Say whether the installation works: the API server knows PetraClusters, and an operator leads.
    ///
    /// For a pod beside the operator, with its service account; `helm test` runs it.
    Check(Check),
    /// Print the CustomResourceDefinition of PetraCluster as YAML.
    ///
    /// Example: petra-operator crd | kubectl apply --server-side -f -
    Crd,
    /// Print every object that a PetraCluster becomes, without a Kubernetes cluster.
    ///
    /// The objects are what the operator would apply to a cluster that has none of them yet, each region at its full size.
    ///
    /// Example: petra-operator render -f sessions.yaml --router-image registry.example.com/mcrouter:1 | kubectl diff -f -
    Render(Render),
    /// Say which servers a request for a key goes to, in which order, and where it goes while servers are down.
    ///
    /// Examples:
    ///   petra-operator explain user:42 -f sessions.yaml
    ///   petra-operator explain user:42 --op set --down sessions-istanbul-0 -f sessions.yaml --region ankara
    ///   kubectl get configmap sessions-istanbul-mcrouter -o jsonpath='{.data.mcrouter\.json}' > mcrouter.json
    ///   petra-operator explain user:42 --config mcrouter.json -o json
    #[command(verbatim_doc_comment)]
    Explain(Explain),
}

#[derive(Args)]
struct Images {
    /// Image of nodes whose PetraCluster names none.
    #[arg(long, env = "PETRA_NODE_IMAGE", default_value_t = Settings::default().node_image, value_name = "IMAGE")]
    node_image: String,
    /// Image with mcrouter in its PATH, for routers whose PetraCluster names none. Without it every PetraCluster must
    /// name its own, or have spec.router.mode none.
    #[arg(long, env = "PETRA_ROUTER_IMAGE", value_name = "IMAGE")]
    router_image: Option<String>,
}

#[derive(Args)]
struct Place {
    /// Build only this region, and reach the others by their spec.regions[].remote. For an operator in each of several
    /// Kubernetes clusters, to which the same PetraCluster is applied. Without it, every region without `remote` is built here.
    #[arg(long, env = "PETRA_REGION", value_name = "NAME")]
    region: Option<String>,
    /// Domain of the Kubernetes cluster's Services.
    #[arg(
        long,
        env = "PETRA_CLUSTER_DOMAIN",
        default_value = "cluster.local",
        value_name = "DOMAIN"
    )]
    cluster_domain: String,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    images: Images,
    /// Watch this namespace only; all of them when missing.
    #[arg(long, env = "PETRA_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Lead only while holding this Lease of the operator's own namespace, so that several operators may run. Without it this
    /// one leads at once, and must be the only one.
    #[arg(long, env = "PETRA_LEASE", value_name = "NAME")]
    lease: Option<String>,
    /// Where to serve /health, /ready and /metrics.
    #[arg(
        long,
        env = "PETRA_LISTEN_ADDR",
        default_value = "0.0.0.0:8080",
        value_name = "ADDRESS:PORT"
    )]
    listen_addr: SocketAddr,
}

#[derive(Args)]
struct Check {
    /// The Lease of the operator's own namespace that the leader holds.
    #[arg(long, env = "PETRA_LEASE", value_name = "NAME")]
    lease: String,
    /// The namespace that the operator watches; all of them when missing.
    #[arg(long, env = "PETRA_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
}

#[derive(Args)]
struct Render {
    /// YAML or JSON file with one PetraCluster, among other objects or by itself; - is standard input.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    images: Images,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = ObjectFormat::Yaml)]
    output: ObjectFormat,
}

#[derive(Args)]
struct Explain {
    /// The key.
    key: String,
    /// What is done with it: get, gets, gat, gats, metaget, lease-get, lease-set, set, add, replace, append, prepend, cas, incr,
    /// decr, delete or touch.
    #[arg(long, default_value = "get", value_name = "OPERATION")]
    op: String,
    /// A server that is down: its full name, or the name of its pod. Can be given many times.
    #[arg(long, value_name = "SERVER")]
    down: Vec<String>,
    /// Assume that no server has the key; otherwise all that are up have it.
    #[arg(long)]
    absent: bool,
    /// YAML or JSON file with one PetraCluster; - is standard input.
    #[arg(short, long, value_name = "FILE", required_unless_present = "config")]
    file: Option<PathBuf>,
    /// A mcrouter.json instead of a PetraCluster.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "region"])]
    config: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = AnswerFormat::Text)]
    output: AnswerFormat,
}

#[derive(Clone, Copy, ValueEnum)]
enum ObjectFormat {
    /// One document per object.
    Yaml,
    /// One List.
    Json,
}

#[derive(Clone, Copy, ValueEnum)]
enum AnswerFormat {
    /// One line per server.
    Text,
    /// One object.
    Json,
}

fn main() -> ExitCode {
    match act(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("petra-operator: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn act(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Run(arguments) => run_operator(arguments),
        Command::Check(arguments) => check_installation(arguments),
        Command::Crd => print(&serde_saphyr::to_string(&PetraCluster::crd())?),
        Command::Render(arguments) => render_file(arguments),
        Command::Explain(arguments) => explain_key(arguments),
    }
}

fn settings(place: Place, images: Images) -> Settings {
    Settings {
        region: place.region,
        cluster_domain: place.cluster_domain,
        node_image: images.node_image,
        router_image: images.router_image,
    }
}

#[tokio::main]
async fn run_operator(arguments: Run) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let metrics = Metrics::new()?;
    let client = ClientBuilder::try_from(configured().await?)?
        .with_layer(&CountRequests(metrics.clone()))
        .build();
    let listener = TcpListener::bind(arguments.listen_addr)
        .await
        .with_context(|| format!("cannot listen on {} (--listen-addr)", arguments.listen_addr))?;
    let (ready, is_ready) = watch::channel(false);
    let (stop, stopped) = watch::channel(());
    let stopping = |mut stopped: watch::Receiver<()>| async move {
        // An error means that the sender is gone, which is the signal.
        let _ = stopped.changed().await;
    };
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: finishing what has begun"),
            _ = tokio::signal::ctrl_c() => tracing::info!("interrupted: finishing what has begun"),
        }
        drop(stop);
    });
    let server = tokio::spawn(admin::serve(
        listener,
        metrics.clone(),
        is_ready,
        stopping(stopped.clone()),
    ));
    let settings = settings(arguments.place, arguments.images);
    tracing::info!(?settings, namespace = arguments.namespace, "starting");
    let leader = match &arguments.lease {
        Some(lease) => Some(
            Leader::campaign(client.clone(), lease, metrics.clone())
                .await
                .with_context(|| format!("Lease {lease} cannot be read or made (--lease)"))?,
        ),
        None => {
            metrics.set_leading(true);
            None
        }
    };
    let leads = match &leader {
        Some(leader) => leader.leads(),
        None => watch::channel(true).1,
    };
    let watched = run::Watched {
        settings,
        namespace: arguments.namespace,
        leads,
    };
    run::run(client, watched, metrics, ready, stopping(stopped)).await;
    if let Some(leader) = leader {
        leader.resign().await;
    }
    server.await??;
    Ok(())
}

#[tokio::main]
async fn check_installation(arguments: Check) -> anyhow::Result<()> {
    let client = Client::try_from(configured().await?)?;
    let working = check::check(client, &arguments.lease, arguments.namespace.as_deref()).await?;
    print(&format!(
        "{} leads; there are {} PetraClusters\n",
        working.leader, working.clusters
    ))
}

/// The Kubernetes cluster that this process belongs to, or that KUBECONFIG names.
async fn configured() -> anyhow::Result<Config> {
    Config::infer()
        .await
        .context("no Kubernetes cluster is configured: set KUBECONFIG, or run inside a pod with a service account")
}

fn render_file(arguments: Render) -> anyhow::Result<()> {
    let cluster = input::read(&read(&arguments.file)?)?;
    let objects = render::objects(&cluster, &settings(arguments.place, arguments.images))?;
    print(&match arguments.output {
        ObjectFormat::Yaml => render::to_yaml(&objects)?,
        ObjectFormat::Json => render::to_json(&objects)?,
    })
}

fn explain_key(arguments: Explain) -> anyhow::Result<()> {
    let config = match (&arguments.config, &arguments.file) {
        (Some(path), _) => RouterConfig::from_json(&read(path)?)?,
        (None, Some(path)) => {
            let cluster = input::read(&read(path)?)?;
            let settings = Settings {
                cluster_domain: arguments.place.cluster_domain,
                // Nothing is run, so that any image will do.
                router_image: Some(String::new()),
                ..Settings::default()
            };
            explain::config_of(&cluster, arguments.place.region.as_deref(), &settings)?
        }
        (None, None) => {
            anyhow::bail!("name a PetraCluster with -f or a configuration with --config")
        }
    };
    let query = explain::Query {
        key: arguments.key,
        operation: arguments.op,
        down: arguments.down,
        absent: arguments.absent,
    };
    let answer = explain::answer(&config, &query)?;
    print(&match arguments.output {
        AnswerFormat::Text => answer.to_text(),
        AnswerFormat::Json => serde_json::to_string_pretty(&answer)? + "\n",
    })
}

fn read(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("standard input cannot be read")?;
        return Ok(text);
    }
    std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// A reader that has enough, such as `head`, is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}
