//! Views of COMPOUNDs, on captured and on generated ones.

use proptest::prelude::*;
use vpfs_wire::nfs::{Compound, Credential, Message, compound_listed, compound_moved, compound_stored, status};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn opaque(bytes: &[u8]) -> Vec<u8> {
    let padding = vec![0; bytes.len().next_multiple_of(4) - bytes.len()];
    [&words(&[u32::try_from(bytes.len()).unwrap()])[..], bytes, &padding].concat()
}

fn compound(ops: &[Vec<u8>]) -> Vec<u8> {
    [opaque(b"tag"), words(&[1, u32::try_from(ops.len()).unwrap()]), ops.concat()].concat()
}

fn put_handle(handle: &[u8]) -> Vec<u8> {
    [words(&[22]), opaque(handle)].concat()
}

fn read(offset: u32, count: u32) -> Vec<u8> {
    words(&[25, 1, 2, 3, 4, 0, offset, count])
}

fn write(offset: u32, data: &[u8]) -> Vec<u8> {
    [words(&[38, 1, 2, 3, 4, 0, offset, 0]), opaque(data)].concat()
}

/// Operations that move no data, with a name or list of any length where there is one, as RFC 8881 has them.
fn others(text: &[u8]) -> Vec<Vec<u8>> {
    let (name, state) = (opaque(text), words(&[9; 4]));
    let bits = words(&[2, 7, 7]);
    let attributes = [bits.clone(), name.clone()].concat();
    let owner = [words(&[1, 2]), name.clone()].concat();
    let op = |code: u32, parts: &[&[u8]]| [&words(&[code])[..], &parts.concat()].concat();
    let open = |rest: &[&[u8]]| op(18, &[&words(&[1, 2, 3]), &owner, &rest.concat()]);
    vec![
        words(&[3, 1]),
        op(4, &[&words(&[1]), &state]),
        words(&[5, 0, 1, 2]),
        op(6, &[&words(&[2]), &name, &attributes]),
        op(6, &[&words(&[5]), &name, &name, &attributes]),
        op(6, &[&words(&[3, 1, 1]), &name, &attributes]),
        words(&[7, 1, 1]),
        op(8, &[&state]),
        op(9, &[&bits]),
        words(&[10]),
        op(11, &[&name]),
        op(12, &[&words(&[1, 0, 0, 0, 0, 9, 1, 5]), &state, &words(&[6]), &owner]),
        op(12, &[&words(&[1, 0, 0, 0, 0, 9, 0]), &state, &words(&[6])]),
        op(13, &[&words(&[1, 0, 0, 0, 9]), &owner]),
        op(14, &[&words(&[1, 2]), &state, &words(&[0, 0, 0, 9])]),
        op(15, &[&name]),
        words(&[16]),
        op(17, &[&attributes]),
        open(&[&words(&[0, 0]), &name]),
        open(&[&words(&[1, 0]), &attributes, &words(&[0]), &name]),
        open(&[&words(&[1, 2, 8, 8, 1, 0])]),
        open(&[&words(&[1, 3, 8, 8]), &attributes, &words(&[4])]),
        open(&[&words(&[0, 2]), &state, &name]),
        open(&[&words(&[0, 5]), &state]),
        words(&[19, 1]),
        op(20, &[&state, &words(&[1])]),
        op(21, &[&state, &words(&[1, 2, 3])]),
        words(&[24]),
        words(&[27]),
        op(28, &[&name]),
        op(29, &[&name, &name]),
        words(&[30, 1, 2]),
        words(&[31]),
        words(&[32]),
        op(33, &[&name]),
        op(34, &[&state, &attributes]),
        op(35, &[&owner, &words(&[1]), &name, &name, &words(&[1])]),
        op(36, &[&state]),
        op(37, &[&attributes]),
        op(39, &[&owner]),
        op(41, &[&state, &words(&[1, 0])]),
        op(44, &[&state]),
        op(45, &[&state]),
        op(50, &[&words(&[0, 1, 1, 0, 0, 0, 9, 0, 1]), &state, &words(&[99])]),
        words(&[52, 0]),
        op(53, &[&state, &words(&[1, 2, 3, 0])]),
        op(55, &[&words(&[2]), &state, &state]),
        words(&[57, 1, 2]),
        words(&[58, 0]),
    ]
}

/// Name, call and reply.
fn golden(text: &str) -> impl Iterator<Item = (&str, Vec<u8>, Vec<u8>)> {
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    };
    text.lines().map(move |line| {
        let [name, call, reply] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        (name, bytes(call), bytes(reply))
    })
}

