//! A TLS connection to a router, whoever it is.
//!
//! The router's certificate is not verified: nothing secret is sent, and whoever answers in a router's place could only lie
//! about the configuration that it runs. To verify it the operator would need the right to read Secrets, which is worth more.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Encrypts `stream`.
pub(super) async fn connect(stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    let peer: IpAddr = stream.peer_addr()?.ip();
    TlsConnector::from(Arc::new(config))
        .connect(ServerName::from(peer), stream)
        .await
}

/// Takes every certificate for good, and demands that its key is there.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::routers::{QUESTIONS, question};
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    fn self_signed() -> ServerConfig {
        let signed = rcgen::generate_simple_self_signed(vec!["router".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
        ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.cert.der().clone()], key)
            .unwrap()
    }

    #[tokio::test]
    async fn a_router_is_asked_over_tls_whoever_has_signed_for_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(self_signed()));
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut request = vec![0; QUESTIONS.len()];
            stream.read_exact(&mut request).await.unwrap();
            assert_eq!(request, QUESTIONS);
            let answer = b"VALUE __mcrouter__.config_md5_digest 0 32\r\nd41d8cd98f00b204e9800998ecf8427e\r\nEND\r\nEND\r\n";
            stream.write_all(answer).await.unwrap();
            stream.flush().await.unwrap();
        });
        let said = question("127.0.0.1", address.port().into(), true).await;
        assert_eq!(
            said.running.as_deref(),
            Some("d41d8cd98f00b204e9800998ecf8427e")
        );
    }
}
