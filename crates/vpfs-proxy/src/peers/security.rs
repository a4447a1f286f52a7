//! How processes recognise each other: TLS 1.3 with keys or certificates from files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use vpfs_config::PeerSecurity;

use super::shared_key::{self, OneKey};
use crate::secrets;

const ALPN: &[u8] = b"vpfs-peer/1";
/// Of those who do not want to be a peer, but to ask what this process knows.
const ASKING_ALPN: &[u8] = b"vpfs-api/1";

/// Why keys or certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{} {reason}", secrets::shown(path))]
pub struct KeyError {
    path: PathBuf,
    reason: String,
}

/// A connection, encrypted or not.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// An authenticated connection.
pub(super) struct Authenticated {
    pub(super) stream: Box<dyn Stream>,
    /// The certificate at the other end, if it has one.
    certificate: Option<CertificateDer<'static>>,
    /// The other end wants to ask, by HTTP.
    pub(super) asks: bool,
}

/// What a process needs to recognise others, and to be recognised.
#[derive(Clone)]
pub(super) enum Security {
    Tls { connector: TlsConnector, asking: TlsConnector, acceptor: TlsAcceptor, has_certificates: bool },
    None,
}

impl Security {
    /// Reads the files that the configuration names. Blocks.
    pub(super) fn load(configured: &PeerSecurity) -> Result<Self, KeyError> {
        match configured {
            PeerSecurity::None => Ok(Self::None),
            PeerSecurity::SharedKey(path) => Self::of_secret(&read_secret(path)?).map_err(problem(path)),
            PeerSecurity::Certificates { authority, certificate, private_key } => {
                Self::of_certificates(authority, certificate, private_key)
            }
        }
    }

    fn of_secret(secret: &[u8; shared_key::LEN]) -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let pair = shared_key::key_pair(secret, &provider)?;
        let verifier = Arc::new(OneKey::new(&pair, &provider));
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous() // The verifier is stricter than the default one: it accepts one key.
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&pair))));
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(pair)));
        Ok(Self::tls(client, server, false))
    }

    fn of_certificates(authority: &Path, certificate: &Path, private_key: &Path) -> Result<Self, KeyError> {
        let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        for root in read_certificates(authority)? {
            roots.add(root).map_err(problem(authority))?;
        }
        let roots = Arc::new(roots);
        let chain = read_certificates(certificate)?;
        std::fs::File::open(private_key).map_err(unusable(private_key))?;
        let key = PrivateKeyDer::from_pem_file(private_key).map_err(problem(private_key))?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
        let verifier = verifier.build().map_err(problem(authority))?;
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(problem(certificate))?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(problem(certificate))?;
        let server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(problem(certificate))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(problem(certificate))?;
        Ok(Self::tls(client, server, true))
    }

    /// Without resumption: every connection proves anew who it is.
    fn tls(mut client: ClientConfig, mut server: ServerConfig, has_certificates: bool) -> Self {
        client.resumption = Resumption::disabled();
        client.alpn_protocols = vec![ALPN.to_vec()];
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.alpn_protocols = vec![ALPN.to_vec(), ASKING_ALPN.to_vec()];
        let mut asking = client.clone();
        asking.alpn_protocols = vec![ASKING_ALPN.to_vec()];
        let [connector, asking] = [client, asking].map(|client| TlsConnector::from(Arc::new(client)));
        Self::Tls { connector, asking, acceptor: Arc::new(server).into(), has_certificates }
    }

    /// Authenticates the process at the other end of a connection that this one opened to `host`.
    pub(super) async fn connect(&self, stream: TcpStream, host: &str) -> io::Result<Authenticated> {
        let Self::Tls { connector, .. } = self else { return Ok(Authenticated::unknown(stream)) };
        let stream = connector.connect(server_name(host)?, stream).await?;
        let certificate = self.certificate(stream.get_ref().1.peer_certificates());
        Ok(Authenticated { stream: Box::new(stream), certificate, asks: false })
    }

    /// The same to ask there; `None` without keys, as strangers could ask as well.
    pub(super) async fn connect_to_ask(&self, stream: TcpStream, host: &str) -> io::Result<Option<Box<dyn Stream>>> {
        let Self::Tls { asking, .. } = self else { return Ok(None) };
        Ok(Some(Box::new(asking.connect(server_name(host)?, stream).await?)))
    }

    /// Authenticates the process at the other end of a connection that it opened.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<Authenticated> {
        let Self::Tls { acceptor, .. } = self else { return Ok(Authenticated::unknown(stream)) };
        let stream = acceptor.accept(stream).await?;
        let certificate = self.certificate(stream.get_ref().1.peer_certificates());
        let asks = stream.get_ref().1.alpn_protocol() == Some(ASKING_ALPN);
        Ok(Authenticated { stream: Box::new(stream), certificate, asks })
    }

    fn certificate(&self, chain: Option<&[CertificateDer<'static>]>) -> Option<CertificateDer<'static>> {
        let is_certificate = matches!(self, Self::Tls { has_certificates: true, .. });
        chain.and_then(<[_]>::first).filter(|_| is_certificate).cloned()
    }
}

impl Authenticated {
    fn unknown(stream: TcpStream) -> Self {
        Self { stream: Box::new(stream), certificate: None, asks: false }
    }

    /// Whether the process may speak for a server whose proxy should be at `host`: its certificate, if it has one, must
    /// be for that host.
    pub(super) fn may_speak_for(&self, host: &str) -> bool {
        let Some(certificate) = &self.certificate else { return true };
        let (Ok(certificate), Ok(name)) = (webpki::EndEntityCert::try_from(certificate), server_name(host)) else {
            return false;
        };
        certificate.verify_is_valid_for_subject_name(&name).is_ok()
    }
}

fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, format!("{host} is no host name: {error}"));
    ServerName::try_from(host.to_owned()).map_err(invalid)
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, KeyError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(problem(path))?;
    if certificates.is_empty() {
        return Err(problem(path)("has no certificate"));
    }
    Ok(certificates)
}

/// A secret of 64 hexadecimal digits that not everybody can read.
fn read_secret(path: &Path) -> Result<[u8; shared_key::LEN], KeyError> {
    use std::os::unix::fs::PermissionsExt;
    let metadata = std::fs::metadata(path).map_err(unusable(path))?;
    // Its group may read it: systemd's credentials look so.
    if metadata.permissions().mode() & 0o027 != 0 {
        return Err(problem(path)(
            "all users can read this key, or a group can change it; chgrp vpfs and chmod 640 it",
        ));
    }
    let text = vpfs_config::read_text(path).map_err(unusable(path))?;
    let digits = text.trim().as_bytes();
    let mut secret = [0; shared_key::LEN];
    if digits.len() != 2 * secret.len() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(problem(path)("is not a key of 64 hexadecimal digits, as `vpfs init` writes it"));
    }
    let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok()).unwrap_or(0);
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0]) << 4 | value(pair[1]);
    }
    Ok(secret)
}

fn unusable(path: &Path) -> impl FnOnce(io::Error) -> KeyError + use<'_> {
    move |error| problem(path)(secrets::unusable(path, &error))
}

fn problem<E: ToString>(path: &Path) -> impl FnOnce(E) -> KeyError + use<'_, E> {
    move |error| KeyError { path: path.to_owned(), reason: error.to_string() }
}
