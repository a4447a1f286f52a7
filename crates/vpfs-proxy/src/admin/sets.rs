//! Sets of applications that owners push: what is told of them, and who may change one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::{Method, Request, StatusCode};
use ring::hmac;
use serde::{Deserialize, Serialize};
use vpfs_config::sets::{Put, Refusal, Set, SetName, SetText};

use crate::Pushes;
use crate::admin::api::{Answer, json};

const SHORTEST: usize = 16;

/// What a process tells of its sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PushedSets {
    /// Its servers.
    pub servers: Vec<String>,
    /// Its sets by name.
    pub sets: Vec<PushedSet>,
}

/// A set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PushedSet {
    /// Its name.
    pub set: SetName,
    /// How long it holds unless it is pushed again.
    pub left_seconds: f64,
    /// As its owner wrote it.
    #[serde(flatten)]
    pub text: SetText,
}

impl PushedSets {
    pub(crate) fn of(servers: Vec<String>, pushes: Option<&Pushes>) -> Self {
        let sets = pushes.map(Pushes::sets).unwrap_or_default();
        let set =
            |(set, text, left): (_, _, std::time::Duration)| PushedSet { set, left_seconds: left.as_secs_f64(), text };
        Self { servers, sets: sets.into_iter().map(set).collect() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// A user of this host, at the socket.
    User(u32),
    Unknown,
}

/// Whether `authorization` has the text of the file, of at least `shortest` characters without white space around it.
pub(crate) async fn is_token(path: &Path, authorization: &str, shortest: usize) -> bool {
    let expected = tokio::fs::read_to_string(path).await.unwrap_or_default();
    let expected = expected.trim();
    let presented = authorization.strip_prefix("Bearer ").unwrap_or_default();
    expected.len() >= shortest && are_equal(presented, expected)
}

pub(crate) fn are_equal(one: &str, other: &str) -> bool {
    let Ok(key) = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new()) else { return false };
    hmac::verify(&key, one.as_bytes(), hmac::sign(&key, other.as_bytes()).as_ref()).is_ok()
}

/// Changes the set of this name, if the caller may. Nobody may because he may read: who decides about shares is root or
/// the daemon's own user at the socket, or has the secret of the set's owner.
pub(crate) async fn change(pushes: &Pushes, caller: Caller, name: &str, request: Request<Incoming>) -> Answer {
    try_change(pushes, caller, name, request).await.unwrap_or_else(|refusal| refusal)
}

async fn try_change(pushes: &Pushes, caller: Caller, name: &str, request: Request<Incoming>) -> Result<Answer, Answer> {
    let name = SetName::parse(name).map_err(|reason| Answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, &reason))?;
    let authorization = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let by = check(pushes, caller, &name, authorization).await?;
    match *request.method() {
        Method::PUT => put(pushes, name, request.into_body(), by).await,
        Method::DELETE => Ok(json(&pushes.remove(&name, &by).await)),
        _ => {
            let refusal = Answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "use PUT or DELETE");
            Err(Answer { allow: "PUT, DELETE", ..refusal })
        }
    }
}

async fn put(pushes: &Pushes, name: SetName, body: Incoming, by: String) -> Result<Answer, Answer> {
    let refused = |reason: &str| Answer::refusal(StatusCode::UNPROCESSABLE_ENTITY, reason);
    let body = Limited::new(body, Set::LONGEST).collect().await.map_err(|error| refused(&error.to_string()))?;
    let set = Set::parse(&body.to_bytes()).map_err(|reason| refused(&reason))?;
    match pushes.put(name, set, by).await {
        Ok(put) => Ok(json(&(put == Put::Replaced))),
        Err(Refusal::Older(version)) => Err(Answer::refusal(StatusCode::CONFLICT, &version.to_string())),
        Err(Refusal::Full(reason)) => Err(refused(&reason)),
    }
}

async fn check(pushes: &Pushes, caller: Caller, name: &SetName, authorization: &str) -> Result<String, Answer> {
    let owner = name.owner();
    let by = match caller {
        Caller::User(uid) if is_administrator(uid) => return Ok(format!("uid {uid}")),
        Caller::User(uid) => format!("owner {owner} by its token, uid {uid}"),
        Caller::Unknown => format!("owner {owner} by its token"),
    };
    let reason = match pushes.token_of(owner) {
        None => format!("there is no [[owner]] {owner:?}; without one, only root may push this set, at the socket"),
        Some(path) => match tokio::fs::metadata(&path).await {
            Err(error) => format!("the proxy cannot read the token of [[owner]] {owner:?}: {error}"),
            Ok(metadata) if metadata.permissions().mode() & 0o007 != 0 => {
                format!(
                    "all users can read the token of [[owner]] {owner:?}, so it proves nothing; chgrp vpfs and chmod 640 it"
                )
            }
            Ok(_) if is_token(&path, authorization, SHORTEST).await => return Ok(by),
            Ok(_) => format!("send the token of [[owner]] {owner:?}, which has at least {SHORTEST} characters"),
        },
    };
    Err(Answer::refusal(StatusCode::FORBIDDEN, &reason))
}

