//! `WarmUpRoute`: a cold pool that is filled from a warm one while it is read.

use std::sync::Arc;

use super::{Handle, Locals, Servers, in_background};
use crate::reply::{Outcome, Reply};
use crate::request::{Kind, Operation, Request};

/// Where a copied item's expiration time comes from.
#[derive(Clone, Copy)]
pub(super) struct Fill {
    pub(super) exptime: Option<i64>,
    pub(super) metaget: bool,
}

/// `WarmUpRoute`: reads that miss in `cold` are looked up in `warm` and copied.
pub(super) async fn warm_up<S: Servers>(
    cold: &Arc<Handle>,
    warm: &Arc<Handle>,
    fill: Fill,
    servers: &S,
    request: &Request,
    locals: &Locals,
) -> Reply {
    let reply = cold.route(servers, request, locals).await;
    let done = reply.outcome.is_hit()
        || request.operation.kind() != Kind::Get
        || (request.operation == Operation::LeaseGet && reply.outcome == Outcome::NotFoundHot);
    if done {
        return reply;
    }
    if request.operation == Operation::Metaget {
        return warm.route(servers, request, locals).await;
    }
    let get = Request::new(Operation::Get, request.key.clone());
    let found = warm.route(servers, &get, locals).await;
    let plain_get = request.operation == Operation::Get;
    if !found.outcome.is_hit() {
        return if plain_get { found } else { reply };
    }
    let exptime = match request.operation {
        Operation::Gat | Operation::Gats => Some(request.exptime),
        _ => copied_exptime(warm, fill, servers, &get, locals).await,
    };
    let Some(exptime) = exptime else {
        return if plain_get { found } else { reply };
    };
    let operation = match request.operation {
        Operation::LeaseGet => Operation::LeaseSet,
        _ => Operation::Add,
    };
    let copy = Request {
        operation,
        flags: found.flags,
        exptime,
        cas: if operation == Operation::LeaseSet {
            reply.number
        } else {
            0
        },
        value: found.value.clone(),
        ..get
    };
    if matches!(request.operation, Operation::Get | Operation::LeaseGet) {
        in_background(std::slice::from_ref(cold), servers, &copy);
        return found;
    }
    // gets, gat and gats need a number of the cold server: the copy is waited for and the request sent again.
    cold.route(servers, &copy, locals).await;
    cold.route(servers, request, locals).await
}

/// The seconds that an item of `warm` still lives; `None` when it cannot be told.
async fn copied_exptime<S: Servers>(
    warm: &Arc<Handle>,
    fill: Fill,
    servers: &S,
    get: &Request,
    locals: &Locals,
) -> Option<i64> {
    if fill.exptime.is_some() || !fill.metaget {
        return Some(fill.exptime.unwrap_or(0));
    }
    let metaget = Request {
        operation: Operation::Metaget,
        ..get.clone()
    };
    let meta = warm.route(servers, &metaget, locals).await;
    match meta.exptime {
        _ if !meta.outcome.is_hit() => None,
        0 => Some(0),
        at => Some(at - servers.now()).filter(|left| *left > 0),
    }
}
