//! Client and servers together: file contents.

use std::time::{Duration, SystemTime};

use vpfs_testbed::client::{Errno, FileKind, Stat};
use vpfs_testbed::{Client, ClientOptions, ClusterConfig, CreateOptions, EmbeddedCluster, File};

use crate::failures;
use crate::failures::{client, cluster, options, pattern};

fn distributions() -> Vec<(&'static str, CreateOptions)> {
    vec![
        ("simple", CreateOptions::default()),
        ("odd", CreateOptions::simple_stripe(10_007)),
        ("basic", CreateOptions::basic()),
        ("variable", CreateOptions::variable_strips("0:10K;1:1M;2:30000;3:7;1:500")),
        ("twod", CreateOptions::two_dimensional(2, 5_000, 3)),
        ("three", CreateOptions::simple_stripe(65_536).datafiles(3)),
        ("listed", CreateOptions::simple_stripe(4_096).on_servers([2, 0])),
    ]
}

async fn check(client: &Client, file: &File, expected: &[u8], what: &str) {
    let read = client.read_at(file, 0, expected.len() + 1000).await.unwrap();
    assert!(read == expected, "{what}: {} bytes read, {} expected", read.len(), expected.len());
    assert_eq!(client.size(file).await.unwrap(), expected.len() as u64, "{what}");
}

#[tokio::test]
async fn contents_survive_every_distribution_and_size() {
    let cluster = cluster(4).await;
    let client = client(&cluster).await;
    for (name, options) in distributions() {
        for len in [0, 1, 100, 6_768, 6_769, 16_345, 65_536, 65_537, 300_001, 1_500_000] {
            let what = format!("{name}, {len} bytes");
            let path = format!("/{name}-{len}");
            let data = pattern(len as u64, len);
            let file = client.create(&path, &options).await.unwrap();
            client.write_at(&file, 0, data.clone()).await.unwrap();
            check(&client, &file, &data, &what).await;
            let again = client.open(&path).await.unwrap();
            check(&client, &again, &data, &what).await;
            assert_eq!(client.stat(&path).await.unwrap().size, len as u64, "{what}");
        }
    }
}

#[tokio::test]
async fn random_accesses_equal_a_vector() {
    let cluster = cluster(3).await;
    let client = client(&cluster).await;
    for (round, (name, options)) in distributions().into_iter().enumerate().filter(|(_, (name, _))| *name != "variable")
    {
        let options = if name == "listed" { CreateOptions::simple_stripe(999).on_servers([1, 2]) } else { options };
        let file = client.create(&format!("/r{name}"), &options).await.unwrap();
        let mut expected = Vec::new();
        for step in 0..40_u64 {
            let dice = u64::from_le_bytes(*pattern(step * 31 + round as u64, 8).first_chunk().unwrap());
            let (offset, len) = ((dice % 400_000) as usize, (dice >> 32) as usize % 90_000);
            match dice >> 60 {
                0..8 => {
                    let data = pattern(dice, len);
                    client.write_at(&file, offset as u64, data.clone()).await.unwrap();
                    if len > 0 && expected.len() < offset + len {
                        expected.resize(offset + len, 0);
                    }
                    if len > 0 {
                        expected[offset..offset + len].copy_from_slice(&data);
                    }
                }
                8..11 => {
                    client.truncate(&file, offset as u64).await.unwrap();
                    expected.resize(offset, 0);
                }
                _ => {
                    let read = client.read_at(&file, offset as u64, len).await.unwrap();
                    let end = (offset + len).min(expected.len());
                    assert!(read == expected[offset.min(end)..end], "{name}, step {step}");
                }
            }
        }
        check(&client, &file, &expected, name).await;
    }
}

#[tokio::test]
async fn a_small_file_stays_stuffed_until_it_outgrows_its_first_strip() {
    let cluster = cluster(4).await;
    let client = client(&cluster).await;
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    client.write_at(&file, 0, pattern(1, 65_536)).await.unwrap();
    assert_eq!(file.servers().len(), 1);
    let other = failures::client(&cluster).await;
    let opened = other.open("/f").await.unwrap();
    client.write_at(&file, 65_536, pattern(2, 1)).await.unwrap();
    assert_eq!(file.servers().len(), 4);
    // A client that opened it before finds the new datafiles when it reads beyond the strip.
    assert_eq!(opened.servers().len(), 1);
    assert_eq!(other.read_at(&opened, 65_530, 100).await.unwrap().len(), 7);
    assert_eq!(other.size(&opened).await.unwrap(), 65_537);
}

#[tokio::test]
async fn files_lie_on_the_servers_asked_for() {
    let cluster = cluster(4).await;
    let client = client(&cluster).await;
    let options = CreateOptions::simple_stripe(65_536).on_servers([3, 1]);
    let file = client.create("/f", &options).await.unwrap();
    client.write_at(&file, 0, pattern(1, 200_000)).await.unwrap();
    assert_eq!(file.servers(), [3, 1]);
    assert_eq!((cluster.used_bytes(0), cluster.used_bytes(2)), (0, 0));
    assert!(client.create("/g", &CreateOptions::default().on_servers([7])).await.is_err());
}

#[tokio::test]
async fn a_full_server_refuses_and_continues() {
    let mut config = ClusterConfig::new(1);
    config.capacity_bytes = 1 << 20;
    let cluster = EmbeddedCluster::start(config).await.unwrap();
    let client = client(&cluster).await;
    let file = client.create("/f", &CreateOptions::default()).await.unwrap();
    let refused = client.write_at(&file, 0, pattern(1, 3 << 20)).await.unwrap_err();
    assert_eq!(refused.errno(), Some(Errno::ENOSPC), "{refused}");
    client.remove("/f").await.unwrap();
    assert_eq!(cluster.used_bytes(0), 0);
    let file = client.create("/g", &CreateOptions::default()).await.unwrap();
    client.write_at(&file, 0, pattern(2, 1 << 20)).await.unwrap();
    check(&client, &file, &pattern(2, 1 << 20), "after the refusal").await;
}

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
