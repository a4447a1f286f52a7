//! What a server speaks.

use std::time::Duration;

use nfs3_types::rpc::opaque_auth;
use nfs3_types::xdr_codec::Void;
use nfs3_types::{mount, nfs3};

use super::NfsError;
use super::rpc::Connection;

/// Programs and versions, with their names.
const PROGRAMS: [(u32, u32, &str); 3] = [
    (nfs3::PROGRAM, 3, "NFSv3"),
    (nfs3::PROGRAM, 4, "NFSv4"),
    (mount::PROGRAM, mount::VERSION, "the mount protocol of NFSv3"),
];

/// The protocols that the server at `host:port` offers there. It is asked within `wait` for each.
///
/// # Errors
/// It cannot be reached, or does not answer.
pub async fn answers(server: &str, wait: Duration) -> Result<Vec<&'static str>, NfsError> {
    let connection = Connection::open(server, None, opaque_auth::default(), wait).await?;
    let mut offered = Vec::new();
    for (program, version, name) in PROGRAMS {
        match connection.call::<Void>((program, version, 0), &Void).await {
            Ok(Void) => offered.push(name),
            Err(NfsError::Protocol { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(offered)
}
