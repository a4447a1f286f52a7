//! Mutual authentication by a secret that all processes of a cluster have: both ends derive the same key pair from it,
//! present its raw public key (RFC 7250), and require exactly that one.

use std::sync::Arc;

use ring::hkdf;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerIncompatible, SignatureScheme};

/// Bytes of a secret.
pub(super) const LEN: usize = 32;

/// What the key pair is for; another use of the same secret would get another one.
const INFO: &[u8] = b"vpfs peers ed25519 1";
/// An Ed25519 private key in PKCS #8 (RFC 8410 §7), up to its 32 bytes.
const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// The key pair of a cluster.
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

/// The methods that both traits have, in the same words.
macro_rules! raw_ed25519_key {
    () => {
        /// There is no TLS 1.2 here.
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
