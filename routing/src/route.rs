//! What a configuration does with a request: the route tree, compiled and evaluated.
//!
//! There is one evaluation. [`crate::explain`] runs it on servers that are only imagined, a proxy runs it on real ones;
//! [`Servers`] is the seam between the two. Nothing here knows of sockets, clocks or runtimes. Each route handle does
//! what the file of its name under `mcrouter/routes/` does.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};

use crate::ch3;
use crate::config::Config;
use crate::reply::{Outcome, Reply};
use crate::request::{Kind, Operation, Request};

mod compile;
mod failover;
mod warm_up;

pub use compile::RouteError;
use failover::{Errors, Order, failover};
use warm_up::{Fill, warm_up};

/// A server as one pool speaks to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Destination {
    /// `host:port`, as the configuration has it.
    pub server: String,
    /// The pool that it was picked from.
    pub pool: String,
    /// Wait for an answer, in milliseconds, where the pool says so.
    pub server_timeout_ms: Option<u64>,
    /// Wait for a connection, in milliseconds, where the pool says so.
    pub connect_timeout_ms: Option<u64>,
    /// Whether it is spoken to over TLS.
    pub tls: bool,
}

/// How servers are asked.
pub trait Servers: Clone + Send + Sync + 'static {
    /// Sends one request to one server and waits for its answer. Errors are answers too.
    fn ask(&self, to: &Destination, request: &Request) -> impl Future<Output = Reply> + Send;

    /// Runs work whose outcome nobody waits for, on these same servers.
    fn background(&self, work: impl FnOnce(Self) -> BoxFuture<'static, ()>);

    /// Now, as a Unix time in seconds: what a copied item's expiration time is counted from.
    fn now(&self) -> i64;
}

/// A configuration, ready to route.
#[derive(Debug, Clone)]
pub struct Router {
    /// By routing prefix; `None` is the route of a configuration without prefixes.
    routes: Vec<(Option<String>, Arc<Handle>)>,
}

/// A compiled route handle: pools are resolved, shared by `Arc` so that background work can outlive the request.
#[derive(Debug)]
enum Handle {
    Pool {
        destinations: Vec<Arc<Destination>>,
        salt: String,
        keep_prefix: bool,
    },
    Failover {
        children: Vec<Arc<Handle>>,
        errors: Errors,
        order: Order,
    },
    AllInitial(Vec<Arc<Handle>>),
    AllSync(Vec<Arc<Handle>>),
    AllAsync(Vec<Arc<Handle>>),
    MissFailover(Vec<Arc<Handle>>),
    Hash {
        children: Vec<Arc<Handle>>,
        salt: String,
    },
    WarmUp {
        cold: Arc<Handle>,
        warm: Arc<Handle>,
        exptime: Option<i64>,
        metaget: bool,
    },
    OperationSelector {
        by_operation: BTreeMap<Operation, Arc<Handle>>,
        default: Arc<Handle>,
    },
    PrefixSelector {
        by_prefix: Vec<(String, Arc<Handle>)>,
        wildcard: Arc<Handle>,
    },
    ModifyExptime {
        target: Arc<Handle>,
        exptime: i64,
        only_shorten: bool,
    },
    Null,
    Error(String),
}

/// What one request carries down the tree: the index of the server that the last pool picked by hash. mcrouter keeps it
/// in the fiber; work that runs beside it gets a copy.
struct Locals {
    selected: AtomicUsize,
}

impl Locals {
    fn new() -> Self {
        Self {
            selected: AtomicUsize::new(0),
        }
    }

    fn copy(&self) -> Self {
        Self {
            selected: AtomicUsize::new(self.selected.load(Ordering::Relaxed)),
        }
    }
}

impl Router {
    /// Compiles a configuration.
    ///
    /// # Errors
    ///
    /// A pool that does not exist, or a part of the route language that cannot be evaluated here.
    pub fn new(config: &Config) -> Result<Self, RouteError> {
        compile::router(config)
    }

    /// Routes one request.
    pub async fn route<S: Servers>(&self, servers: &S, request: &Request) -> Reply {
        let (prefix, key) = ch3::strip_routing_prefix(&request.key);
        let wanted = (!prefix.is_empty()).then(|| String::from_utf8_lossy(prefix));
        let route = self
            .routes
            .iter()
            .find(|(prefix, _)| match (prefix, &wanted) {
                (Some(prefix), Some(wanted)) => prefix == wanted,
                _ => true,
            });
        match route {
            Some((None, handle)) if !prefix.is_empty() => {
                // Without prefixes in the configuration only the default route exists.
                let request = Request {
                    key: key.to_vec(),
                    ..request.clone()
                };
                handle.route(servers, &request, &Locals::new()).await
            }
            Some((_, handle)) => handle.route(servers, request, &Locals::new()).await,
            None => Reply::error(
                Outcome::LocalError,
                "No route for the routing prefix of the key",
            ),
        }
    }
}

