//! Views of RPC and NFSv3 against another implementation of the protocol, on captured and on generated messages, and on
//! bytes of any kind.

use std::fs;
use std::path::Path;

use nfs3_types::nfs3::{
    Nfs3Option, Nfs3Result, READ3args, READ3resfail, READ3resok, READDIRPLUS3args, READDIRPLUS3resfail,
    READDIRPLUS3resok, WRITE3args, WRITE3resfail, WRITE3resok, cookieverf3, dirlistplus3, entryplus3, fattr3,
    filename3, nfs_fh3, nfsstat3, stable_how, wcc_data, writeverf3,
};
use nfs3_types::rpc::{auth_flavor, auth_unix, call_body, msg_body, opaque_auth, rpc_msg};
use nfs3_types::xdr_codec::{List, Opaque, Pack, Unpack};
use proptest::prelude::*;
use vpfs_protocol::wire::DecodeError;
use vpfs_protocol::wire::nfs::{
    Access, Call, Compound, Credential, MAX_RECORD, Message, Moved, Record, Reply, compound_listed, compound_moved,
    compound_stored, listed, moved, status,
};

use crate::fuzz;

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

const V3: &str = include_str!("../../golden-nfs/v3.txt");
fn pack(value: &impl Pack) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.pack(&mut bytes).unwrap();
    bytes
}

/// A record of fragments as long as these, and of one with the rest.
fn record(message: &[u8], fragments: &[usize]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), message);
    for len in fragments {
        let (fragment, left) = rest.split_at((*len).min(rest.len()));
        bytes.extend(u32::try_from(fragment.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(fragment);
        rest = left;
    }
    bytes.extend((u32::try_from(rest.len()).unwrap() | 1 << 31).to_be_bytes());
    bytes.extend_from_slice(rest);
    bytes
}

fn message(bytes: &[u8]) -> &[u8] {
    let record = Record::parse(bytes).unwrap();
    assert_eq!((record.len, record.message_len()), (bytes.len(), bytes.len() - 4));
    &bytes[4..]
}

fn call(message: &[u8]) -> Call<'_> {
    let Ok(Message::Call(call)) = Message::parse(message) else { panic!("a call") };
    call
}

fn reply(message: &[u8]) -> Reply<'_> {
    let Ok(Message::Reply(reply)) = Message::parse(message) else { panic!("a reply") };
    reply
}

#[test]
fn captured_calls_are_what_another_decoder_says() {
    for (name, bytes, _) in golden(V3) {
        let call = call(message(&bytes));
        let (theirs, len) = rpc_msg::unpack(&mut &bytes[4..]).unwrap();
        let msg_body::CALL(body) = theirs.body else { panic!("{name}") };
        let numbers = (call.xid, call.program, call.version, call.procedure);
        assert_eq!(numbers, (theirs.xid, body.prog, body.vers, body.proc), "{name}");
        assert_eq!(call.arguments, Some(&bytes[4 + len..]), "{name}");
        let Credential::Sys(user) = call.credential else { panic!("{name}") };
        let (theirs, _) = auth_unix::unpack(&mut &body.cred.body[..]).unwrap();
        assert_eq!((user.uid, user.gids().collect()), (theirs.uid, [vec![theirs.gid], theirs.gids].concat()), "{name}");
    }
}

#[test]
fn captured_accesses_and_replies() {
    let found: Vec<_> = golden(V3).filter(|(name, ..)| !name.starts_with("MOUNT")).collect();
    assert_eq!(found.len(), 11);
    for (name, sent, answered) in found {
        let (call, reply) = (call(message(&sent)), reply(message(&answered)));
        assert_eq!(call.xid, reply.xid, "{name}");
        let (access, results) =
            (Access::parse(call.procedure, call.arguments.unwrap()).unwrap(), reply.results.unwrap());
        match (name, access) {
            ("NULL", Access::Null) => continue,
            ("READ", Access::Read { offset: 0, count, .. }) => {
                assert!(count >= 100);
                assert_eq!(moved(false, results), Ok(Moved { count: 100, size: Some(100), is_stored: false }));
            }
            ("WRITE", Access::Write { offset: 0, count: 100, unstable_at: Some(40), .. }) => {
                let is_stored = results[results.len() - 9] > 0;
                assert_eq!(moved(true, results), Ok(Moved { count: 100, size: Some(100), is_stored }));
            }
            ("READDIRPLUS", Access::List { bytes: 8192, is_plus: true, .. }) => assert_eq!(listed(true, results), 3),
            (_, Access::Other { .. }) => {}
            (_, access) => panic!("{name}: {access:?}"),
        }
        assert_eq!(access.file().unwrap().len(), 24, "{name}");
        assert_eq!(status(results), Ok(0), "{name}");
    }
}