fn is_administrator(uid: u32) -> bool {
    uid == 0 || uid == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::sync::atomic::{AtomicU8, Ordering};

    use vpfs_config::Config;
    use vpfs_config::sets::{AppText, IdText};
    use vpfs_core::ServerId;

    use super::*;
    use crate::Daemon;
    use crate::admin::{Change, Failure, Kept, SETS, bind_socket, change, get, serve_socket};

    const TOKEN: &str = "0123456789abcdef";

    async fn daemon(folder: &Path) -> Daemon {
        static HOSTS: AtomicU8 = AtomicU8::new(1);
        let (process, host) = (std::process::id() % 250, HOSTS.fetch_add(1, Ordering::Relaxed));
        let text = format!(
            "[[server]]\nname = \"s1\"\naddress = \"tcp://127.0.0.1:3334\"\n\
             [[listener]]\naddresses = {{ s1 = \"tcp://127.77.{process}.{host}:53340\" }}\n\
             [[owner]]\nname = \"slurm\"\ntoken = \"slurm.token\"\n"
        );
        let path = folder.join("vpfs.toml");
        write(&path, text).unwrap();
        let token = folder.join("slurm.token");
        write(&token, format!("{TOKEN}\n")).unwrap();
        set_permissions(&token, Permissions::from_mode(0o640)).unwrap();
        Daemon::start(Config::load(&path).unwrap(), &[ServerId(0)]).await.unwrap()
    }

    fn json(version: u64) -> Vec<u8> {
        let app = AppText { name: "1".into(), uids: vec![IdText::One(7)], ..AppText::default() };
        serde_json::to_vec(&SetText { version, ttl: "1min".into(), apps: vec![app] }).unwrap()
    }

    /// A user of the socket's group, and a peer, may read; neither may therefore decide about shares.
    #[tokio::test]
    async fn who_may_read_may_not_therefore_write() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path()).await;
        let pushes = daemon.pushes();
        let [slurm, part, other] = ["slurm", "slurm.a", "admin"].map(|name| SetName::parse(name).unwrap());
        let may = async |caller, name: &SetName, sent: &str| match check(&pushes, caller, name, sent).await {
            Ok(by) => by.starts_with("uid ") || by.starts_with(&format!("owner {} by", name.owner())),
            Err(refusal) => {
                assert_eq!(refusal.status, StatusCode::FORBIDDEN);
                false
            }
        };
        let bearer = format!("Bearer {TOKEN}");
        for caller in [Caller::Unknown, Caller::User(4711)] {
            assert!(!may(caller, &slurm, "").await && !may(caller, &other, "").await);
            assert!(!may(caller, &slurm, "Bearer 0123456789abcdeX").await && !may(caller, &slurm, TOKEN).await);
            assert!(may(caller, &slurm, &bearer).await && may(caller, &part, &bearer).await);
            assert!(!may(caller, &other, &bearer).await, "its own sets only");
        }
        assert!(may(Caller::User(0), &other, "").await);
        assert!(may(Caller::User(rustix::process::geteuid().as_raw()), &other, "").await);
        let token = folder.path().join("slurm.token");
        set_permissions(&token, Permissions::from_mode(0o644)).unwrap();
        assert!(!may(Caller::Unknown, &slurm, &bearer).await, "everybody has it");
        set_permissions(&token, Permissions::from_mode(0o640)).unwrap();
        write(&token, "short").unwrap();
        assert!(!may(Caller::Unknown, &slurm, "Bearer short").await);
        write(&token, "").unwrap();
        assert!(!may(Caller::Unknown, &slurm, "Bearer ").await);
        std::fs::remove_file(&token).unwrap();
        assert!(!may(Caller::Unknown, &slurm, "Bearer ").await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_set_is_pushed_told_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let daemon = daemon(folder.path()).await;
        let path = folder.path().join("s1.sock");
        let kept = Kept { pushes: Some(daemon.pushes()), ..Kept::default() };
        let serving = tokio::spawn(serve_socket(bind_socket(&path, false).unwrap(), daemon.observer(), kept));
        let push = async |json: Option<Vec<u8>>| {
            let name = SetName::parse("slurm").unwrap();
            change(&path, &Change { name, json: json.map(Into::into), token: Some(TOKEN.to_owned()) }).await
        };
        assert_eq!(push(Some(json(5))).await.unwrap(), "true");
        assert_eq!(push(Some(json(5))).await.unwrap(), "false");
        assert!(matches!(push(Some(json(4))).await, Err(Failure::Newer(5))));
        let refused = |answer| matches!(answer, Err(Failure::Refused(reason)) if reason.contains("line 1"));
        assert!(refused(push(Some(b"nonsense".to_vec())).await.map(drop)));
        assert!(push(Some(vec![b' '; Set::LONGEST + 1])).await.is_err());
        let told: PushedSets = serde_json::from_slice(&get(&path, SETS).await.unwrap()).unwrap();
        assert_eq!((told.servers.len(), told.sets.len(), told.sets[0].text.version), (1, 1, 5));
        assert!(told.sets[0].left_seconds > 1.0);
        assert!(matches!(get(&path, "/v1/sets/slurm").await, Err(Failure::Unknown(status)) if status.contains("405")));
        assert_eq!(push(None).await.unwrap(), "true");
        assert_eq!(push(None).await.unwrap(), "false");
        serving.abort();
    }
}