#[test]
fn captured_calls_of_a_security_context() {
    let mut found = Vec::new();
    for (name, call, reply) in golden(include_str!("../golden-nfs/gss.txt")) {
        let Ok(Message::Call(call)) = Message::parse(&call[4..]) else { panic!("{name}") };
        let Ok(Message::Reply(reply)) = Message::parse(&reply[4..]) else { panic!("{name}") };
        let Credential::Gss(gss) = call.credential else { panic!("{name}") };
        let results = call.credential.protection().open(reply.results.unwrap()).map(|results| status(results).unwrap());
        let operations = call.arguments.map(|arguments| Compound::parse(arguments).unwrap().operations);
        found.push((name, gss.is_data, gss.number, gss.context.len(), operations, results));
    }
    let expected = [
        ("init", false, 0, 0, None, None),
        ("krb5", true, 0, 16, Some(3), Some(0)),
        ("krb5i", true, 1, 16, Some(3), Some(0)),
        ("krb5p", true, 2, 16, None, None),
    ];
    assert_eq!(found, expected);
}

#[test]
fn captured_compounds() {
    let mut found = Vec::new();
    for (name, call, reply) in golden(include_str!("../golden-nfs/v4.txt")) {
        let Ok(Message::Call(call)) = Message::parse(&call[4..]) else { panic!("{name}") };
        let Ok(Message::Reply(reply)) = Message::parse(&reply[4..]) else { panic!("{name}") };
        let compound = Compound::parse(call.arguments.unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
        let results = reply.results.unwrap();
        let ops: u32 = name.rsplit_once(':').unwrap().1.parse().unwrap();
        assert_eq!((compound.operations, compound.is_cut), (ops, false), "{name}");
        if compound.reads > 0 {
            assert_eq!((compound_moved(results), compound.read >= 3000), (Ok(3000), true), "{name}");
        }
        assert!([0, 3000].contains(&compound.written), "{name}");
        assert_eq!(compound_stored(results).is_ok(), compound.written > 0, "{name}");
        assert_eq!(compound.listing > 0, name.starts_with("readdir"), "{name}");
        assert_eq!(compound_listed(results) > 0, name.starts_with("readdir"), "{name}");
        assert!(status(results).is_ok());
        found.push((compound.reads, compound.written > 0, compound.listing > 0, compound.is_work));
    }
    for expected in [(1, false, false, true), (0, true, false, true), (0, false, true, true), (0, false, false, false)]
    {
        assert!(found.contains(&expected), "{expected:?}");
    }
}

#[test]
fn what_is_walked_to_its_end_and_what_is_not() {
    let parse = |ops: &[Vec<u8>]| {
        let bytes = compound(ops);
        let found = Compound::parse(&bytes).unwrap();
        (found.is_work, found.is_cut, found.read)
    };
    let (sequence, renewal, unknown) = (words(&[53, 0, 0, 0, 0, 1, 1, 1, 1]), words(&[30, 0, 1]), words(&[42, 9]));
    assert_eq!(parse(std::slice::from_ref(&sequence)), (false, false, 0));
    assert_eq!(parse(&[renewal]), (false, false, 0));
    assert_eq!(parse(std::slice::from_ref(&unknown)), (false, false, 0), "EXCHANGE_ID is alone");
    assert_eq!(parse(&[sequence.clone(), unknown, read(0, 9)]), (false, true, 0), "who knows what follows it");
    assert_eq!(parse(&[sequence, put_handle(b"h"), words(&[99]), read(0, 9)]), (true, true, 0));
}

/// Clients ask for attributes behind the data of a WRITE, which a reader may leave in its socket.
#[test]
fn a_little_behind_data_that_is_not_there_is_not_needed() {
    let getattr = words(&[9, 2, 7, 7]);
    let commit = words(&[5, 0, 1, 2]);
    let [close, set] = [words(&[4, 1, 9, 9, 9, 9]), words(&[34, 9, 9, 9, 9, 0, 0])];
    let ops = |behind: &[Vec<u8>]| [&[put_handle(b"h"), write(5, &[1; 999])], behind].concat();
    for (behind, is_little) in [
        (vec![], true),
        (vec![getattr.clone()], true),
        (vec![commit], true),
        (vec![getattr.clone(), getattr], false),
        (vec![close], false),
        (vec![set], false),
        (vec![read(0, 9)], false),
        (vec![write(0, &[])], false),
    ] {
        let bytes = compound(&ops(&behind));
        let (start, whole) = (Compound::parse(&bytes[..100]).unwrap(), Compound::parse(&bytes).unwrap());
        let unread = bytes.len() - 100;
        assert_eq!((start.is_known(unread), whole.is_known(0), whole.missing), (is_little, true, 0), "{behind:?}");
        if is_little {
            assert_eq!(Compound { missing: 0, is_cut: false, ..start }, whole, "{behind:?}");
        }
    }
    let bytes = compound(&ops(&[words(&[10])]));
    let start = Compound::parse(&bytes[..100]).unwrap();
    assert!(!start.is_known(start.missing - 1), "not even the data will be there");
}

#[test]
fn the_only_write_that_may_be_stored_later_says_where() {
    let unstable_at = |ops: &[Vec<u8>]| {
        let bytes = compound(ops);
        let at = Compound::parse(&bytes).unwrap().unstable_at;
        assert!(at.is_none_or(|at| bytes[at..].starts_with(&[0, 0, 0, 0, 0, 0, 0, 9])), "{at:?}");
        at.is_some()
    };
    let (later, mut stable) = (write(5, &[1; 9]), write(5, &[1; 9]));
    stable[7 * 4 + 3] = 2;
    assert!(unstable_at(&[put_handle(b"handle"), later.clone()]));
    assert!(unstable_at(&[put_handle(b"handle"), later.clone(), words(&[9, 2, 7, 7])]));
    assert!(!unstable_at(&[put_handle(b"handle"), stable]));
    assert!(!unstable_at(&[put_handle(b"handle"), later.clone(), later]));
}

#[test]
fn the_results_of_a_write_say_whether_it_is_stored() {
    let results = |ops: &[Vec<u8>]| {
        [words(&[0]), opaque(b""), words(&[u32::try_from(ops.len()).unwrap()]), ops.concat()].concat()
    };
    let stored = |committed| compound_stored(&results(&[words(&[22, 0]), words(&[38, 0, 5, committed, 1, 2])]));
    assert_eq!([0, 1, 2].map(|committed| stored(committed).unwrap()), [false, true, true]);
    assert!(compound_stored(&results(&[words(&[22, 0]), words(&[38, 5])])).is_err());
}

#[test]
fn ten_thousand_operations() {
    let ops = vec![read(0, 1000); 10_000];
    let bytes = [4096, 10_000].map(|count| compound(&ops[..count]));
    let [most, more] = bytes.each_ref().map(|bytes| Compound::parse(bytes).unwrap());
    assert_eq!((most.reads, most.read, most.is_cut), (4096, 4_096_000, false));
    assert_eq!((more.reads, more.operations, more.is_cut), (4096, 10_000, true));
    let claimed = [opaque(b""), words(&[1, u32::MAX])].concat();
    assert!(Compound::parse(&claimed).unwrap().is_cut);
}

#[test]
fn the_results_of_a_read_are_found() {
    let results = |ops: &[Vec<u8>]| {
        [words(&[0]), opaque(b""), words(&[u32::try_from(ops.len()).unwrap()]), ops.concat()].concat()
    };
    let sequence = [words(&[53, 0]), words(&[0; 9])].concat();
    let attributes = [words(&[9, 0, 1, 1]), opaque(b"12345678")].concat();
    let read = [words(&[25, 0, 1]), opaque(b"hello")].concat();
    let before = [sequence, words(&[22, 0]), attributes];
    assert_eq!(compound_moved(&results(&[&before[..], std::slice::from_ref(&read)].concat())), Ok(5));
    assert!(compound_moved(&results(&[words(&[22, 10_001]), read.clone()])).is_err());
    assert!(compound_moved(&results(&[words(&[18, 0]), read])).is_err(), "the results of OPEN are not walked");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_operations_are_walked(
        text in proptest::collection::vec(any::<u8>(), 0..300), picks in proptest::collection::vec(0..200_usize, 0..40),
        handle in proptest::collection::vec(any::<u8>(), 1..=128),
    ) {
        let others = others(&text);
        let (mut reads, mut written, mut ops) = (0, 0, vec![put_handle(&handle)]);
        for pick in picks {
            ops.push(match pick {
                0..40 => {
                    reads += 1;
                    read(pick.try_into().unwrap(), 100)
                }
                40..80 => {
                    written += text.len() as u64;
                    write(pick.try_into().unwrap(), &text)
                }
                _ => others[pick % others.len()].clone(),
            });
        }
        let bytes = compound(&ops);
        let found = Compound::parse(&bytes).unwrap();
        prop_assert!(!found.is_cut);
        prop_assert_eq!((found.reads, found.read, found.written), (reads, u64::from(reads) * 100, written));
        prop_assert_eq!((found.file, found.data.is_some()), (Some(&handle[..]), reads > 0 || written > 0));
        for end in 0..bytes.len() {
            if let Ok(cut) = Compound::parse(&bytes[..end]) {
                prop_assert!(cut.reads <= found.reads && cut.written <= found.written);
            }
        }
    }
}

#[test]
fn each_operation_is_walked_alone() {
    for op in others(b"a name") {
        let bytes = compound(&[op.clone(), read(0, 7)]);
        let found = Compound::parse(&bytes).unwrap();
        assert_eq!((found.is_cut, found.read), (false, 7), "{op:?}");
    }
}
