//! The configuration file: read at the start, watched with inotify, read again when it changed. Like mcrouter, an invalid
//! new version is refused and the old one stays.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use md5::{Digest, Md5};
use notify::{RecursiveMode, Watcher};
use petra_routing::{Config, Router};
use tokio::sync::watch;

/// One version of the file.
pub(super) struct Loaded {
    pub(super) router: Router,
    /// MD5 of the file's text, in hexadecimal: what `config_md5_digest` answers.
    pub(super) digest: String,
    pub(super) text: String,
    pub(super) since: Instant,
}

/// The file in its newest valid version.
#[derive(Clone)]
pub(super) struct ConfigFile {
    path: Arc<PathBuf>,
    current: watch::Receiver<Arc<Loaded>>,
    failures: Arc<AtomicU64>,
}

impl ConfigFile {
    /// Reads `path` and watches it from then on.
    pub(super) fn watch(path: &Path, delay: Duration) -> anyhow::Result<Self> {
        let (sender, current) = watch::channel(Arc::new(load(path)?));
        let failures = Arc::new(AtomicU64::new(0));
        let changed = watch_folder(path)?;
        tokio::spawn(reload(
            path.to_owned(),
            delay,
            changed,
            sender,
            Arc::clone(&failures),
        ));
        Ok(Self {
            path: Arc::new(path.to_owned()),
            current,
            failures,
        })
    }

    pub(super) fn current(&self) -> Arc<Loaded> {
        Arc::clone(&self.current.borrow())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How many new versions were refused.
    pub(super) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

/// Reads and checks one version of the file.
pub(super) fn load(path: &Path) -> anyhow::Result<Loaded> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let config = Config::from_json(&text).with_context(|| path.display().to_string())?;
    let router = Router::new(&config).with_context(|| path.display().to_string())?;
    let digest = Md5::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok(Loaded {
        router,
        digest,
        text,
        since: Instant::now(),
    })
}

/// Watches the file's folder, because a ConfigMap is changed by swapping a link in it.
fn watch_folder(path: &Path) -> anyhow::Result<tokio::sync::mpsc::UnboundedReceiver<()>> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading the file is an event too, and would be one without end.
        if event.is_ok_and(|event| !event.kind.is_access()) {
            let _receiver_is_gone = sender.send(());
        }
    })?;
    watcher
        .watch(folder, RecursiveMode::NonRecursive)
        .with_context(|| format!("watching {}", folder.display()))?;
    // The watch lasts as long as the process.
    std::mem::forget(watcher);
    Ok(receiver)
}

async fn reload(
    path: PathBuf,
    delay: Duration,
    mut changed: tokio::sync::mpsc::UnboundedReceiver<()>,
    current: watch::Sender<Arc<Loaded>>,
    failures: Arc<AtomicU64>,
) {
    while changed.recv().await.is_some() {
        tokio::time::sleep(delay).await;
        while changed.try_recv().is_ok() {}
        match load(&path) {
            Ok(loaded) if loaded.digest == current.borrow().digest => {}
            Ok(loaded) => {
                tracing::info!(digest = loaded.digest, "configuration changed");
                current.send_replace(Arc::new(loaded));
            }
            Err(error) => {
                failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!("the new configuration is refused, the old one stays: {error:#}");
            }
        }
    }
}