/// The call of RFC 5531 for procedure 0, and other versions and programs than NFS.
#[test]
fn replies_without_results() {
    for accept_stat in 1..6_u32 {
        let words = [7, 1, 0, 0, 0, accept_stat, 3, 4];
        let bytes: Vec<u8> = words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect();
        assert_eq!(reply(&bytes).results, None);
    }
    let denied: Vec<u8> = [7_u32, 1, 1, 1, 5].iter().flat_map(|word| word.to_be_bytes()).collect();
    assert_eq!((reply(&denied).xid, reply(&denied).results), (7, None));
}

#[test]
fn records_are_bounded() {
    let parse = |bytes: &[u8]| Record::parse(bytes);
    assert_eq!(parse(&[0x80]), Err(DecodeError::Incomplete { needed: 3 }));
    assert!(matches!(parse(&[0xff; 4]), Err(DecodeError::Malformed { offset: 0, .. })));
    let longest = u32::try_from(MAX_RECORD - 4).unwrap();
    assert_eq!(parse(&(longest | 1 << 31).to_be_bytes()).unwrap().len, MAX_RECORD);
    assert!(parse(&((longest + 1) | 1 << 31).to_be_bytes()).is_err());
    let endless = vec![0; 1 << 20];
    assert!(matches!(parse(&endless), Err(DecodeError::Malformed { .. })), "fragments without data never end");
    let halves = record(&vec![0; MAX_RECORD], &[MAX_RECORD / 2]);
    assert!(matches!(parse(&halves), Err(DecodeError::Malformed { offset, .. }) if offset == MAX_RECORD / 2 + 4));
}

#[test]
fn gss_arguments_are_found_where_they_are_readable() {
    let words = |procedure: u32, service: u32| -> Vec<u8> {
        let words = [9, 0, 2, 100_003, 3, 1, 6, 24, 1, procedure, 5, service, 4, 77, 0, 0, 12, 5, 0xabcd];
        words.iter().flat_map(|word: &u32| word.to_be_bytes()).collect()
    };
    let arguments = |procedure, service| call(&words(procedure, service)).arguments.map(<[u8]>::len);
    assert_eq!([arguments(0, 1), arguments(0, 2), arguments(0, 3)], [Some(12), Some(4), None]);
    assert_eq!(arguments(1, 1), None, "a handshake carries a token");
    let words = words(0, 1);
    let Credential::Gss(gss) = call(&words).credential else { panic!("a security context") };
    assert_eq!((gss.number, gss.context), (5, &77_u32.to_be_bytes()[..]));
}

fn attributes(size: u64) -> fattr3 {
    let (attributes, _) = fattr3::unpack(&mut &[[0, 0, 0, 1]; 21].concat()[..]).unwrap();
    fattr3 { size, ..attributes }
}

fn some_or_none<T: Pack + Unpack>(value: Option<T>) -> Nfs3Option<T> {
    value.map_or(Nfs3Option::None, Nfs3Option::Some)
}

fn handle() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..=64)
}

