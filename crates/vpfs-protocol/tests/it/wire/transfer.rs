//! Shares of an access against an oracle that looks at every byte.
//!
//! The oracle expands a type to the file offset of each of its bytes and gives each byte to a server by counting; the
//! only rule it shares with the code is the one that both ends of the protocol apply instead of walking a type: a type
//! that fills its extent and has an element of one chunk is one run.

use proptest::prelude::*;
use vpfs_core::Bytes;
use vpfs_core::stripe::Stripe;
use vpfs_protocol::wire::pvfs2::transfer::Node;
use vpfs_protocol::wire::pvfs2::{Dist, Preq, Transfer, TransferError};

/// A file type as an MPI program would build it.
#[derive(Clone, Debug)]
enum Type {
    Bytes(i64),
    /// `blocks` times `copies` of the element, `stride` bytes apart; the extent grows by `gap`.
    Vector {
        blocks: i32,
        copies: i32,
        stride: i64,
        gap: i64,
        element: Box<Type>,
    },
    /// Copies of the element at explicit offsets, in any order.
    Indexed {
        parts: Vec<(i64, i32)>,
        gap: i64,
        element: Box<Type>,
    },
}

/// What the builder knows about a type.
#[derive(Clone, Debug)]
struct Built {
    index: i32,
    /// Offsets of all bytes of a copy, in order.
    bytes: Vec<i64>,
    lb: i64,
    ub: i64,
    chunks: i32,
    /// Where the type starts if it is treated as one run.
    lead: i64,
    is_run: bool,
}

impl Built {
    fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    fn at(&self, place: i64, copies: i32) -> Vec<i64> {
        let copies = i64::from(copies);
        if self.is_run {
            let start = place + self.lead;
            return (start..start + copies * self.bytes.len() as i64).collect();
        }
        (0..copies).flat_map(|copy| self.bytes.iter().map(move |at| place + copy * self.extent() + at)).collect()
    }
}

fn build(kind: &Type, nodes: &mut Vec<Node>) -> Built {
    let index = nodes.len();
    nodes.push(Node { committed: 0, ..Node::BYTE });
    match kind {
        Type::Bytes(width) => {
            nodes[index] = Node { ub: *width, aggregate_size: *width, ..nodes[index] };
            let bytes = (0..*width).collect();
            Built { index: narrow(index), bytes, lb: 0, ub: *width, chunks: 1, lead: 0, is_run: true }
        }
        Type::Vector { blocks, copies, stride, gap, element } => {
            let row = Row { offset: 0, blocks: *blocks, copies: *copies, stride: *stride };
            build_rows(index, &[row], *gap, element, nodes)
        }
        Type::Indexed { parts, gap, element } => {
            let row = |(offset, copies): &(i64, i32)| Row { offset: *offset, blocks: 1, copies: *copies, stride: 0 };
            let rows: Vec<_> = parts.iter().map(row).collect();
            build_rows(index, &rows, *gap, element, nodes)
        }
    }
}

struct Row {
    offset: i64,
    blocks: i32,
    copies: i32,
    stride: i64,
}

fn build_rows(index: usize, rows: &[Row], gap: i64, element: &Type, nodes: &mut Vec<Node>) -> Built {
    let element = build(element, nodes);
    let mut bytes = Vec::new();
    let mut sizes = Vec::new();
    let mut chunks = Vec::new();
    for row in rows {
        let before = bytes.len();
        for block in 0..row.blocks {
            bytes.extend(element.at(row.offset + i64::from(block) * row.stride, row.copies));
        }
        sizes.push((bytes.len() - before) as i64);
        let is_chunk = element.chunks == 1 && element.bytes.len() as i64 == element.extent();
        chunks.push(row.blocks * if is_chunk { 1 } else { row.copies * element.chunks });
    }
    let lb = *bytes.iter().min().unwrap();
    let ub = bytes.iter().max().unwrap() + 1 + gap;
    // The head sits at `index`, the rest of the sequence at the end.
    let mut places = vec![index];
    places.extend((1..rows.len()).map(|at| nodes.len() + at - 1));
    nodes.resize(nodes.len() + rows.len() - 1, nodes[index]);
    for (at, row) in rows.iter().enumerate() {
        nodes[places[at]] = Node {
            offset: row.offset,
            num_ereqs: row.copies,
            num_blocks: row.blocks,
            stride: row.stride,
            ub,
            lb,
            aggregate_size: sizes[at..].iter().sum(),
            num_contig_chunks: chunks[at..].iter().sum(),
            ereq: element.index,
            sreq: places.get(at + 1).map_or(-1, |next| narrow(*next)),
            ..nodes[index]
        };
    }
    let chunks = chunks.iter().sum();
    let lead = rows[0].offset + element.lead;
    let is_run = bytes.len() as i64 == ub - lb && (chunks == 1 || element.chunks == 1);
    if is_run {
        bytes = (lead..lead + bytes.len() as i64).collect();
    }
    Built { index: narrow(index), bytes, lb, ub, chunks, lead, is_run }
}

