//! Asking servers, over memcached's text protocol and over HTTP.
//!
//! Owns the connections of the tests. A server that does not answer in time is a failure, not a hang.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::frames;
use crate::harness::PATIENCE;

/// A connection that speaks the text protocol.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).expect("a connection")
    }

    pub(crate) fn try_connect(addr: SocketAddr) -> std::io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).expect("sent");
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// The next line without its end; empty when the connection was closed.
    pub(crate) fn try_line(&mut self) -> std::io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        Ok(line)
    }

    /// The next frame of the binary protocol, as text.
    pub(crate) fn frame(&mut self) -> std::io::Result<String> {
        let mut header = [0; frames::HEADER_LEN];
        self.stream.read_exact(&mut header)?;
        let mut body = vec![0; frames::body_len(&header)];
        self.stream.read_exact(&mut body)?;
        Ok(frames::describe(&header, &body))
    }

    /// The next line, as text without its end.
    pub(crate) fn line(&mut self) -> String {
        let line = self.try_line().expect("a line");
        String::from_utf8_lossy(&line)
            .trim_end_matches("\r\n")
            .to_owned()
    }

    /// Everything up to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest,
            // A server that closes with unread input resets the connection.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => rest,
            Err(error) => panic!("the connection does not end: {error}; so far {rest:?}"),
        }
    }

    /// Sends a line and returns the one-line answer.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.send(format!("{line}\r\n").as_bytes());
        self.line()
    }

    pub(crate) fn set(&mut self, key: &str, data: &str) -> String {
        self.ask(&format!("set {key} 0 0 {}\r\n{data}", data.len()))
    }

    /// The data of one key.
    pub(crate) fn get(&mut self, key: &str) -> Option<String> {
        let value = self.ask(&format!("get {key}"));
        if value == "END" {
            return None;
        }
        assert!(value.starts_with(&format!("VALUE {key} ")), "{value}");
        let len: usize = value
            .rsplit(' ')
            .next()
            .expect("a length")
            .parse()
            .expect("a length");
        let mut data = vec![0; len + 2];
        self.stream.read_exact(&mut data).expect("data");
        assert_eq!(self.line(), "END");
        data.truncate(len);
        Some(String::from_utf8(data).expect("text"))
    }

    /// The cas of one key that is there.
    pub(crate) fn cas(&mut self, key: &str) -> u64 {
        let value = self.ask(&format!("gets {key}"));
        let cas = value
            .rsplit(' ')
            .next()
            .expect("a cas")
            .parse()
            .expect("a cas");
        while self.line() != "END" {}
        cas
    }

    /// The value of one general statistic.
    pub(crate) fn stat(&mut self, name: &str) -> String {
        self.send(b"stats\r\n");
        let mut found = None;
        loop {
            let line = self.line();
            if line == "END" {
                return found.unwrap_or_else(|| panic!("no statistic {name}"));
            }
            if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
                found = Some(value.to_owned());
            }
        }
    }
}

/// Status and body of an HTTP GET.
pub(crate) fn http_get(addr: SocketAddr, path: &str) -> (u16, String) {
    http(addr, "GET", path, "")
}

/// Sends `body` to an HTTP endpoint. The status and the body of the answer.
pub(crate) fn http(addr: SocketAddr, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut client = Client::connect(addr);
    let length = body.len();
    client.send(
        format!(
            "{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .as_bytes(),
    );
    let response = String::from_utf8(client.rest()).expect("text");
    let status = response
        .split(' ')
        .nth(1)
        .expect("a status")
        .parse()
        .expect("a status");
    let body = response.split_once("\r\n\r\n").expect("a body").1;
    (status, body.to_owned())
}
