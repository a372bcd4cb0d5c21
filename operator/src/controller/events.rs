//! Client required. Tells people what changed, as Kubernetes events: transitions only, never a state that lasts.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

use super::status::{CHANGING, condition, find};
use crate::crd::{PetraCluster, PetraClusterStatus};
use crate::metrics::Metrics;
use crate::names::MANAGER;

/// Publishes events about clusters.
pub struct Events {
    recorder: Recorder,
    metrics: Metrics,
}

/// Something worth telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notice<'a> {
    type_: EventType,
    reason: &'a str,
    note: &'a str,
}

impl Events {
    /// Publishes under the operator's name.
    pub fn new(client: Client, metrics: Metrics) -> Self {
        let reporter = Reporter {
            controller: MANAGER.to_owned(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client, reporter),
            metrics,
        }
    }

    /// Publishes what is new in `status`. An event that cannot be published is only logged.
    pub async fn publish(
        &self,
        cluster: &PetraCluster,
        previous: Option<&PetraClusterStatus>,
        status: &PetraClusterStatus,
    ) {
        for notice in notices(previous, status) {
            let event = Event {
                type_: notice.type_,
                reason: notice.reason.to_owned(),
                note: Some(notice.note.to_owned()),
                action: "Reconcile".to_owned(),
                secondary: None,
            };
            self.metrics.count_write("Event", "create");
            if let Err(error) = self
                .recorder
                .publish(&event, &cluster.object_ref(&()))
                .await
            {
                tracing::warn!(%error, reason = notice.reason, "an event cannot be published");
            }
        }
    }
}

/// What is worth telling about the step from `previous` to `status`.
fn notices<'a>(
    previous: Option<&PetraClusterStatus>,
    status: &'a PetraClusterStatus,
) -> Vec<Notice<'a>> {
    let bad_when = |type_| [condition::READY, condition::SPEC_VALID].contains(&type_);
    let mut notices = Vec::new();
    for type_ in [
        condition::READY,
        condition::PROGRESSING,
        condition::SPEC_VALID,
    ] {
        let Some(now) = find(&status.conditions, type_) else {
            continue;
        };
        let before = previous.and_then(|previous| find(&previous.conditions, type_));
        let good = now.status == "True";
        // What starts out bad is only the beginning; a bad spec is worth telling at once.
        let changed = match before {
            Some(before) => before.status != now.status,
            None => type_ == condition::SPEC_VALID && !good,
        };
        // Progress is told when it begins, and validity when it ends: the other end shows in Ready.
        let told = match type_ {
            condition::PROGRESSING => good,
            condition::SPEC_VALID => !good,
            _ => true,
        };
        if changed && told {
            // What was asked for is no reason to worry.
            let warns = bad_when(type_) && !good && now.reason != CHANGING;
            notices.push(Notice {
                type_: if warns {
                    EventType::Warning
                } else {
                    EventType::Normal
                },
                reason: &now.reason,
                note: &now.message,
            });
        }
    }
    notices
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn status(ready: bool, reason: &str) -> PetraClusterStatus {
        PetraClusterStatus {
            conditions: vec![Condition {
                type_: condition::READY.to_owned(),
                status: if ready { "True" } else { "False" }.to_owned(),
                reason: reason.to_owned(),
                message: "why".to_owned(),
                observed_generation: None,
                last_transition_time: Time(Timestamp::UNIX_EPOCH),
            }],
            ..PetraClusterStatus::default()
        }
    }

    #[test]
    fn only_transitions_are_told() {
        let down = status(false, "NodesNotReady");
        let up = status(true, "Ready");
        assert_eq!(notices(None, &status(false, "Creating")), []);
        assert_eq!(notices(Some(&up), &up), []);
        let notice = |type_, reason| Notice {
            type_,
            reason,
            note: "why",
        };
        assert_eq!(
            notices(Some(&up), &down),
            [notice(EventType::Warning, "NodesNotReady")]
        );
        assert_eq!(
            notices(Some(&down), &up),
            [notice(EventType::Normal, "Ready")]
        );
    }
}
