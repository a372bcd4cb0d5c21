//! A memcached client of a few lines: one connection, one text command at a time.
//!
//! The tests compare answers byte by byte, so the client hides nothing: it returns the lines that came back.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// A server that says nothing for this long is taken to be hung.
const PATIENCE: Duration = Duration::from_secs(5);

/// One open connection to a node or a router.
pub struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    certificate: Option<CertificateDer<'static>>,
}

/// A connection, encrypted or not.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Connection {
    /// Connects to `address`, `host:port`.
    ///
    /// # Errors
    ///
    /// The address that could not be reached, and why.
    pub async fn open(address: &str) -> anyhow::Result<Self> {
        Ok(Self {
            stream: BufReader::new(Box::new(tcp(address).await?)),
            certificate: None,
        })
    }

    /// Connects to `address` over TLS, and takes its certificate only if it is good for `name`.
    ///
    /// # Errors
    ///
    /// The address that could not be reached, or why one of the two did not trust the other. A server that wants a
    /// certificate may refuse only with its first answer.
    pub async fn open_tls(
        address: &str,
        name: &str,
        config: Arc<ClientConfig>,
    ) -> anyhow::Result<Self> {
        let name = ServerName::try_from(name.to_owned())?;
        let connecting = TlsConnector::from(config).connect(name, tcp(address).await?);
        let stream = timeout(PATIENCE, connecting)
            .await
            .with_context(|| format!("a handshake with {address} took over {PATIENCE:?}"))?
            .with_context(|| format!("a handshake with {address}"))?;
        let chain = stream.get_ref().1.peer_certificates();
        let certificate = chain.and_then(<[_]>::first).cloned();
        Ok(Self {
            stream: BufReader::new(Box::new(stream)),
            certificate: certificate.map(CertificateDer::into_owned),
        })
    }

    /// What the server has shown, if the connection is encrypted.
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.certificate.as_ref()
    }

    /// Stores `value` under `key` for ever. Returns the answer's line, `STORED` when all is well.
    pub async fn set(&mut self, key: &str, value: &str) -> anyhow::Result<String> {
        self.line(&format!("set {key} 0 0 {}\r\n{value}", value.len()))
            .await
    }

    /// The value under `key`, or `None` for a miss.
    ///
    /// # Errors
    ///
    /// Any answer but a hit or a miss, `SERVER_ERROR` for one.
    pub async fn get(&mut self, key: &str) -> anyhow::Result<Option<String>> {
        let first = self.line(&format!("get {key}")).await?;
        if first == "END" {
            return Ok(None);
        }
        let Some(length) = first
            .strip_prefix("VALUE ")
            .and_then(|rest| rest.rsplit(' ').next())
        else {
            bail!("get {key} was answered {first:?}");
        };
        let mut data = vec![
            0;
            length
                .parse::<usize>()
                .with_context(|| format!("length in {first:?}"))?
                + 2
        ];
        timeout(PATIENCE, self.stream.read_exact(&mut data)).await??;
        let end = self.read_line().await?;
        if end != "END" {
            bail!("get {key} ended with {end:?}");
        }
        data.truncate(data.len() - 2);
        Ok(Some(String::from_utf8(data)?))
    }

    /// Sends one command and returns the first line of its answer, without the line end.
    pub async fn line(&mut self, command: &str) -> anyhow::Result<String> {
        self.stream
            .get_mut()
            .write_all(format!("{command}\r\n").as_bytes())
            .await?;
        self.stream.get_mut().flush().await?;
        self.read_line().await
    }

    /// The next line, without its line end.
    ///
    /// # Errors
    ///
    /// No line in time, or a closed connection.
    pub async fn read_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = timeout(PATIENCE, self.stream.read_line(&mut line))
            .await
            .with_context(|| format!("no answer within {PATIENCE:?}"))??;
        if read == 0 {
            bail!("the server closed the connection");
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }
}

async fn tcp(address: &str) -> anyhow::Result<TcpStream> {
    timeout(PATIENCE, TcpStream::connect(address))
        .await
        .with_context(|| format!("connecting to {address} took over {PATIENCE:?}"))?
        .with_context(|| format!("connecting to {address}"))
}
