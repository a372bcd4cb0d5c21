//! Health, readiness and metrics over HTTP.
//!
//! Owns the admin endpoints. They are read-only and say nothing about keys or values.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;

use crate::metrics::prometheus::{Scrape, render};
use crate::server::Shared;

/// Serves the admin endpoints for as long as it is polled.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let routes = Router::new()
        .route("/health", get(async || "ok\n"))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shared);
    axum::serve(listener, routes).await
}

async fn ready(State(shared): State<Arc<Shared>>) -> Response {
    if shared.drain.has_begun() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response()
    } else {
        "ready\n".into_response()
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let page = render(&Scrape {
        metrics: &shared.metrics,
        store: shared.store.figures(),
        ready: !shared.drain.has_begun(),
        max_connections: shared.config.max_connections,
        database_set_aside: shared.store.set_aside().is_some(),
    });
    match page {
        Ok(page) => ([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], page).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