proptest! {
    #[test]
    fn any_fragments_give_the_same_message(
        message in proptest::collection::vec(any::<u8>(), 0..300),
        fragments in proptest::collection::vec(0_usize..60, 0..20),
        more in proptest::collection::vec(any::<u8>(), 0..10),
    ) {
        let bytes = record(&message, &fragments);
        let found = Record::parse(&[&bytes[..], &more].concat()).unwrap();
        prop_assert_eq!((found.len, found.message_len()), (bytes.len(), message.len()));
        prop_assert_eq!(&*found.message(&bytes), &message[..]);
        for end in 0..bytes.len() {
            match Record::parse(&bytes[..end]) {
                Ok(early) => {
                    prop_assert_eq!(early, found);
                    prop_assert!(message.starts_with(&early.message(&bytes[..end])));
                }
                Err(DecodeError::Incomplete { needed }) => prop_assert!(end + needed <= bytes.len()),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn calls_of_another_encoder(
        xid: u32, uid: u32, gid: u32, gids in proptest::collection::vec(any::<u32>(), 0..=16),
        machine in "[a-z]{0,255}", file in handle(), offset: u64, count: u32,
        data in proptest::collection::vec(any::<u8>(), 0..200), which in 0..3,
    ) {
        let cred = auth_unix { stamp: 1, machinename: Opaque::owned(machine.clone().into_bytes()), uid, gid, gids: gids.clone() };
        let cred = opaque_auth { flavor: auth_flavor::AUTH_UNIX, body: Opaque::owned(pack(&cred)) };
        let handle = nfs_fh3 { data: Opaque::owned(file.clone()) };
        let [read, write, list] = [6, 7, 17];
        let (proc, arguments, expected) = match which {
            0 => {
                let arguments = pack(&READ3args { file: handle, offset, count });
                (read, arguments, Access::Read { file: &file, offset, count })
            }
            1 => {
                let stable = if count % 2 == 0 { stable_how::UNSTABLE } else { stable_how::FILE_SYNC };
                let len = u32::try_from(data.len()).unwrap();
                let arguments = WRITE3args { file: handle, offset, count: len, stable, data: Opaque::owned(data) };
                let unstable_at = (count % 2 == 0).then(|| 4 + file.len().next_multiple_of(4) + 12);
                (write, pack(&arguments), Access::Write { file: &file, offset, count: len, unstable_at })
            }
            _ => {
                let (cookieverf, dircount) = (cookieverf3([7; 8]), 1);
                let arguments = READDIRPLUS3args { dir: handle, cookie: offset, cookieverf, dircount, maxcount: count };
                (list, pack(&arguments), Access::List { file: &file, bytes: count, is_plus: true })
            }
        };
        let body = call_body { rpcvers: 2, prog: 100_003, vers: 3, proc, cred, verf: opaque_auth::default() };
        let mut bytes = pack(&rpc_msg { xid, body: msg_body::CALL(body) });
        bytes.extend_from_slice(&arguments);
        let found = call(&bytes);
        prop_assert_eq!((found.xid, found.procedure), (xid, proc));
        let Credential::Sys(user) = &found.credential else { panic!("a user") };
        prop_assert_eq!((user.machine, user.uid), (&machine[..], uid));
        prop_assert_eq!(user.gids().collect::<Vec<_>>(), [vec![gid], gids].concat());
        prop_assert_eq!(Access::parse(proc, found.arguments.unwrap()), Ok(expected));
        for end in 0..bytes.len() {
            if let Ok(Message::Call(early)) = Message::parse(&bytes[..end]) {
                let access = Access::parse(proc, early.arguments.unwrap());
                let is_cut = matches!(access, Err(DecodeError::Incomplete { .. }));
                prop_assert!(is_cut || access == Ok(expected));
            }
        }
    }

    #[test]
    fn results_of_another_encoder(count: u32, size: Option<u64>, names in proptest::collection::vec("[a-z]{1,40}", 0..30)) {
        let found = size.map(attributes);
        let file_attributes = some_or_none(found.clone());
        let read = READ3resok { file_attributes, count, eof: true, data: Opaque::borrowed(b"data") };
        let read = pack(&Nfs3Result::<_, READ3resfail>::Ok(read));
        prop_assert_eq!((status(&read), moved(false, &read)), (Ok(0), Ok(Moved { count, size, is_stored: false })));
        let file_wcc = wcc_data { before: Nfs3Option::None, after: some_or_none(found.clone()) };
        let is_stored = count % 2 == 0;
        let committed = if is_stored { stable_how::DATA_SYNC } else { stable_how::UNSTABLE };
        let write = WRITE3resok { file_wcc, count, committed, verf: writeverf3([1; 8]) };
        let write = pack(&Nfs3Result::<_, WRITE3resfail>::Ok(write));
        prop_assert_eq!(moved(true, &write), Ok(Moved { count, size, is_stored }));
        let entry = |name: &String| entryplus3 {
            fileid: 1,
            name: filename3(Opaque::owned(name.clone().into_bytes())),
            cookie: 2,
            name_attributes: some_or_none(name.len().is_multiple_of(2).then(|| attributes(1))),
            name_handle: some_or_none(name.len().is_multiple_of(3).then(|| nfs_fh3 { data: Opaque::owned(vec![1; name.len()]) })),
        };
        let entries = List(names.iter().map(entry).collect());
        let reply = dirlistplus3 { entries, eof: true };
        let list = READDIRPLUS3resok { dir_attributes: some_or_none(found), cookieverf: cookieverf3([0; 8]), reply };
        let list = pack(&Nfs3Result::<_, READDIRPLUS3resfail>::Ok(list));
        prop_assert_eq!(listed(true, &list) as usize, names.len());
        prop_assert_eq!(status(&pack(&Nfs3Result::<READ3resok<'_>, _>::Err((nfsstat3::NFS3ERR_IO, READ3resfail::default())))), Ok(5));
    }

    #[test]
    fn damaged_records_do_not_panic(at: usize, changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6)) {
        let golden: Vec<_> = golden(V3).collect();
        let (_, sent, answered) = &golden[at % golden.len()];
        for bytes in [sent, answered] {
            let mut bytes = bytes.clone();
            for (at, value) in &changes {
                let at = at % bytes.len();
                bytes[at] = *value;
            }
            fuzz::rpc(&bytes);
        }
    }
}

#[test]
fn fuzz_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/rpc");
    let entries: Vec<_> = fs::read_dir(corpus).unwrap().collect();
    assert!(!entries.is_empty());
    entries.into_iter().for_each(|entry| fuzz::rpc(&fs::read(entry.unwrap().path()).unwrap()));
}

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

#[test]
fn captured_calls_of_a_security_context() {
    let mut found = Vec::new();
    for (name, call, reply) in golden(include_str!("../../golden-nfs/gss.txt")) {
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
    for (name, call, reply) in golden(include_str!("../../golden-nfs/v4.txt")) {
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
        // A write may be empty.
        let has_data = picks.iter().any(|pick| *pick < 80);
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
        prop_assert_eq!((found.file, found.data.is_some()), (Some(&handle[..]), has_data));
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
