//! Client required. Tells people what changed, as Kubernetes events: transitions only, never a state that lasts.

use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};

use super::status::{condition, find};
use crate::crd::{PetraCluster, PetraClusterStatus};
use crate::names::MANAGER;

/// Publishes events about clusters.
pub struct Events {
    recorder: Recorder,
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
    pub fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: MANAGER.to_owned(),
            instance: None,
        };
        Self {
            recorder: Recorder::new(client, reporter),
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
            self.tell(cluster, notice).await;
        }
    }

    /// Router `pod` was deleted because it did not follow.
    pub async fn router_replaced(&self, cluster: &PetraCluster, pod: &str) {
        let notice = Notice {
            type_: EventType::Warning,
            reason: "RouterReplaced",
            note: &format!(
                "router {pod} did not run the current configuration, though it was told again and again: it is replaced"
            ),
        };
        self.tell(cluster, notice).await;
    }

    async fn tell(&self, cluster: &PetraCluster, notice: Notice<'_>) {
        let event = Event {
            type_: notice.type_,
            reason: notice.reason.to_owned(),
            note: Some(notice.note.to_owned()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        let published = self
            .recorder
            .publish(&event, &cluster.object_ref(&()))
            .await;
        if let Err(error) = published {
            tracing::warn!(%error, reason = notice.reason, "an event cannot be published");
        }
    }
}

/// Transitions that are told: the condition, what it has become, and how that is meant. The other direction of each
/// shows in one of the others.
const TOLD: [(&str, &str, EventType); 4] = [
    (condition::READY, "True", EventType::Normal),
    (condition::PROGRESSING, "True", EventType::Normal),
    (condition::DEGRADED, "True", EventType::Warning),
    (condition::SPEC_VALID, "False", EventType::Warning),
];

/// What is worth telling about the step from `previous` to `status`.
fn notices<'a>(
    previous: Option<&PetraClusterStatus>,
    status: &'a PetraClusterStatus,
) -> Vec<Notice<'a>> {
    let told = |(type_, becomes, event): (&str, &str, EventType)| {
        let now = find(&status.conditions, type_).filter(|now| now.status == becomes)?;
        let before = previous.and_then(|previous| find(&previous.conditions, type_));
        let is_new = before.is_none_or(|before| before.status != becomes);
        is_new.then_some(Notice {
            type_: event,
            reason: &now.reason,
            note: &now.message,
        })
    };
    let mut notices: Vec<Notice<'a>> = TOLD.into_iter().filter_map(told).collect();
    notices.extend(next_step(previous, status));
    notices
}

/// A step of a change of size that follows another one; the first is told by `Progressing`.
fn next_step<'a>(
    previous: Option<&PetraClusterStatus>,
    status: &'a PetraClusterStatus,
) -> Option<Notice<'a>> {
    let before = find(&previous?.conditions, condition::SCALING)?;
    let now = find(&status.conditions, condition::SCALING)?;
    let is_next = (before.status == "True" || now.status == "True") && before.reason != now.reason;
    is_next.then_some(Notice {
        type_: EventType::Normal,
        reason: &now.reason,
        note: &now.message,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn status(ready: bool, degraded: Option<&str>) -> PetraClusterStatus {
        let condition = |type_: &str, is: bool, reason: &str| Condition {
            type_: type_.to_owned(),
            status: if is { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message: "why".to_owned(),
            observed_generation: None,
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        PetraClusterStatus {
            conditions: vec![
                condition(condition::READY, ready, "Ready"),
                condition(
                    condition::DEGRADED,
                    degraded.is_some(),
                    degraded.unwrap_or("AsExpected"),
                ),
            ],
            ..PetraClusterStatus::default()
        }
    }

    #[test]
    fn only_transitions_are_told() {
        let down = status(false, Some("NodesNotReady"));
        let up = status(true, None);
        let notice = |type_, reason| Notice {
            type_,
            reason,
            note: "why",
        };
        assert_eq!(notices(None, &status(false, None)), []);
        assert_eq!(notices(Some(&up), &up), []);
        assert_eq!(notices(Some(&down), &down), []);
        assert_eq!(
            notices(Some(&up), &down),
            [notice(EventType::Warning, "NodesNotReady")]
        );
        assert_eq!(
            notices(Some(&down), &up),
            [notice(EventType::Normal, "Ready")]
        );
    }

    #[test]
    fn trouble_at_the_very_start_is_told_too() {
        let failed = status(false, Some("ApplyFailed"));
        assert_eq!(notices(None, &failed)[0].reason, "ApplyFailed");
    }
}
