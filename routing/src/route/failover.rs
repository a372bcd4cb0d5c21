//! `FailoverRoute`: which children are tried after an error, and in which order.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Handle, Locals, Servers};
use crate::ch3;
use crate::reply::{Outcome, Reply};
use crate::request::{Kind, Operation, Request};

/// Which outcomes make a `FailoverRoute` try its next child, by kind of operation; `None` is every server error.
#[derive(Debug, Default)]
pub(super) struct Errors {
    pub(super) gets: Option<Vec<String>>,
    pub(super) updates: Option<Vec<String>>,
    pub(super) deletes: Option<Vec<String>>,
}

/// The order in which a `FailoverRoute` tries its children.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    AsWritten,
    Deterministic {
        max_tries: usize,
        max_error_tries: usize,
    },
}

/// `FailoverRoute::doRoute`: the first child, then others while the answer is one to fail over on.
pub(super) async fn failover<S: Servers>(
    children: &[Arc<Handle>],
    errors: &Errors,
    order: Order,
    servers: &S,
    request: &Request,
    locals: &Locals,
) -> Reply {
    let mut reply = children[0].route(servers, request, locals).await;
    let (max_tries, max_error_tries) = match order {
        Order::AsWritten => (children.len(), children.len()),
        Order::Deterministic {
            max_tries,
            max_error_tries,
        } => (max_tries, max_error_tries),
    };
    let mut others: Box<dyn Iterator<Item = usize> + Send> = match order {
        Order::AsWritten => Box::new(1..children.len()),
        Order::Deterministic { .. } => {
            let selected = locals.selected.load(Ordering::Relaxed);
            Box::new(deterministic_order(&request.key, children.len(), selected))
        }
    };
    let locals = locals.copy();
    let mut error_tries = 0;
    for _ in 1..max_tries {
        if !errors.fail_over(request.operation, reply.outcome) {
            return reply;
        }
        // A server that is known to be down cost nothing and does not count as a try.
        error_tries += usize::from(!reply.outcome.is_knocked_out());
        let Some(next) = others.next().filter(|_| error_tries < max_error_tries) else {
            return reply;
        };
        reply = children[next].route(servers, request, &locals).await;
    }
    reply
}

/// The children after the first in an order that only the key decides (`FailoverDeterministicOrderPolicy`): Ch3 over all
/// children with a salt that counts up, leaving out what was tried and, at `selected + 1`, what the first child had
/// picked. Endless, as in mcrouter a child comes again when no other is found in 100 attempts.
fn deterministic_order(
    key: &[u8],
    children: usize,
    selected: usize,
) -> impl Iterator<Item = usize> + use<> {
    const ATTEMPTS: u32 = 101;
    let key = ch3::hashed_part(key).to_vec();
    let mut used = vec![false; children];
    used[0] = true;
    if let Some(first_choice) = used.get_mut(selected + 1) {
        *first_choice = true;
    }
    let mut salt = 1u32;
    std::iter::from_fn(move || {
        let mut index = 0;
        for _ in 0..ATTEMPTS {
            salt += 1;
            index = ch3::ch3_salted(&key, &salt.to_string(), children);
            if !used[index] {
                break;
            }
        }
        used[index] = true;
        Some(index)
    })
}

impl Errors {
    fn fail_over(&self, operation: Operation, outcome: Outcome) -> bool {
        let names = match operation.kind() {
            Kind::Get => &self.gets,
            Kind::Update => &self.updates,
            Kind::Delete => &self.deletes,
        };
        match names {
            None => outcome.is_server_error(),
            Some(names) => outcome
                .error_name()
                .is_some_and(|error| names.iter().any(|name| name == error)),
        }
    }
}
