//! A layer around the Kubernetes client: every request to the API server is counted by verb, resource and answer.
//!
//! Knows how Kubernetes' paths are made up. Must not know who asks, nor why.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::http::{Method, Request, Response, Uri};
use tower::{Layer, Service};

use crate::metrics::Metrics;

/// Makes a client count what it asks.
#[derive(Clone)]
pub struct CountRequests(pub Metrics);

impl<S> Layer<S> for CountRequests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            metrics: self.0.clone(),
        }
    }
}

/// A client that counts what it asks.
#[derive(Clone)]
pub struct Counted<S> {
    inner: S,
    metrics: Metrics,
}

impl<S, Q, A> Service<Request<Q>> for Counted<S>
where
    S: Service<Request<Q>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = Response<A>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let asked = Asked::of(request.method(), request.uri());
        let metrics = self.metrics.clone();
        let started = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            metrics.count_request(asked.verb, &asked.resource, code, started.elapsed());
            answer
        })
    }
}

/// What a request asks for, in Kubernetes' words.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    verb: &'static str,
    /// Plural name, with its subresource where there is one.
    resource: String,
}

impl Asked {
    fn of(method: &Method, uri: &Uri) -> Self {
        let (resource, name, subresource) = parts(uri.path());
        let watch = uri
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        let verb = match *method {
            Method::GET if watch => "watch",
            Method::GET if name.is_none() => "list",
            Method::GET => "get",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "other",
        };
        let resource = match subresource {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => resource.to_owned(),
        };
        Self { verb, resource }
    }
}

/// Resource, name and subresource of `/api/VERSION/...` and `/apis/GROUP/VERSION/...`.
fn parts(path: &str) -> (&str, Option<&str>, Option<&str>) {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let prefix = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        _ => return ("other", None, None),
    };
    let mut parts = parts.skip(prefix).peekable();
    let mut resource = parts.next().unwrap_or("other");
    let mut name = parts.next();
    // Namespaces are a resource too, unless something is asked for in one.
    if resource == "namespaces" && parts.peek().is_some() {
        resource = parts.next().unwrap_or("other");
        name = parts.next();
    }
    (resource, name, parts.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_told_in_the_words_of_kubernetes() {
        for (method, uri, verb, resource) in [
            (Method::GET, "/api/v1/pods?limit=500", "list", "pods"),
            (
                Method::GET,
                "/api/v1/pods?limit=500&watch=true",
                "watch",
                "pods",
            ),
            (Method::GET, "/api/v1/namespaces/a", "get", "namespaces"),
            (
                Method::GET,
                "/api/v1/namespaces/a/services/b?fieldManager=c",
                "get",
                "services",
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/a/statefulsets/b",
                "patch",
                "statefulsets",
            ),
            (
                Method::PATCH,
                "/apis/petracache.io/v1alpha1/namespaces/a/petraclusters/b/status",
                "patch",
                "petraclusters/status",
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/a/events",
                "create",
                "events",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/a/pods/b",
                "delete",
                "pods",
            ),
            (Method::GET, "/version", "list", "other"),
        ] {
            let asked = Asked::of(&method, &uri.parse().unwrap());
            assert_eq!((asked.verb, asked.resource.as_str()), (verb, resource));
        }
    }

    #[tokio::test]
    async fn an_answer_and_its_absence_are_counted() {
        let metrics = Metrics::new().unwrap();
        let answering = tower::service_fn(|request: Request<()>| async move {
            match request.uri().path() {
                "/api/v1/pods" => Ok(Response::new(())),
                _ => Err("the connection ended"),
            }
        });
        let mut client = CountRequests(metrics.clone()).layer(answering);
        for path in ["/api/v1/pods", "/api/v1/services"] {
            let request = Request::get(path).body(()).unwrap();
            drop(client.call(request).await);
        }
        let text = metrics.to_text().unwrap();
        for line in [
            r#"petra_operator_api_requests_total{code="200",resource="pods",verb="list"} 1"#,
            r#"petra_operator_api_requests_total{code="none",resource="services",verb="list"} 1"#,
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
    }
}
