//! Client and servers together: file contents.

use crate::common;
use crate::common::{client, cluster, pattern};
use vpfs_testbed::client::Errno;
use vpfs_testbed::{Client, ClusterConfig, CreateOptions, EmbeddedCluster, File};

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
    let other = common::client(&cluster).await;
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
