//! How processes recognise each other: TLS 1.3 with keys or certificates from files.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::ring::hkdf;
use bytes::{Buf, BytesMut};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, RootCertStore,
    ServerConfig, SignatureScheme,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};
use vpfs_config::PeerSecurity;
use vpfs_core::ServerId;
use vpfs_node::frames::{FRAME_LEN, Frame, Hello};

use super::Cluster;
use crate::secrets;
use crate::sockets::{connect, prepare};

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

pub(super) struct Authenticated {
    pub(super) stream: Box<dyn Stream>,
    certificate: Option<CertificateDer<'static>>,
    pub(super) asks: bool,
}

/// What a process needs to recognise others, and to be recognised.
#[derive(Clone)]
pub(super) enum Security {
    Tls { connector: TlsConnector, asking: TlsConnector, acceptor: TlsAcceptor, has_certificates: bool },
    None,
}

impl Security {
    pub(super) fn load(configured: &PeerSecurity) -> Result<Self, KeyError> {
        match configured {
            PeerSecurity::None => Ok(Self::None),
            PeerSecurity::SharedKey(path) => Self::of_secret(&read_secret(path)?).map_err(problem(path)),
            PeerSecurity::Certificates { authority, certificate, private_key } => {
                Self::of_certificates(authority, certificate, private_key)
            }
        }
    }

    fn of_secret(secret: &[u8; LEN]) -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let pair = key_pair(secret, &provider)?;
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
fn read_secret(path: &Path) -> Result<[u8; LEN], KeyError> {
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
    let mut secret = [0; LEN];
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

pub(super) const LEN: usize = 32;

/// What the key pair is for; another use of the same secret would get another one.
const INFO: &[u8] = b"vpfs peers ed25519 1";

/// An Ed25519 private key in PKCS #8 (RFC 8410 §7), up to its 32 bytes.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

pub(super) fn key_pair(secret: &[u8; LEN], provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, Error> {
    let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(secret);
    let mut seed = [0; LEN];
    let failed = |_| Error::General("a key cannot be derived".into());
    derived.expand(&[INFO], hkdf::HKDF_SHA256).and_then(|okm| okm.fill(&mut seed)).map_err(failed)?;
    let der = [&PKCS8[..], &seed].concat();
    let key = provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(der).into())?;
    let public = key.public_key().ok_or(Error::General("a key without its public part".into()))?;
    let public = CertificateDer::from(public.to_vec());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// Accepts peers that prove to have the private key of one public key.
#[derive(Debug)]
pub(super) struct OneKey {
    public: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OneKey {
    pub(super) fn new(pair: &CertifiedKey, provider: &CryptoProvider) -> Self {
        Self { public: pair.cert[0].clone(), algorithms: provider.signature_verification_algorithms }
    }

    fn check(&self, public: &CertificateDer<'_>, chain: &[CertificateDer<'_>]) -> Result<(), Error> {
        if chain.is_empty() && *public == self.public {
            return Ok(());
        }
        Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }
}

macro_rules! raw_ed25519_key {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            public: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let public = SubjectPublicKeyInfoDer::from(public.as_ref());
            verify_tls13_signature_with_raw_key(message, &public, signed, &self.algorithms)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for OneKey {
    fn verify_server_cert(
        &self,
        public: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(public, chain).map(|()| ServerCertVerified::assertion())
    }

    raw_ed25519_key!();
}

impl ClientCertVerifier for OneKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        public: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(public, chain).map(|()| ClientCertVerified::assertion())
    }

    raw_ed25519_key!();
}

/// The time for connecting: shorter than it takes to notice that a peer is gone.
const CONNECT: Duration = Duration::from_secs(2);

const PATIENCE: Duration = Duration::from_secs(5);

pub(super) struct Introduced {
    pub(super) stream: Box<dyn Stream>,
    pub(super) hello: Hello,
    pub(super) rest: BytesMut,
    pub(super) address: String,
}

pub(super) async fn dial(cluster: &Cluster, security: &Security, server: ServerId) -> io::Result<Introduced> {
    let (host, port) = &cluster.addresses[server.index()];
    let stream = within(CONNECT, connect(&cluster.hosts, host, *port)).await?;
    within(PATIENCE, async {
        prepare(&stream)?;
        let address = stream.peer_addr()?.to_string();
        introduce(cluster, security.connect(stream, host).await?, address).await
    })
    .await
}

pub(super) enum Accepted {
    Peer(Introduced),
    Asker(Box<dyn Stream>, IpAddr),
}

pub(super) async fn accept(cluster: &Cluster, security: &Security, stream: TcpStream) -> io::Result<Accepted> {
    within(PATIENCE, async {
        prepare(&stream)?;
        let address = stream.peer_addr()?;
        let other = security.accept(stream).await?;
        if !other.asks {
            return introduce(cluster, other, address.to_string()).await.map(Accepted::Peer);
        }
        if cluster.addresses.iter().any(|(host, _)| other.may_speak_for(host)) {
            return Ok(Accepted::Asker(other.stream, address.ip()));
        }
        Err(invalid("it asks with a certificate that is not for the host of any server"))
    })
    .await
}

/// Connects to the proxy whose address for peers is `host` and `port`, to ask it by HTTP; `None` without keys.
pub(super) async fn dial_to_ask(security: &Security, host: &str, port: u16) -> io::Result<Option<Box<dyn Stream>>> {
    let stream = within(CONNECT, TcpStream::connect((host, port))).await?;
    within(PATIENCE, security.connect_to_ask(stream, host)).await
}

async fn introduce(cluster: &Cluster, mut peer: Authenticated, address: String) -> io::Result<Introduced> {
    let mut own = Vec::new();
    Frame::Hello(cluster.hello.clone()).encode(&mut own);
    peer.stream.write_all(&own).await?;
    peer.stream.flush().await?;
    let mut rest = BytesMut::new();
    let hello = loop {
        match Frame::decode(&rest).map_err(invalid)? {
            Some((Frame::Hello(hello), len)) => {
                rest.advance(len);
                break hello;
            }
            Some(_) => return Err(invalid("it did not introduce itself first")),
            None if rest.len() > FRAME_LEN + 4 => return Err(invalid("its first frame is too long")),
            None if peer.stream.read_buf(&mut rest).await? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    };
    for name in hello.servers() {
        // Names that the configuration lacks are refused by the mesh, which says why.
        let Some(index) = cluster.names.iter().position(|known| known == name) else { continue };
        let (host, _) = &cluster.addresses[index];
        if !peer.may_speak_for(host) {
            return Err(invalid(format!("its certificate is not for {host}, the host of server {name:?}")));
        }
    }
    Ok(Introduced { stream: peer.stream, hello, rest, address })
}

pub(super) async fn part(mut stream: Box<dyn Stream>, farewell: Frame) {
    let mut bytes = Vec::new();
    farewell.encode(&mut bytes);
    let parting = async {
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    };
    // A peer that does not read it learns nothing.
    let _ = within(PATIENCE, parting).await;
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = || Err(io::Error::new(io::ErrorKind::TimedOut, "it took too long"));
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| timed_out())
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
