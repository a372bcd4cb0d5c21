//! `petra-scale`: what the operator costs with many PetraClusters, on an API server whose one machine is a fake.
//!
//! ```text
//!  create all ─► all Ready ─► idle ─► one edit after another ─► another operator takes over
//! ```

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::Parser;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use petra_e2e::operator_process::OperatorProcess;
use petra_e2e::{fake_machine, fixture, namespace};
use petra_operator::crd::PetraCluster;
use serde::Serialize;
use serde_json::json;
use tokio::sync::watch;

/// Clusters that are created at the same time.
const CONCURRENCY: usize = 16;

/// Requests that every operator makes, however many clusters there are.
const NOT_PER_CLUSTER: [&str; 2] = ["verb=\"watch\"", "resource=\"leases\""];

/// Measures the operator with many PetraClusters of three fake nodes each.
#[derive(Parser)]
struct Cli {
    /// PetraClusters.
    #[arg(long, default_value_t = 1000)]
    clusters: usize,
    /// Edits, each of another cluster, one after the other.
    #[arg(long, default_value_t = 200)]
    edits: usize,
    /// Seconds to look at an operator that has nothing to do.
    #[arg(long, default_value_t = 30)]
    idle_seconds: u64,
    /// The operator.
    #[arg(long, env = "PETRA_OPERATOR")]
    operator: String,
    /// Administrator of the API server.
    #[arg(long, env = "PETRA_E2E_KUBECONFIG")]
    kubeconfig: String,
    /// Folder for the operator's logs and for scale.json.
    #[arg(long, env = "PETRA_E2E_OUT")]
    out: PathBuf,
    /// The most resident memory that is accepted, in MiB.
    #[arg(long, default_value_t = 100.0)]
    max_memory_mib: f64,
    /// The longest that 99 of 100 edits may take, in seconds.
    #[arg(long, default_value_t = 1.0)]
    max_edit_seconds: f64,
    /// The most processor time that an operator may take that has nothing to do, in percent of one core.
    #[arg(long, default_value_t = 2.0)]
    max_idle_percent: f64,
}

/// What was measured.
#[derive(Debug, Default, Serialize)]
struct Figures {
    clusters: usize,
    seconds_until_all_ready: f64,
    processor_seconds_until_all_ready: f64,
    api_requests_per_cluster: f64,
    idle_percent_of_a_core: f64,
    idle_writes: f64,
    edit_seconds_p50: f64,
    edit_seconds_p99: f64,
    edit_seconds_max: f64,
    memory_mib: f64,
    memory_highest_mib: f64,
    takeover_seconds: f64,
    takeover_writes: f64,
    takeover_memory_mib: f64,
}

/// What the watch shows of each cluster: the generation that was acted on, and whether it is Ready.
type Seen = HashMap<String, (i64, bool)>;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    std::fs::create_dir_all(&cli.out)?;
    let client = namespace::client().await?;
    let namespace = namespace::create(&client, "scale").await?;
    let api: Api<PetraCluster> = Api::namespaced(client.clone(), &namespace);
    let (sender, seen) = watch::channel(Seen::default());
    let machine = tokio::spawn(fake_machine::run(client));
    let watching = tokio::spawn(look(api.clone(), sender));
    let figures = tokio::select! {
        figures = measure(&cli, &api, seen) => figures?,
        ended = machine => anyhow::bail!("the fake machine ended: {ended:?}"),
        ended = watching => anyhow::bail!("the watch ended: {ended:?}"),
    };
    let text = serde_json::to_string_pretty(&figures)?;
    std::fs::write(cli.out.join("scale.json"), &text)?;
    println!("{text}");
    Ok(judge(&cli, &figures))
}

async fn measure(
    cli: &Cli,
    api: &Api<PetraCluster>,
    mut seen: watch::Receiver<Seen>,
) -> anyhow::Result<Figures> {
    let mut figures = Figures {
        clusters: cli.clusters,
        ..Figures::default()
    };
    let operator = start(cli, "operator.log").await?;
    let started = Instant::now();
    create(api, cli.clusters).await?;
    let all = cli.clusters;
    seen.wait_for(|seen| seen.values().filter(|(_, ready)| *ready).count() == all)
        .await?;
    figures.seconds_until_all_ready = started.elapsed().as_secs_f64();
    figures.processor_seconds_until_all_ready = operator.processor_seconds()?;
    settle(&operator).await?;
    figures.api_requests_per_cluster = requests(&operator, "").await? / as_f64(all);

    let (used, written) = (operator.processor_seconds()?, writes(&operator).await?);
    tokio::time::sleep(Duration::from_secs(cli.idle_seconds)).await;
    let idle = operator.processor_seconds()? - used;
    figures.idle_percent_of_a_core = 100.0 * idle / as_f64(cli.idle_seconds);
    figures.idle_writes = writes(&operator).await? - written;

    let edits = edit(api, cli.edits, all, &mut seen).await?;
    figures.edit_seconds_p50 = percentile(&edits, 50);
    figures.edit_seconds_p99 = percentile(&edits, 99);
    figures.edit_seconds_max = percentile(&edits, 100);
    let (now, highest) = operator.memory()?;
    (figures.memory_mib, figures.memory_highest_mib) = (mib(now), mib(highest));
    drop(operator);

    let started = Instant::now();
    let operator = start(cli, "takeover.log").await?;
    while total(&operator, "petra_operator_reconciles_total", "").await? < as_f64(all) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    figures.takeover_seconds = started.elapsed().as_secs_f64();
    figures.takeover_writes = writes(&operator).await?;
    figures.takeover_memory_mib = mib(operator.memory()?.1);
    Ok(figures)
}

