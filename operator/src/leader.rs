//! Client required. One of several operators leads; the others keep their caches filled and wait for their turn.

use std::time::Duration;

use kube::Client;
use kube_lease_manager::{LeaseManager, LeaseManagerBuilder, LeaseManagerError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::metrics::Metrics;
use crate::names::MANAGER;

/// A leader that vanishes is followed after this many seconds.
const LEASE_S: u64 = 15;

/// The leader renews its lease this many seconds before it ends: an API server that is away for a shorter time changes
/// no leader, and clocks may differ by as much.
const GRACE_S: u64 = 5;

/// Time to hand the lease back at the end.
const RESIGN: Duration = Duration::from_secs(5);

/// An operator that wants to lead.
pub struct Leader {
    leads: watch::Receiver<bool>,
    lease: JoinHandle<Result<LeaseManager, LeaseManagerError>>,
    teller: JoinHandle<()>,
}

impl Leader {
    /// Runs for the lease `name` in the client's own namespace, under the name of this machine, which is the pod's.
    ///
    /// # Errors
    ///
    /// The lease cannot be read or made.
    pub async fn campaign(
        client: Client,
        name: &str,
        metrics: Metrics,
    ) -> Result<Self, LeaseManagerError> {
        let namespace = client.default_namespace().to_owned();
        let mut builder = LeaseManagerBuilder::new(client, name)
            .with_namespace(namespace)
            .with_duration(LEASE_S)
            .with_grace(GRACE_S);
        if let Ok(host) = std::env::var("HOSTNAME") {
            builder = builder
                .with_field_manager(format!("{MANAGER}-{host}"))
                .with_identity(host);
        }
        let (leads, lease) = builder.build().await?.watch().await;
        let teller = tokio::spawn(tell(leads.clone(), metrics));
        Ok(Self {
            leads,
            lease,
            teller,
        })
    }

    /// Whether this operator leads, now and in future. The lease is held as long as anybody looks.
    pub fn leads(&self) -> watch::Receiver<bool> {
        self.leads.clone()
    }

    /// Hands the lease back, so that the next operator need not wait for its end.
    pub async fn resign(self) {
        self.teller.abort();
        // Aborted, as it shall be.
        let _ = self.teller.await;
        drop(self.leads);
        match tokio::time::timeout(RESIGN, self.lease).await {
            Ok(Ok(Ok(_))) => tracing::info!("the lease is handed back"),
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the lease cannot be handed back"),
            Ok(Err(error)) => tracing::error!(%error, "the election ended"),
            Err(_) => tracing::warn!("the lease cannot be handed back in time"),
        }
    }
}

async fn tell(mut leads: watch::Receiver<bool>, metrics: Metrics) {
    loop {
        let now = *leads.borrow_and_update();
        metrics.set_leading(now);
        tracing::info!(leads = now, "leader election");
        if leads.changed().await.is_err() {
            return;
        }
    }
}
