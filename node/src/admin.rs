//! Health, readiness and metrics over HTTP, and where the node stands in its pool.
//!
//! Owns the admin endpoints. They say nothing about keys or values. Whoever reaches them may tell the node its place, and
//! so empty it, as whoever reaches the other port may by `flush_all`: a network policy decides who that is.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use petra_routing::Place;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use crate::metrics::prometheus::{Scrape, render};
use crate::server::Shared;

/// A place is a hundred bytes.
const MAX_BODY: usize = 4096;

/// Serves the admin endpoints for as long as it is polled.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) -> io::Result<()> {
    let routes = Router::new()
        .route("/health", get(async || "ok\n"))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/place", get(place).put(set_place))
        .layer(DefaultBodyLimit::max(MAX_BODY))
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

async fn place(State(shared): State<Arc<Shared>>) -> Response {
    match shared.store.place() {
        Some(place) => json(&place),
        None => (StatusCode::NOT_FOUND, "nobody has told\n").into_response(),
    }
}

/// Answers when what is another node's is not served any more, and will not be after a crash.
async fn set_place(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let place: Place = match serde_json::from_slice(&body) {
        Ok(place) => place,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let store = Arc::clone(&shared.store);
    let told = spawn_blocking(move || store.set_place(place)).await;
    match told {
        Ok(Ok(is_news)) => {
            if is_news {
                // Nobody waits for this: it only makes reads faster again.
                spawn_blocking(move || shared.store.sweep(shared.clock.now()));
            }
            StatusCode::NO_CONTENT.into_response()
        }
        Ok(Err(error)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn json(place: &Place) -> Response {
    match serde_json::to_string(place) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
