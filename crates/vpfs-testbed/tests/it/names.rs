//! Client and servers together: directories, attributes, permissions.

use std::time::{Duration, SystemTime};

use crate::common::{client, cluster, options, pattern};
use vpfs_testbed::client::{Errno, FileKind, Stat};
use vpfs_testbed::{Client, ClientOptions, CreateOptions};

async fn names(client: &Client, path: &str) -> Vec<String> {
    client.readdir(path).await.unwrap().into_iter().map(|entry| entry.name).collect()
}

#[tokio::test]
async fn directories_come_and_go() {
    let cluster = cluster(3).await;
    let client = client(&cluster).await;
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/c/d"] {
        client.mkdir(path, 0o755).await.unwrap();
    }
    assert_eq!(client.stat("/a/b/c/d").await.unwrap().kind, FileKind::Directory);
    assert!(client.mkdir("/a/b", 0o755).await.unwrap_err().is_already_exists());
    assert!(client.mkdir("/x/y", 0o755).await.unwrap_err().is_not_found());
    assert_eq!(client.rmdir("/a/b").await.unwrap_err().errno(), Some(Errno::ENOTEMPTY));
    assert_eq!(names(&client, "/a").await, ["b"]);
    client.rmdir("/a/b/c/d").await.unwrap();
    client.rmdir("/a/b/c").await.unwrap();
    assert!(names(&client, "/a/b").await.is_empty());
    assert!(client.stat("/a/b/c").await.unwrap_err().is_not_found());
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    assert_eq!(client.rmdir("/f").await.unwrap_err().errno(), Some(Errno::ENOTDIR));
    assert_eq!(client.remove("/a").await.unwrap_err().errno(), Some(Errno::EISDIR));
    assert_eq!(client.open("/a").await.unwrap_err().errno(), Some(Errno::EISDIR));
    assert_eq!(client.stat("/f/g").await.unwrap_err().errno(), Some(Errno::ENOTDIR));
    assert_eq!(client.stat("/f").await.unwrap().handle, file.handle());
    assert!(client.create("/f", &CreateOptions::default()).await.unwrap_err().is_already_exists());
}

#[tokio::test]
async fn removed_files_give_their_bytes_back() {
    let cluster = cluster(4).await;
    let client = client(&cluster).await;
    let free = client.statfs().await.unwrap();
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 1 << 20)).await.unwrap();
    assert_eq!(free.bytes_available - client.statfs().await.unwrap().bytes_available, 1 << 20);
    client.remove("/f").await.unwrap();
    assert_eq!(client.statfs().await.unwrap(), free);
    assert!(client.open("/f").await.unwrap_err().is_not_found());
    let gone = client.read_at(&file, 0, 10).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
    // A failed creation leaves nothing behind, either.
    client.mkdir("/d", 0o755).await.unwrap();
    let objects = client.statfs().await.unwrap().handles_available;
    client.create("/d", &CreateOptions::default()).await.unwrap_err();
    assert_eq!(client.statfs().await.unwrap().handles_available, objects);
}

