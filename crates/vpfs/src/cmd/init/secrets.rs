//! Keys and certificates.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use vpfs_testbed::fsconfig::FsServer;

use super::files::NewFile;
use crate::cmd::random_hex;
use crate::exit::Exit;

/// A new shared key.
pub(super) fn key() -> Result<String, Exit> {
    Ok(random_hex::<32>()? + "\n")
}

/// An authority, and a directory for each server with a certificate for its host.
pub(super) fn certificates(servers: &[FsServer]) -> Result<Vec<NewFile>, Exit> {
    let failed = |error: rcgen::Error| Exit::Failed(format!("cannot make certificates: {error}"));
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, "vpfs peers");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().map_err(failed)?).map_err(failed)?;
    let mut files = vec![NewFile::new("ca-key.pem", authority.key().serialize_pem(), 0o600)];
    for server in servers {
        let host = server.host_and_port().rsplit_once(':').map_or(server.host_and_port(), |(host, _)| host);
        let key = KeyPair::generate().map_err(failed)?;
        let params = CertificateParams::new(vec![host.to_owned()]).map_err(failed)?;
        let certificate = params.signed_by(&key, &authority).map_err(failed)?;
        let folder = Path::new(&server.alias);
        files.push(NewFile::new(folder.join("ca.pem"), authority.pem(), 0o644));
        files.push(NewFile::new(folder.join("peers.pem"), certificate.pem(), 0o644));
        files.push(NewFile::new(folder.join("peers-key.pem"), key.serialize_pem(), 0o600));
    }
    Ok(files)
}