fn narrow(index: usize) -> i32 {
    i32::try_from(index).unwrap()
}

/// The file offsets of the stream positions of an access, in order.
fn file_offsets(built: &Built, is_leaf: bool, start: i64, len: i64) -> Vec<i64> {
    let size = built.bytes.len() as i64;
    (start..start + len)
        .map(|position| match is_leaf {
            true => position,
            false if built.is_run => built.lead + position,
            false => position / size * built.extent() + built.bytes[usize::try_from(position % size).unwrap()],
        })
        .collect()
}

/// Server and physical offset of each file offset, by counting.
fn owners(dist: &Dist, servers: u32, end: i64) -> Vec<(u32, u64)> {
    let mut counts = [0; 16];
    (0..end)
        .map(|logical| {
            let owner = owner(dist, i64::from(servers), logical);
            counts[owner as usize] += 1;
            (owner, counts[owner as usize] - 1)
        })
        .collect()
}

fn owner(dist: &Dist, servers: i64, logical: i64) -> u32 {
    let owner = match dist {
        Dist::Basic => 0,
        Dist::SimpleStripe { strip_size } => logical / strip_size % servers,
        Dist::VarStrip { strips } => {
            let text = strips.to_string_lossy();
            let strips: Vec<(i64, i64)> = text
                .split(';')
                .map(|strip| strip.split_once(':').unwrap())
                .map(|(server, size)| (server.parse().unwrap(), size.parse().unwrap()))
                .collect();
            let mut rest = logical % strips.iter().map(|(_, size)| size).sum::<i64>();
            let hit = strips.iter().find(|(_, size)| {
                rest -= size;
                rest < 0
            });
            hit.unwrap().0
        }
        Dist::TwoDStripe { groups, strip_size, factor } => {
            let groups = i64::from(*groups).min(servers);
            let per_server = i64::from(*factor) * strip_size;
            let rest = logical % (servers * per_server);
            let size = servers / groups;
            let group = (rest / (size * per_server)).min(groups - 1);
            let in_group = rest - group * size * per_server;
            let this_size = if group == groups - 1 { servers - group * size } else { size };
            group * size + in_group / strip_size % this_size
        }
    };
    u32::try_from(owner).unwrap()
}

fn dist() -> impl Strategy<Value = (Dist, u32)> {
    prop_oneof![
        3 => (1i64..12, 1u32..5).prop_map(|(strip_size, c)| (Dist::SimpleStripe { strip_size }, c)),
        1 => Just((Dist::Basic, 1)),
        1 => proptest::collection::vec((0u32..4, 1u64..9), 1..5).prop_map(|list| {
            let text: Vec<_> = list.iter().map(|(server, size)| format!("{server}:{size}")).collect();
            (Dist::VarStrip { strips: text.join(";").into() }, 4)
        }),
        1 => (1u32..4, 1i64..8, 1u32..4, 1u32..6)
            .prop_map(|(groups, strip_size, factor, c)| (Dist::TwoDStripe { groups, strip_size, factor }, c)),
    ]
}