#[tokio::test]
async fn renaming() {
    let cluster = cluster(4).await;
    let client = client(&cluster).await;
    client.mkdir("/d", 0o755).await.unwrap();
    let old = client.create("/old", &CreateOptions::default()).await.unwrap();
    client.write_at(&old, 0, pattern(1, 500_000)).await.unwrap();
    client.rename("/old", "/d/new").await.unwrap();
    assert_eq!(client.stat("/d/new").await.unwrap().handle, old.handle());
    assert_eq!(names(&client, "/").await, ["d"]);

    let replaced = client.create("/target", &CreateOptions::default()).await.unwrap();
    client.write_at(&replaced, 0, pattern(2, 500_000)).await.unwrap();
    let used = (0..4).map(|server| cluster.used_bytes(server)).sum::<u64>();
    client.rename("/d/new", "/target").await.unwrap();
    assert_eq!(client.stat("/target").await.unwrap().handle, old.handle());
    assert_eq!((0..4).map(|server| cluster.used_bytes(server)).sum::<u64>() * 2, used);
    assert!(client.read_at(&client.open("/target").await.unwrap(), 0, 500_000).await.unwrap() == pattern(1, 500_000));

    let other = client.create("/other", &CreateOptions::default()).await.unwrap();
    assert!(client.rename_new("/other", "/target").await.unwrap_err().is_already_exists());
    client.rename_new("/other", "/d/other").await.unwrap();
    client.rename_new("/d/other", "/d/other").await.unwrap();
    assert_eq!(client.stat("/d/other").await.unwrap().handle, other.handle());
    assert_eq!(names(&client, "/").await, ["d", "target"]);

    client.rename("/target", "/target").await.unwrap();
    client.mkdir("/d/e", 0o755).await.unwrap();
    client.rename("/d/e", "/e").await.unwrap();
    assert!(client.rename("/target", "/e").await.unwrap_err().is_already_exists());
    client.mkdir("/e/f", 0o755).await.unwrap();
    assert_eq!(client.rename("/e", "/e/f/g").await.unwrap_err().errno(), Some(Errno::EINVAL));
    assert!(client.rename("/nothing", "/x").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn times_are_what_was_set() {
    let cluster = cluster(4).await;
    let client = client(&cluster).await;
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    client.mkdir("/d", 0o755).await.unwrap();
    let striped = client.create("/d/striped", &CreateOptions::simple_stripe(1_000)).await.unwrap();
    client.write_at(&striped, 0, pattern(1, 10_000)).await.unwrap();
    client.create("/d/stuffed", &CreateOptions::default()).await.unwrap();
    client.symlink("striped", "/d/link").await.unwrap();
    for path in ["/d/striped", "/d/stuffed", "/d/link", "/d"] {
        let before = client.stat(path).await.unwrap();
        client.set_times(path, 1_000_000_000, 1_000_000_007).await.unwrap();
        let after = client.stat(path).await.unwrap();
        assert!(after.changed >= before.changed, "{path}");
        let (accessed, modified, changed) = (at(1_000_000_000), at(1_000_000_007), after.changed);
        assert_eq!(after, Stat { accessed, modified, changed, ..before }, "{path}: the rest stays");
    }
    assert!(client.set_times("/d/nothing", 1, 1).await.unwrap_err().is_not_found());
    client.set_owner("/d/striped", 1000, 100, 0o640).await.unwrap();
    let owned = client.stat("/d/striped").await.unwrap();
    assert_eq!((owned.uid, owned.gid, owned.mode, owned.modified), (1000, 100, 0o640, at(1_000_000_007)));
    assert_eq!(client.xattr_names("/d/striped").await.unwrap(), Vec::<Vec<u8>>::new());

    let stranger = Client::connect(ClientOptions { uid: 1000, ..options(&cluster) }).await.unwrap();
    let denied = stranger.set_times("/d/stuffed", 1, 1).await.unwrap_err();
    assert_eq!(denied.errno(), Some(Errno::EACCES), "{denied}");
    assert_eq!(client.stat("/d/stuffed").await.unwrap().accessed, at(1_000_000_000));
}

#[tokio::test]
async fn links_name_their_targets() {
    let cluster = cluster(2).await;
    let client = client(&cluster).await;
    client.symlink("../somewhere else", "/link").await.unwrap();
    assert_eq!(client.readlink("/link").await.unwrap(), "../somewhere else");
    let stat = client.stat("/link").await.unwrap();
    assert_eq!((stat.kind, stat.size), (FileKind::Symlink, 17));
    client.remove("/link").await.unwrap();
    assert!(client.readlink("/link").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn permissions_follow_owner_and_mode() {
    let cluster = cluster(2).await;
    let root = client(&cluster).await;
    let user = |uid: u32, gid: u32| Client::connect(ClientOptions { uid, gids: vec![gid], ..options(&cluster) });
    let (alice, bob) = (user(1000, 100).await.unwrap(), user(1001, 100).await.unwrap());
    root.mkdir("/private", 0o700).await.unwrap();
    alice.mkdir("/shared", 0o775).await.unwrap();

    let denied = alice.create("/private/f", &CreateOptions::default()).await.unwrap_err();
    assert_eq!(denied.errno(), Some(Errno::EACCES), "{denied}");
    let file = alice.create("/shared/f", &CreateOptions::default().mode(0o640)).await.unwrap();
    alice.write_at(&file, 0, pattern(1, 10)).await.unwrap();
    let stat = bob.stat("/shared/f").await.unwrap();
    assert_eq!((stat.uid, stat.gid, stat.mode), (1000, 100, 0o640));
    let seen = bob.open("/shared/f").await.unwrap();
    assert!(bob.read_at(&seen, 0, 10).await.unwrap() == pattern(1, 10));
    let denied = bob.write_at(&seen, 0, pattern(2, 10)).await.unwrap_err();
    assert_eq!(denied.errno(), Some(Errno::EACCES), "{denied}");
    bob.remove("/shared/f").await.unwrap();
}
