//! Client: the routers themselves, over memcached's protocol, and a patch of their pods. Which configuration a router
//! really runs and which servers it holds for down, and how it gets to see a new configuration at once.
//!
//! The kubelet delivers a changed `ConfigMap` when it next synchronises a pod, which may take more than a minute. A
//! changed annotation of the pod makes it do so at once. It may still read its old copy then, so a router that stays
//! stale is nudged again, ever more slowly. One that still does not follow has stopped to look, or to answer, which
//! mcrouter does for good when it could not watch its file: it is replaced.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::dereference::is_ready;
use crate::names::{CONFIG_HASH_ANNOTATION, MEMCACHED_PORT, MEMCACHED_TLS_PORT, REGION_LABEL};

mod encrypted;

/// A router on the same network answers in a millisecond; one that does not is looked at again in a second.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Longest answer that is read: a digest, and a line of a hundred bytes for each server that is down, of a thousand.
const MAX_ANSWER: u64 = 128 * 1024;

/// What a router is asked: its configuration, and the servers that have failed of late.
const QUESTIONS: &[u8] = b"get __mcrouter__.config_md5_digest\r\nstats suspect_servers\r\n";

/// A router re-reads its file within two seconds of the kubelet's delivery: nudging sooner does nothing.
const FIRST_RETRY: Duration = Duration::from_secs(3);

/// Longest pause between two nudges: the kubelet's own period.
const LAST_RETRY: Duration = Duration::from_secs(60);

/// A router that is behind for longer is replaced: even without a nudge the kubelet delivers within 80 seconds.
const REPLACE_AFTER: Duration = Duration::from_secs(90);

/// A router pod and what it answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouterPod {
    /// Name of the pod.
    pub name: String,
    /// Identity of this very pod.
    pub uid: String,
    /// Its region.
    pub region: String,
    /// Whether clients are sent to it.
    pub ready: bool,
    /// Whether it is on its way out.
    pub terminating: bool,
    /// What stands in [`CONFIG_HASH_ANNOTATION`].
    pub announced: Option<String>,
    /// MD5 of the configuration that it runs; missing when it did not say.
    pub running: Option<String>,
    /// `host:port` of the servers that it holds for down.
    pub held_down: BTreeSet<String>,
}

impl RouterPod {
    /// Whether the router may still be using another configuration than `hash`. One that is not ready and does not
    /// answer serves nobody, and reads the current configuration when it starts.
    pub fn may_lag_behind(&self, hash: &str) -> bool {
        match &self.running {
            Some(running) => running != hash,
            None => self.ready,
        }
    }

    /// Whether it holds the node of pod `pod` for down.
    pub fn holds_down(&self, pod: &str) -> bool {
        let is_of_pod = |server: &String| server.split('.').next() == Some(pod);
        self.held_down.iter().any(is_of_pod)
    }

    /// Whether clients that are sent to it meet configuration `hash`.
    pub fn serves(&self, hash: &str) -> bool {
        self.ready && !self.terminating && self.running.as_deref() == Some(hash)
    }
}

/// Asks routers, and nudges the kubelets of those that are behind.
#[derive(Default)]
pub struct Routers {
    nudges: Mutex<HashMap<String, Nudge>>,
    /// Since when a router is behind, by its uid.
    behind: Mutex<HashMap<String, Instant>>,
}

#[derive(Clone)]
struct Nudge {
    hash: String,
    at: Instant,
    count: u32,
}

impl Routers {
    /// Asks all of `pods` at the same time, over TLS if they are `encrypted`.
    pub async fn ask_all(&self, pods: &[Arc<Pod>], encrypted: bool) -> Vec<RouterPod> {
        let mut routers = join_all(pods.iter().map(|pod| ask(pod, encrypted))).await;
        routers.sort_by(|a, b| a.name.cmp(&b.name));
        routers
    }

    /// What to write into [`CONFIG_HASH_ANNOTATION`] of `router`, if anything, to make it see configuration `hash`.
    pub fn nudge(&self, router: &RouterPod, hash: &str, now: Instant) -> Option<String> {
        let mut nudges = self.nudges.lock().unwrap_or_else(PoisonError::into_inner);
        if router.terminating
            || router
                .running
                .as_deref()
                .is_none_or(|running| running == hash)
        {
            nudges.remove(&router.uid);
            return None;
        }
        let last = nudges.get(&router.uid).filter(|nudge| nudge.hash == hash);
        let count = match last {
            None => 0,
            Some(last) if now >= last.at + pause(last.count) => last.count + 1,
            Some(_) => return None,
        };
        nudges.insert(
            router.uid.clone(),
            Nudge {
                hash: hash.to_owned(),
                at: now,
                count,
            },
        );
        let value = if count == 0 {
            hash.to_owned()
        } else {
            format!("{hash}.{count}")
        };
        Some(value).filter(|value| router.announced.as_ref() != Some(value))
    }

