//! Exercises a file system through the client: any OrangeFS servers, ours or real ones.
//!
//! `cargo run -p vpfs-testbed --example roundtrip -- tcp://127.0.0.1:6300/pfs [UID]`
//!
//! Everything happens in a directory of its own, which is removed at the end.

#![allow(clippy::print_stdout, reason = "printing is what it does")]

use std::time::Instant;

use bytes::Bytes;
use vpfs_testbed::client::Result;
use vpfs_testbed::{Client, ClientOptions, CreateOptions};

const DIRECTORY: &str = "/vpfs-roundtrip";
const ENTRIES: usize = 1_200;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut options = ClientOptions::new(arguments.next().unwrap_or_else(|| "tcp://127.0.0.1:6300/pfs".to_owned()));
    options.uid = arguments.next().and_then(|uid| uid.parse().ok()).unwrap_or(0);
    let client = Client::connect(options).await?;
    println!("{} servers, {:?}", client.fs_config().servers.len(), client.statfs().await?);
    client.mkdir(DIRECTORY, 0o755).await?;
    files(&client).await?;
    names(&client).await?;
    client.rmdir(DIRECTORY).await?;
    println!("all well");
    Ok(())
}

/// Contents under each distribution.
async fn files(client: &Client) -> Result<()> {
    let distributions = [
        ("simple_stripe", CreateOptions::default()),
        ("basic_dist", CreateOptions::basic()),
        ("varstrip_dist", CreateOptions::variable_strips("0:10K;1:100K;2:30000;3:1M")),
        ("twod_stripe", CreateOptions::two_dimensional(2, 65_536, 4)),
        ("listed", CreateOptions::simple_stripe(4_096).on_servers([1, 0])),
    ];
    for (name, options) in distributions {
        for len in [0, 100, 6_769, 65_537, 5_000_001_usize] {
            let path = format!("{DIRECTORY}/{name}-{len}");
            let data: Bytes = (0..len).map(|i| (i / 251 + i).to_le_bytes()[0]).collect();
            let begin = Instant::now();
            let file = client.create(&path, &options).await?;
            client.write_at(&file, 0, data.clone()).await?;
            client.fsync(&file).await?;
            assert!(client.read_at(&file, 0, len + 10).await? == data, "{path}");
            assert_eq!(client.stat(&path).await?.size, len as u64, "{path}");
            client.truncate(&file, len as u64 / 2).await?;
            assert!(client.read_at(&file, 0, len).await? == data.slice(..len / 2), "{path} cut");
            client.truncate(&file, len as u64 + 70_000).await?;
            assert_eq!(client.size(&file).await?, len as u64 + 70_000, "{path} extended");
            let tail = client.read_at(&file, len as u64 / 2, len + 70_000).await?;
            assert!(tail.len() == len - len / 2 + 70_000 && tail.iter().all(|byte| *byte == 0), "{path} hole");
            client.remove(&path).await?;
            println!("{name}, {len} bytes on servers {:?}: {:?}", file.servers(), begin.elapsed());
        }
    }
    Ok(())
}

/// Entries, links and renames.
async fn names(client: &Client) -> Result<()> {
    let begin = Instant::now();
    let name = |n: usize| format!("{DIRECTORY}/entry_{n}");
    for n in 0..ENTRIES {
        client.create(&name(n), &CreateOptions::basic()).await?;
    }
    let listed = client.readdir(DIRECTORY).await?.len();
    assert_eq!(listed, ENTRIES);
    client.rename(&name(0), &name(1)).await?;
    client.rename(&name(1), &name(0)).await?;
    for n in (0..ENTRIES).filter(|n| *n != 1) {
        client.remove(&name(n)).await?;
    }
    client.symlink("somewhere", &name(2)).await?;
    assert_eq!(client.readlink(&name(2)).await?, "somewhere");
    client.remove(&name(2)).await?;
    println!("{ENTRIES} entries made, listed and removed: {:?}", begin.elapsed());
    Ok(())
}
