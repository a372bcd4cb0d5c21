//! Clients: reads their requests one after the other, routes them, answers in order.

use std::sync::Arc;

use futures::future::join_all;
use petra_routing::request::{Kind, RequestLine};
use petra_routing::{Outcome, Reply, Request};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::admin;
use super::config_file::ConfigFile;
use super::destinations::Destinations;
use super::tls::{ServerFiles, Stream};

/// Longest line of a client: a get of many keys.
const LONGEST_LINE: u64 = 1 << 20;
/// Largest data block of a client: the largest item that memcached can be configured for.
const LARGEST_VALUE: usize = 1 << 30;
/// mcrouter's and memcached's limit.
const LONGEST_KEY: usize = 250;

/// What every client's connection shares.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) config: ConfigFile,
    pub(super) servers: Destinations,
    pub(super) shutdown: Arc<tokio::sync::Notify>,
}

/// What becomes of the connection after a request.
enum Next {
    Continue,
    Close,
}

impl Proxy {
    /// Serves clients, over TLS if there are `files` for it.
    pub(super) async fn run(self, listener: TcpListener, files: Option<ServerFiles>) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let (proxy, files) = (self.clone(), files.clone());
                    tokio::spawn(async move {
                        let _waits_for_more = stream.set_nodelay(true);
                        let served = match files {
                            None => proxy.serve(stream).await,
                            Some(files) => match files.encrypt(stream).await {
                                Ok(stream) => proxy.serve(stream).await,
                                Err(error) => Err(error),
                            },
                        };
                        if let Err(error) = served {
                            tracing::debug!(%error, "a client went away");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn serve(&self, stream: impl Stream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            if (&mut stream)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line)
                .await?
                == 0
            {
                return Ok(());
            }
            if line.pop() != Some(b'\n') {
                return malformed(&mut stream).await;
            }
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            match self.handle(&mut stream, &line).await? {
                Next::Continue => {}
                Next::Close => return Ok(()),
            }
        }
    }

    async fn handle(
        &self,
        stream: &mut BufReader<impl Stream>,
        line: &[u8],
    ) -> std::io::Result<Next> {
        let answer = match line {
            b"quit" => return Ok(Next::Close),
            b"shutdown" => {
                self.shutdown.notify_one();
                return Ok(Next::Close);
            }
            b"version" => b"VERSION mcrouter-stand-in\r\n".to_vec(),
            b"stats" => admin::stats(&self.config),
            b"stats suspect_servers" => admin::suspect_servers(&self.servers),
            _ => {
                let Some(parsed) = read_request(stream, line).await? else {
                    malformed(stream).await?;
                    return Ok(Next::Close);
                };
                self.answer(&parsed).await
            }
        };
        stream.get_mut().write_all(&answer).await?;
        stream.get_mut().flush().await?;
        Ok(Next::Continue)
    }

    async fn answer(&self, parsed: &RequestLine) -> Vec<u8> {
        let replies = join_all(parsed.requests.iter().map(|request| self.route(request))).await;
        if parsed.noreply {
            return Vec::new();
        }
        let mut answer = Vec::new();
        let answered = parsed.requests.iter().zip(&replies);
        for (request, reply) in answered {
            // An error in one key of many takes the place of the whole answer.
            if request.operation.kind() == Kind::Get && reply.outcome.error_name().is_some() {
                return reply.to_bytes(request);
            }
            answer.extend(reply.to_bytes(request));
        }
        if parsed
            .requests
            .iter()
            .all(|request| request.operation.kind() == Kind::Get)
        {
            answer.extend_from_slice(b"END\r\n");
        }
        answer
    }

    async fn route(&self, request: &Request) -> Reply {
        if request.key.len() > LONGEST_KEY {
            return Reply::error(Outcome::ClientError, "bad key");
        }
        if let Some(reply) = admin::answer(&self.config, request) {
            return reply;
        }
        let config = self.config.current();
        config.router.route(&self.servers, request).await
    }
}

/// Reads the rest of a request whose line is `line`; `None` when it is none.
async fn read_request(
    stream: &mut BufReader<impl Stream>,
    line: &[u8],
) -> std::io::Result<Option<RequestLine>> {
    let Ok(mut parsed) = Request::parse_line(line) else {
        return Ok(None);
    };
    let Some(length) = parsed.value_length else {
        return Ok(Some(parsed));
    };
    if length > LARGEST_VALUE {
        return Ok(None);
    }
    let mut value = vec![0; length + 2];
    stream.read_exact(&mut value).await?;
    if !value.ends_with(b"\r\n") {
        return Ok(None);
    }
    value.truncate(length);
    parsed.requests[0].value = value;
    Ok(Some(parsed))
}

async fn malformed(stream: &mut BufReader<impl Stream>) -> std::io::Result<()> {
    let stream = stream.get_mut();
    stream
        .write_all(b"CLIENT_ERROR malformed request\r\n")
        .await?;
    stream.flush().await
}
