//! The checks of the fuzz targets on their corpus and on damaged messages: no input makes a decoder panic, and whatever
//! decodes can be encoded and decoded again to the same value.

#[path = "../../../../fuzz/src/wire.rs"]
#[expect(unreachable_pub, reason = "public in the crate of the fuzz targets")]
mod fuzz;

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use crate::common::{Frame, frames};
use proptest::prelude::*;
use proptest::sample::Index;

static FRAMES: LazyLock<Vec<Frame>> = LazyLock::new(|| {
    let mut frames = frames();
    frames.retain(|frame| frame.payload.len() < 4096);
    frames
});

fn check(payload: &[u8]) {
    fuzz::bmi_header(payload);
    fuzz::request(payload);
    fuzz::reply(payload);
    fuzz::rewrite(payload);
}

#[test]
fn fuzz_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let replay = |name: &str, target: fn(&[u8])| {
        let mut count = 0;
        for entry in fs::read_dir(corpus.join(name)).unwrap() {
            target(&fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 0, "the corpus of {name} is empty");
    };
    replay("bmi_header", fuzz::bmi_header);
    replay("request", fuzz::request);
    replay("reply", fuzz::reply);
    replay("transfer", fuzz::transfer);
    replay("rewrite", fuzz::rewrite);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn damaged_frames(
        at: Index, changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..5), cut: Option<Index>,
    ) {
        let mut payload = at.get(&FRAMES).payload.clone();
        for (at, value) in changes {
            let at = at.index(payload.len());
            payload[at] = value;
        }
        if let Some(cut) = cut {
            payload.truncate(cut.index(payload.len()));
        }
        check(&payload);
    }

    #[test]
    fn arbitrary_bodies(
        op in 0i32..53, body in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..300),
    ) {
        let mut payload = vec![0x58, 0x1b, 0, 0, 2, 0, 0, 0];
        payload.extend_from_slice(&op.to_le_bytes());
        payload.extend_from_slice(&body);
        check(&payload);
    }

    #[test]
    fn damaged_accesses(at: Index, changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 0..6), size: u64) {
        let accesses: Vec<_> = FRAMES.iter().filter(|frame| frame.name.starts_with("op03_io_request")).collect();
        let frame = at.get(&accesses);
        let body = usize::try_from(frame.json["decoded"]["body_offset"].as_u64().unwrap()).unwrap();
        let mut data = frame.payload[body..].to_vec();
        for (at, value) in changes {
            let at = at.index(data.len());
            data[at] = value;
        }
        data.extend_from_slice(&(size >> (size % 64)).to_le_bytes());
        fuzz::transfer(&data);
    }
}