    /// The router, out of all of a region, that shall be replaced because it does not get to configuration `hash`: one at a
    /// time, and none while another one is away.
    pub fn overdue<'a>(
        &self,
        routers: &[&'a RouterPod],
        hash: &str,
        now: Instant,
    ) -> Option<&'a RouterPod> {
        let mut behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        let mut longest: Option<(Instant, &RouterPod)> = None;
        for router in routers {
            if router.terminating || !router.may_lag_behind(hash) {
                behind.remove(&router.uid);
                continue;
            }
            let since = *behind.entry(router.uid.clone()).or_insert(now);
            if now >= since + REPLACE_AFTER && longest.is_none_or(|(other, _)| since < other) {
                longest = Some((since, router));
            }
        }
        let (_, overdue) = longest?;
        let others_serve = routers
            .iter()
            .filter(|router| router.uid != overdue.uid)
            .all(|router| router.ready && !router.terminating);
        others_serve.then_some(overdue)
    }
}

/// Deletes this very `router`; whoever made it makes another.
///
/// # Errors
///
/// The API server's refusal; the pod may just be gone.
pub async fn replace(client: Client, namespace: &str, router: &RouterPod) -> kube::Result<()> {
    let this_one = Preconditions {
        uid: Some(router.uid.clone()),
        resource_version: None,
    };
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    pods.delete(
        &router.name,
        &DeleteParams::default().preconditions(this_one),
    )
    .await
    .map(drop)
}

/// Writes `value` into the annotation of `pod`.
///
/// # Errors
///
/// The API server's refusal; the pod may just be gone.
pub async fn announce(client: Client, namespace: &str, pod: &str, value: &str) -> kube::Result<()> {
    let patch = json!({"metadata": {"annotations": {CONFIG_HASH_ANNOTATION: value}}});
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    pods.patch_metadata(pod, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map(drop)
}

fn pause(count: u32) -> Duration {
    FIRST_RETRY
        .saturating_mul(1 << count.min(5))
        .min(LAST_RETRY)
}

async fn ask(pod: &Pod, encrypted: bool) -> RouterPod {
    let status = pod.status.as_ref();
    let address = status.and_then(|status| status.pod_ip.clone());
    let said = match address {
        Some(address) if encrypted => question(&address, MEMCACHED_TLS_PORT, true).await,
        Some(address) => question(&address, MEMCACHED_PORT, false).await,
        None => Said::default(),
    };
    RouterPod {
        name: pod.name_any(),
        uid: pod.uid().unwrap_or_default(),
        region: pod.labels().get(REGION_LABEL).cloned().unwrap_or_default(),
        ready: is_ready(pod),
        terminating: pod.metadata.deletion_timestamp.is_some(),
        announced: pod.annotations().get(CONFIG_HASH_ANNOTATION).cloned(),
        running: said.running,
        held_down: said.held_down,
    }
}

/// What a router says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    running: Option<String>,
    held_down: BTreeSet<String>,
}

/// What the router at `address` says within [`TIMEOUT`].
async fn question(address: &str, port: i32, encrypted: bool) -> Said {
    let mut said = Said::default();
    let asked = async {
        let port = u16::try_from(port).ok()?;
        let stream = TcpStream::connect((address, port)).await.ok()?;
        if encrypted {
            listen(encrypted::connect(stream).await.ok()?, &mut said).await
        } else {
            listen(stream, &mut said).await
        }
    };
    // What was said until then counts.
    let _ = tokio::time::timeout(TIMEOUT, asked).await;
    said
}

/// `None` when the router says something else.
async fn listen(mut stream: impl AsyncRead + AsyncWrite + Unpin, said: &mut Said) -> Option<()> {
    stream.write_all(QUESTIONS).await.ok()?;
    stream.flush().await.ok()?;
    let mut lines = BufReader::new(stream.take(MAX_ANSWER)).lines();
    let is_value = lines.next_line().await.ok()??.starts_with("VALUE ");
    is_value.then_some(())?;
    let digest = lines.next_line().await.ok()??.trim().to_owned();
    said.running = Some(digest).filter(|digest| digest.len() == 32);
    // The value's end, and that of the servers.
    let mut ends = 0;
    while ends < 2 {
        let line = lines.next_line().await.ok()??;
        match line.trim() {
            "END" => ends += 1,
            line => said
                .held_down
                .extend(line.strip_prefix("STAT ").and_then(held_down)),
        }
    }
    Some(())
}

