//! The operator's own HTTP: `/health`, `/ready` and `/metrics`.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::metrics::Metrics;

/// Serves until `shutdown` is ready.
///
/// # Errors
///
/// The listener failed.
pub async fn serve(
    listener: TcpListener,
    metrics: Metrics,
    ready: watch::Receiver<bool>,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/health", get(async || "ok\n"))
        .route("/ready", get(is_ready).with_state(ready))
        .route("/metrics", get(export).with_state(metrics));
    axum::serve(listener, router)
        .with_graceful_shutdown(shutdown)
        .await
}

async fn is_ready(State(ready): State<watch::Receiver<bool>>) -> impl IntoResponse {
    if *ready.borrow() {
        (StatusCode::OK, "ready\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the caches of the API server's objects are not filled yet\n",
        )
    }
}

async fn export(State(metrics): State<Metrics>) -> impl IntoResponse {
    match metrics.to_text() {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