async fn start(cli: &Cli, log: &str) -> anyhow::Result<OperatorProcess> {
    let log: &Path = &cli.out.join(log);
    OperatorProcess::start(&cli.operator, &cli.kubeconfig, log).await
}

/// Keeps what is seen of every cluster.
async fn look(api: Api<PetraCluster>, seen: watch::Sender<Seen>) -> anyhow::Result<()> {
    let changes = watcher(api, watcher::Config::default())
        .default_backoff()
        .applied_objects();
    let mut changes = std::pin::pin!(changes);
    while let Some(cluster) = changes.try_next().await? {
        let generation = cluster
            .status
            .as_ref()
            .and_then(|status| status.observed_generation);
        let ready = fixture::is_ready(Some(&cluster));
        let state = (generation.unwrap_or(0), ready);
        seen.send_modify(|seen| {
            seen.insert(cluster.name_any(), state);
        });
    }
    Ok(())
}

async fn create(api: &Api<PetraCluster>, count: usize) -> anyhow::Result<()> {
    let create = async |number| {
        let cluster = serde_json::from_value(json!({
            "apiVersion": "petracache.io/v1alpha1", "kind": "PetraCluster",
            "metadata": {"name": name(number)},
            "spec": {"replicas": 3, "regions": [{"name": "main"}], "router": {"mode": "none"}},
        }))?;
        api.create(&PostParams::default(), &cluster).await?;
        anyhow::Ok(())
    };
    stream::iter(0..count)
        .map(create)
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await
}

/// How long each edit took, sorted: from before it is sent until the operator says that it has acted on it.
async fn edit(
    api: &Api<PetraCluster>,
    edits: usize,
    clusters: usize,
    seen: &mut watch::Receiver<Seen>,
) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for number in 0..edits {
        let name = name(number * clusters / edits.max(1) % clusters);
        let timeout = format!("{}ms", 300 + number);
        let patch = json!({"spec": {"routing": {"timeouts": {"server": timeout}}}});
        let started = Instant::now();
        let parameters = PatchParams::default();
        let edited = api.patch(&name, &parameters, &Patch::Merge(&patch)).await?;
        let generation = edited.metadata.generation.context("a generation")?;
        seen.wait_for(|seen| seen.get(&name).is_some_and(|(seen, _)| *seen >= generation))
            .await?;
        times.push(started.elapsed());
    }
    times.sort();
    Ok(times)
}

/// Waits until what follows the last change is over.
async fn settle(operator: &OperatorProcess) -> anyhow::Result<()> {
    loop {
        let before = requests(operator, "").await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        if (requests(operator, "").await? - before).abs() < 0.5 {
            return Ok(());
        }
    }
}

/// Requests of the operator whose labels contain `words`.
async fn requests(operator: &OperatorProcess, words: &str) -> anyhow::Result<f64> {
    total(operator, "petra_operator_api_requests_total", words).await
}

async fn writes(operator: &OperatorProcess) -> anyhow::Result<f64> {
    let mut sum = 0.0;
    for verb in ["create", "patch", "update", "delete"] {
        sum += requests(operator, &format!("verb=\"{verb}\"")).await?;
    }
    Ok(sum)
}

async fn total(operator: &OperatorProcess, metric: &str, words: &str) -> anyhow::Result<f64> {
    let samples = operator.metric(metric).await?;
    ensure!(
        !samples.is_empty() || metric.contains("requests"),
        "{metric} is not exported"
    );
    let counts = samples.iter().filter(|(labels, _)| {
        labels.contains(words) && !NOT_PER_CLUSTER.iter().any(|label| labels.contains(label))
    });
    Ok(counts.map(|(_, value)| value).sum())
}

/// What was promised and is not so.
fn judge(cli: &Cli, figures: &Figures) -> ExitCode {
    let limits = [
        (
            "memory_highest_mib",
            figures.memory_highest_mib,
            cli.max_memory_mib,
        ),
        (
            "takeover_memory_mib",
            figures.takeover_memory_mib,
            cli.max_memory_mib,
        ),
        (
            "edit_seconds_p99",
            figures.edit_seconds_p99,
            cli.max_edit_seconds,
        ),
        (
            "idle_percent_of_a_core",
            figures.idle_percent_of_a_core,
            cli.max_idle_percent,
        ),
        ("idle_writes", figures.idle_writes, 0.0),
        ("takeover_writes", figures.takeover_writes, 0.0),
    ];
    let mut code = ExitCode::SUCCESS;
    for (name, is, limit) in limits.into_iter().filter(|(_, is, limit)| is > limit) {
        eprintln!("FAILED  {name} is {is}, more than {limit}");
        code = ExitCode::FAILURE;
    }
    code
}

fn name(number: usize) -> String {
    format!("c{number}")
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).map_or(0.0, Duration::as_secs_f64)
}

#[expect(clippy::cast_precision_loss, reason = "figures to read")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn as_f64<T: TryInto<u32>>(count: T) -> f64 {
    count.try_into().map_or(f64::NAN, f64::from)
}