fn file_type() -> impl Strategy<Value = Type> {
    let leaf = (1i64..5).prop_map(Type::Bytes);
    leaf.prop_recursive(3, 24, 3, |inner| {
        let vector =
            (1i32..4, 1i32..4, 0i64..40, 0i64..9, inner.clone()).prop_map(|(blocks, copies, stride, gap, element)| {
                Type::Vector { blocks, copies, stride, gap, element: Box::new(element) }
            });
        let parts = proptest::collection::vec((0i64..50, 1i32..4), 1..4);
        let indexed = (parts, 0i64..9, inner).prop_map(|(parts, gap, element)| Type::Indexed {
            parts,
            gap,
            element: Box::new(element),
        });
        prop_oneof![vector, indexed]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn shares_equal_the_oracle(
        (dist, servers) in dist(), kind in file_type(), start in 0i64..400, len in 0i64..900, size in 0u64..700,
    ) {
        let mut nodes = Vec::new();
        let built = build(&kind, &mut nodes);
        nodes[0].committed = -1;
        let is_leaf = matches!(kind, Type::Bytes(_));
        let offsets = file_offsets(&built, is_leaf, start, len);
        let owners = owners(&dist, servers, offsets.iter().max().map_or(0, |end| end + 1));
        let preq = Preq { nodes };
        for server in 0..servers {
            let transfer = Transfer::new(&dist, server, servers, &preq, start, len).unwrap();
            let own: Vec<_> = offsets
                .iter()
                .enumerate()
                .map(|(at, offset)| (at as u64, owners[usize::try_from(*offset).unwrap()]))
                .filter(|(_, (owner, _))| *owner == server)
                .map(|(at, (_, physical))| (at, physical))
                .collect();
            prop_assert_eq!(transfer.write_bytes(), Ok(own.len() as u64));
            let before_end = own.iter().take_while(|(_, physical)| *physical < size).count();
            prop_assert_eq!(transfer.read_bytes(size), Ok(before_end as u64));
            prop_assert_eq!(transfer.first_physical_offset(), Ok(own.first().map(|(_, physical)| *physical)));
            let mut bytes = Vec::new();
            for piece in transfer.pieces() {
                let piece = piece.unwrap();
                prop_assert_eq!(piece.wire_offset, bytes.len() as u64);
                bytes.extend((0..piece.len).map(|i| (piece.access_offset + i, piece.physical + i)));
            }
            prop_assert_eq!(bytes, own);
        }
    }

    /// Arbitrary nodes give an answer or an error, quickly.
    #[test]
    fn arbitrary_descriptions_are_safe(
        nodes in proptest::collection::vec(node(), 1..6),
        strip_size in 1i64..1 << 40, servers in 1u32..9, start: i64, len: i64, size: u64,
    ) {
        let dist = Dist::SimpleStripe { strip_size };
        if let Ok(transfer) = Transfer::new(&dist, 0, servers, &Preq { nodes }, start, len) {
            let _ = (transfer.write_bytes(), transfer.read_bytes(size), transfer.first_physical_offset());
            let _ = transfer.pieces().take(100).count();
        }
    }
}

fn node() -> impl Strategy<Value = Node> {
    let small = || prop_oneof![4 => -2i64..100, 1 => any::<i64>()];
    let count = || prop_oneof![4 => -1i32..5, 1 => any::<i32>()];
    (small(), count(), count(), small(), small(), small(), small(), 0i32..3, -1i32..6, -1i32..6).prop_map(
        |(offset, num_ereqs, num_blocks, stride, ub, lb, aggregate_size, num_contig_chunks, ereq, sreq)| Node {
            offset,
            num_ereqs,
            num_blocks,
            stride,
            ub,
            lb,
            aggregate_size,
            num_contig_chunks,
            ereq,
            sreq,
            ..Node::BYTE
        },
    )
}

fn vector(blocks: i32, block_len: i32, stride: i64, extent: i64) -> Preq {
    let root = Node {
        num_ereqs: block_len,
        num_blocks: blocks,
        stride,
        ub: extent,
        aggregate_size: i64::from(blocks) * i64::from(block_len),
        num_contig_chunks: blocks,
        ereq: 1,
        ..Node::BYTE
    };
    Preq { nodes: vec![root, Node::BYTE] }
}

/// This would take very long if any computation visited every strip or every tile.
#[test]
fn large_accesses_cost_no_more_than_small_ones() {
    let dist = Dist::SimpleStripe { strip_size: 1 };
    let huge = i64::MAX - 1;
    let plain = Transfer::new(&dist, 1, 4, &Preq::contiguous(), 0, huge).unwrap();
    assert_eq!(plain.write_bytes(), Ok(huge.cast_unsigned() / 4 + 1));
    assert_eq!(plain.read_bytes(1 << 40), Ok(1 << 40));
    let dist = Dist::SimpleStripe { strip_size: 65536 };
    let tiled = Transfer::new(&dist, 3, 4, &vector(4, 1000, 65536, 262_144), 0, 1 << 44).unwrap();
    let bytes = (1u64 << 44) / 4;
    assert!(tiled.write_bytes().unwrap().abs_diff(bytes) < 1000);
    assert_eq!(tiled.read_bytes(u64::MAX), tiled.write_bytes());
    assert_eq!(tiled.read_bytes(0), Ok(0));
}

#[test]
fn too_many_pieces_are_refused() {
    let dist = Dist::SimpleStripe { strip_size: 65537 };
    let scattered = Transfer::new(&dist, 0, 3, &vector(i32::MAX, 1, 3, 7), 0, 1 << 30).unwrap();
    assert_eq!(scattered.write_bytes(), Err(TransferError::TooComplex));
    assert_eq!(scattered.pieces().last(), Some(Err(TransferError::TooComplex)));
    // Tiles of one run each, not aligned with the strips.
    let tiles = Transfer::new(&dist, 0, 3, &vector(1, 2, 0, 1009), 0, 1 << 12).unwrap();
    let counted: u64 = tiles.pieces().map(|piece| piece.unwrap().len).sum();
    assert_eq!(tiles.write_bytes(), Ok(counted));
    let wide = Dist::SimpleStripe { strip_size: (1 << 40) + 1 };
    let tiles = Transfer::new(&wide, 0, 3, &vector(1, 2, 0, 7), 0, 1 << 50).unwrap();
    assert_eq!(tiles.write_bytes(), Err(TransferError::TooComplex));
    let strips = Transfer::new(&Dist::SimpleStripe { strip_size: 1 }, 0, 2, &Preq::contiguous(), 0, 1 << 40).unwrap();
    assert_eq!(strips.pieces().last(), Some(Err(TransferError::TooComplex)));
}

/// Symptom: a request with 320 bytes of description took a millisecond. Cause: a query could take 131,072 steps.
#[test]
fn a_small_description_costs_little() {
    let dist = Dist::SimpleStripe { strip_size: 65537 };
    let scattered = Transfer::new(&dist, 0, 3, &vector(i32::MAX, 1, 3, 7), 0, 1 << 30).unwrap();
    assert_eq!(scattered.steps(), 0);
    assert_eq!(scattered.write_bytes(), Err(TransferError::TooComplex));
    assert!((1000..10_000).contains(&scattered.steps()), "{}", scattered.steps());
    let before = scattered.steps();
    assert!(scattered.first_physical_offset().unwrap().is_some());
    assert!(scattered.steps() - before < 10, "the first piece is found at once");
    let usual = Transfer::new(&dist, 0, 3, &Preq::contiguous(), 0, 1 << 30).unwrap();
    usual.write_bytes().unwrap();
    assert_eq!(usual.steps(), 0);
}

#[test]
fn nonsense_is_malformed() {
    let dist = Dist::SimpleStripe { strip_size: 64 };
    let plain = Preq::contiguous();
    let is_malformed = |result: Result<Transfer, TransferError>| matches!(result, Err(TransferError::Malformed(_)));
    assert!(is_malformed(Transfer::new(&dist, 0, 1, &plain, -1, 5)));
    assert!(is_malformed(Transfer::new(&dist, 0, 1, &plain, 0, -5)));
    assert!(is_malformed(Transfer::new(&dist, 0, 1, &plain, i64::MAX, 1)));
    assert!(is_malformed(Transfer::new(&dist, 4, 4, &plain, 0, 1)));
    assert!(is_malformed(Transfer::new(&dist, 0, 1, &Preq { nodes: vec![] }, 0, 1)));
    let mut cycle = vector(2, 2, 9, 20);
    cycle.nodes[1].ereq = 0;
    assert!(is_malformed(Transfer::new(&dist, 0, 1, &cycle, 0, 1)));
    let mut wrong_size = vector(2, 2, 9, 20);
    wrong_size.nodes[0].aggregate_size = 5;
    assert!(is_malformed(Transfer::new(&dist, 0, 1, &wrong_size, 0, 1)));
    let bad = Dist::VarStrip { strips: "0".into() };
    assert!(matches!(Transfer::new(&bad, 0, 1, &plain, 0, 1), Err(TransferError::Distribution(_))));
}

/// Servers do not look at their number in a basic distribution.
#[test]
fn every_server_of_a_basic_distribution_holds_everything() {
    let transfer = Transfer::new(&Dist::Basic, 1, 2, &Preq::contiguous(), 10, 100).unwrap();
    assert_eq!(transfer.write_bytes(), Ok(100));
    assert_eq!(transfer.read_bytes(50), Ok(40));
    assert!(Stripe::new(vpfs_core::stripe::Distribution::Basic, 2).is_ok());
}

/// Each server must be able to compute the same, so only accesses that reach all servers count [vPFS §III-B2].
#[test]
fn an_access_to_all_servers_reveals_to_each_what_the_others_move() {
    let elsewhere = |dist: &Dist, server, servers, preq: &Preq, len| {
        Transfer::new(dist, server, servers, preq, 1000, len).unwrap().elsewhere()
    };
    let (simple, plain) = (Dist::SimpleStripe { strip_size: 65536 }, Preq::contiguous());
    let shares = [0, 1, 2, 3].map(|server| elsewhere(&simple, server, 4, &plain, 262_144));
    assert_eq!(shares, [Some(Bytes(196_608)); 4]);
    assert_eq!(elsewhere(&simple, 0, 4, &plain, 65536), None, "two servers only");
    assert_eq!(elsewhere(&Dist::Basic, 0, 1, &plain, 1 << 30), None, "there are no others");
    assert_eq!(elsewhere(&simple, 0, 4, &vector(4, 1000, 65536, 262_144), 1 << 20), None, "a pattern");
    let groups = Dist::TwoDStripe { groups: 2, strip_size: 1, factor: 1 };
    assert_eq!(elsewhere(&groups, 0, u32::MAX, &plain, 1 << 40), None, "too many servers to look at");
}
