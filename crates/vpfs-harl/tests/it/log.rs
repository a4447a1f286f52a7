//! Logs in lines: the corpus of the fuzz target, and changes of it. Logs in compressions, whole and damaged.

use std::fs;
use std::io::{Read, Write};

use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use vpfs_harl::{Packing, Unpacked};

use crate::{corpus, fuzz, replay};

#[test]
fn fuzz_corpora() {
    replay("log", fuzz::log, &[1, 0x10, 0x80]);
    replay("packed", fuzz::packed, &[1, 0x10, 0x80, 0xff]);
}

const LOG: &[u8] = b"rank,op,offset,size\n0,r,0,4096\n0,r,4096,4096\n";

fn unpacked(log: &[u8]) -> Result<(Vec<u8>, Vec<Packing>), String> {
    let log = Unpacked::new(log).map_err(|error| error.to_string())?;
    let (packings, mut bytes) = (log.packings.clone(), Vec::new());
    log.bytes().read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok((bytes, packings))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = BzEncoder::new(Vec::new(), bzip2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The files were made by the programs of these names: `printf ... | gzip`, and so on.
#[test]
fn what_programs_packed_is_unpacked() {
    let kinds = [("gzip", Packing::Gzip), ("bzip2", Packing::Bzip2), ("zstd", Packing::Zstd), ("xz", Packing::Xz)];
    for (name, packing) in kinds {
        let packed = fs::read(corpus("packed").join(name)).unwrap();
        assert_eq!(unpacked(&packed), Ok((LOG.to_vec(), vec![packing])), "{name}");
        assert_eq!(
            unpacked(&[&packed[..], &packed].concat()).unwrap().0,
            [LOG, LOG].concat(),
            "{name}: one after another"
        );
        for length in 0..packed.len() {
            match unpacked(&packed[..length]) {
                Ok((bytes, packings)) => assert!(packings.is_empty() && bytes == packed[..length], "{name} {length}"),
                Err(message) => assert!(message.contains(&format!("{name} data ")), "{message}"),
            }
        }
    }
    assert_eq!(unpacked(LOG), Ok((LOG.to_vec(), Vec::new())));
    assert_eq!(unpacked(&gzip(&bzip2(LOG))), Ok((LOG.to_vec(), vec![Packing::Gzip, Packing::Bzip2])));
    assert_eq!(unpacked(b""), Ok((Vec::new(), Vec::new())));
}

#[test]
fn data_that_ends_early_and_damage_are_told_apart() {
    let packed = gzip(LOG);
    assert!(unpacked(&packed[..packed.len() - 4]).unwrap_err().ends_with("ends early; was the log copied whole?"));
    let mut damaged = bzip2(LOG);
    damaged[30] ^= 0xff;
    let message = unpacked(&damaged).unwrap_err();
    assert!(
        message.starts_with("bzip2 data cannot be unpacked") && message.ends_with("is the log damaged?"),
        "{message}"
    );
}

/// Gigabytes of zeros in less than 2 KB: bzip2 within bzip2.
#[test]
fn what_becomes_endless_is_refused() {
    let zeros = bzip2(&bzip2(&vec![0; 45_000_000]).repeat(100));
    assert!(zeros.len() < 10_000);
    let log = Unpacked::new(&zeros[..]).unwrap();
    assert_eq!(log.packings.len(), 2);
    let read = std::io::copy(&mut log.bytes(), &mut std::io::sink());
    let message = read.unwrap_err().to_string();
    assert!(message.contains("as no log does; if it is one, unpack it before"), "{message}");
}