/// The server of a line of `stats suspect_servers`, `host:port status:tko num_failures:3`, if it gets no traffic. One that is
/// `down` has failed and is still asked.
fn held_down(stat: &str) -> Option<String> {
    let mut words = stat.split_ascii_whitespace();
    let server = words.next()?;
    words
        .any(|word| word == "status:tko")
        .then(|| server.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    async fn answer_once(answer: &'static [u8]) -> i32 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; QUESTIONS.len()];
            stream.read_exact(&mut request).await.unwrap();
            assert_eq!(request, QUESTIONS);
            stream.write_all(answer).await.unwrap();
        });
        i32::from(port)
    }

    const DIGEST: &str = "d41d8cd98f00b204e9800998ecf8427e";

    #[tokio::test]
    async fn a_router_that_answers_is_believed() {
        let answer = b"VALUE __mcrouter__.config_md5_digest 0 32\r\nd41d8cd98f00b204e9800998ecf8427e\r\nEND\r\n\
            STAT a-1.a.svc.:11211 status:tko num_failures:3\r\nSTAT a-2.a.svc.:11211 status:down num_failures:1\r\nEND\r\n";
        let port = answer_once(answer).await;
        let said = question("127.0.0.1", port, false).await;
        assert_eq!(said.running.as_deref(), Some(DIGEST));
        let pod = RouterPod {
            held_down: said.held_down,
            ..RouterPod::default()
        };
        assert!(pod.holds_down("a-1") && !pod.holds_down("a-2") && !pod.holds_down("a"));
    }

    #[tokio::test]
    async fn a_router_that_does_not_say_who_is_down_still_says_what_it_runs() {
        let answer = b"VALUE __mcrouter__.config_md5_digest 0 32\r\nd41d8cd98f00b204e9800998ecf8427e\r\nEND\r\nERROR\r\n";
        let port = answer_once(answer).await;
        let said = question("127.0.0.1", port, false).await;
        assert_eq!(said.running.as_deref(), Some(DIGEST));
        assert_eq!(said.held_down, BTreeSet::new());
    }

    #[tokio::test]
    async fn a_router_that_answers_something_else_or_nothing_is_unknown() {
        for answer in [
            b"SERVER_ERROR unknown\r\n".as_slice(),
            b"END\r\n",
            b"VALUE x 0 1\r\nx\r\nEND\r\n",
            b"",
        ] {
            let port = answer_once(answer).await;
            assert_eq!(question("127.0.0.1", port, false).await, Said::default());
        }
    }

    #[tokio::test]
    async fn a_router_that_keeps_silent_costs_no_more_than_the_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = i32::from(listener.local_addr().unwrap().port());
        let started = Instant::now();
        assert_eq!(question("127.0.0.1", port, false).await, Said::default());
        assert!(started.elapsed() < TIMEOUT * 4);
    }

    fn router(running: Option<&str>, announced: Option<&str>) -> RouterPod {
        RouterPod {
            uid: "1".to_owned(),
            ready: true,
            running: running.map(str::to_owned),
            announced: announced.map(str::to_owned),
            ..RouterPod::default()
        }
    }

    #[test]
    fn a_stale_router_is_nudged_at_once_and_then_ever_more_slowly() {
        let routers = Routers::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let stale = router(Some("old"), Some("old"));
        assert_eq!(routers.nudge(&stale, "new", at(0)).as_deref(), Some("new"));
        assert_eq!(routers.nudge(&stale, "new", at(2)), None);
        assert_eq!(
            routers.nudge(&stale, "new", at(3)).as_deref(),
            Some("new.1")
        );
        assert_eq!(routers.nudge(&stale, "new", at(8)), None);
        assert_eq!(
            routers.nudge(&stale, "new", at(9)).as_deref(),
            Some("new.2")
        );
        assert_eq!(
            routers.nudge(&stale, "newer", at(9)).as_deref(),
            Some("newer")
        );
    }

    #[test]
    fn a_router_that_stays_behind_is_replaced_one_at_a_time() {
        let routers = Routers::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let named = |uid: &str, running: Option<&str>| RouterPod {
            uid: uid.to_owned(),
            ..router(running, None)
        };
        let (old, silent, good) = (
            named("old", Some("old")),
            named("silent", None),
            named("good", Some("new")),
        );
        let overdue = |of: &[&RouterPod], seconds| {
            let found = routers.overdue(of, "new", at(seconds));
            found.map(|router| router.uid.clone())
        };
        assert_eq!(overdue(&[&old, &good], 0), None);
        assert_eq!(overdue(&[&old, &silent, &good], 10), None);
        assert_eq!(overdue(&[&old, &silent, &good], 89), None);
        assert_eq!(overdue(&[&old, &silent, &good], 90).as_deref(), Some("old"));
        // While it goes, and until there is another in its place, the next one stays.
        let going = RouterPod {
            terminating: true,
            ..old.clone()
        };
        assert_eq!(overdue(&[&going, &silent, &good], 101), None);
        let starting = RouterPod {
            ready: false,
            ..named("next", None)
        };
        assert_eq!(overdue(&[&starting, &silent, &good], 102), None);
        let next = named("next", Some("new"));
        assert_eq!(
            overdue(&[&next, &silent, &good], 103).as_deref(),
            Some("silent")
        );
        // Who followed in between has all the time again.
        let back = named("silent", Some("new"));
        assert_eq!(overdue(&[&next, &back, &good], 104), None);
        assert_eq!(overdue(&[&next, &silent, &good], 105), None);
    }

    #[test]
    fn a_router_that_follows_or_does_not_answer_is_left_alone() {
        let routers = Routers::default();
        assert_eq!(
            routers.nudge(&router(Some("new"), None), "new", Instant::now()),
            None
        );
        assert_eq!(
            routers.nudge(&router(None, None), "new", Instant::now()),
            None
        );
        assert_eq!(
            routers.nudge(&router(Some("old"), Some("new")), "new", Instant::now()),
            None
        );
    }
}