impl Handle {
    fn route<'a, S: Servers>(
        self: &'a Arc<Self>,
        servers: &'a S,
        request: &'a Request,
        locals: &'a Locals,
    ) -> BoxFuture<'a, Reply> {
        async move {
            match &**self {
                Self::Pool {
                    destinations,
                    salt,
                    keep_prefix,
                } => {
                    let to = pick(destinations, salt, request, locals);
                    let (_, bare) = ch3::strip_routing_prefix(&request.key);
                    if *keep_prefix || bare.len() == request.key.len() {
                        servers.ask(to, request).await
                    } else {
                        let request = Request {
                            key: bare.to_vec(),
                            ..request.clone()
                        };
                        servers.ask(to, &request).await
                    }
                }
                Self::Failover {
                    children,
                    errors,
                    order,
                } => failover(children, errors, *order, servers, request, locals).await,
                Self::AllInitial(children) => {
                    let (first, others) = (&children[0], &children[1..]);
                    let reply = first.route(servers, request, locals);
                    // mcrouter queues the others first, but they run only once the first one waits.
                    let reply = with_background(reply, others, servers, request);
                    reply.await
                }
                Self::AllAsync(children) => {
                    in_background(children, servers, request);
                    Reply::default_for(request.operation)
                }
                Self::AllSync(children) => {
                    let locals: Vec<Locals> = children.iter().map(|_| locals.copy()).collect();
                    let asked = children.iter().zip(&locals);
                    let replies = join_all(
                        asked.map(|(child, locals)| child.route(servers, request, locals)),
                    )
                    .await;
                    worst(replies).unwrap_or_else(|| Reply::default_for(request.operation))
                }
                Self::MissFailover(children) => {
                    miss_failover(children, servers, request, locals).await
                }
                Self::Hash { children, salt } => {
                    let child = pick(children, salt, request, locals);
                    child.route(servers, request, locals).await
                }
                Self::WarmUp {
                    cold,
                    warm,
                    exptime,
                    metaget,
                } => {
                    let fill = Fill {
                        exptime: *exptime,
                        metaget: *metaget,
                    };
                    warm_up(cold, warm, fill, servers, request, locals).await
                }
                Self::OperationSelector {
                    by_operation,
                    default,
                } => {
                    let child = by_operation.get(&request.operation).unwrap_or(default);
                    child.route(servers, request, locals).await
                }
                Self::PrefixSelector {
                    by_prefix,
                    wildcard,
                } => {
                    let (_, key) = ch3::strip_routing_prefix(&request.key);
                    let longest = by_prefix
                        .iter()
                        .filter(|(prefix, _)| key.starts_with(prefix.as_bytes()))
                        .max_by_key(|(prefix, _)| prefix.len());
                    let child = longest.map_or(wildcard, |(_, child)| child);
                    child.route(servers, request, locals).await
                }
                Self::ModifyExptime {
                    target,
                    exptime,
                    only_shorten,
                } => {
                    let changes = match request.exptime() {
                        Some(now) if *only_shorten => now == 0 || now > *exptime,
                        Some(_) => true,
                        None => false,
                    };
                    if !changes {
                        return target.route(servers, request, locals).await;
                    }
                    target
                        .route(servers, &request.with_exptime(*exptime), locals)
                        .await
                }
                Self::Null => Reply::default_for(request.operation),
                Self::Error(message) => Reply::error(Outcome::LocalError, message.clone()),
            }
        }
        .boxed()
    }
}

/// The one of `choices` that has the key. A single one is not hashed and leaves no trace in `locals` (`createHashRoute`).
fn pick<'a, T>(
    choices: &'a [Arc<T>],
    salt: &str,
    request: &Request,
    locals: &Locals,
) -> &'a Arc<T> {
    if let [only] = choices {
        return only;
    }
    let index = ch3::ch3_salted(ch3::hashed_part(&request.key), salt, choices.len());
    locals.selected.store(index, Ordering::Relaxed);
    &choices[index]
}

/// `MissFailoverRoute`: children in order until one has the key; only the first for anything that writes.
async fn miss_failover<S: Servers>(
    children: &[Arc<Handle>],
    servers: &S,
    request: &Request,
    locals: &Locals,
) -> Reply {
    let mut reply = children[0].route(servers, request, locals).await;
    if request.operation.kind() == Kind::Update {
        return reply;
    }
    for child in &children[1..] {
        if reply.outcome.is_hit() {
            break;
        }
        reply = child.route(servers, request, locals).await;
    }
    reply
}

/// The worst of some replies, the first of equally bad ones.
fn worst(replies: Vec<Reply>) -> Option<Reply> {
    replies.into_iter().reduce(|worst, reply| {
        if reply.outcome.severity() > worst.outcome.severity() {
            reply
        } else {
            worst
        }
    })
}

/// Starts `first`, then sends to `others` in the background, then waits for `first`.
async fn with_background<S: Servers>(
    mut first: BoxFuture<'_, Reply>,
    others: &[Arc<Handle>],
    servers: &S,
    request: &Request,
) -> Reply {
    let at_once = futures::poll!(&mut first);
    in_background(others, servers, request);
    match at_once {
        std::task::Poll::Ready(reply) => reply,
        std::task::Poll::Pending => first.await,
    }
}

fn in_background<S: Servers>(handles: &[Arc<Handle>], servers: &S, request: &Request) {
    for handle in handles {
        let (handle, request) = (Arc::clone(handle), request.clone());
        servers.background(|servers| {
            async move {
                handle.route(&servers, &request, &Locals::new()).await;
            }
            .boxed()
        });
    }
}
