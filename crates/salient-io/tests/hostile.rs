//! Files that lie: none may panic, none may make the reader reserve what is not there.

mod common;

use std::io::Cursor;
use std::path::Path;

use common::{
    assert_same, npy_bytes, safetensors_bytes, small_gguf, small_npz, small_safetensors, zip_bytes,
};
use salient_io::{
    Arrays, Cause, IoError, decode_arrays, decode_contents, decode_npy, decode_npz, decode_safetensors,
    encode_npy, read_arrays, read_bytes, read_contents, read_data, read_gguf, read_gguf_coded, read_npy,
    read_npz, read_safetensors, read_text, read_wanted, write_npy, write_npz,
};
use salient_ir::DType;
use salient_ir::array::{Array, ArrayError};
use zip::CompressionMethod::{Deflated, Stored};

/// A small valid file of every format.
fn valid_files() -> Vec<(&'static str, Vec<u8>)> {
    let npy = encode_npy(&Array::from_f32(vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]).unwrap()).unwrap();
    vec![
        ("npy", npy),
        ("stored npz", small_npz(Stored)),
        ("deflated npz", small_npz(Deflated)),
        ("safetensors", small_safetensors()),
        ("gguf", small_gguf()),
    ]
}

fn decode(bytes: &[u8]) -> Result<Arrays, IoError> {
    decode_arrays(Cursor::new(bytes), "a")
}

#[test]
fn every_truncation_is_refused() {
    for (format, bytes) in valid_files() {
        assert!(decode(&bytes).is_ok(), "{format}");
        for length in 0..bytes.len() {
            let result = decode(&bytes[..length]);
            assert!(result.is_err(), "{format}: {length} of {} bytes were read", bytes.len());
            let listed = decode_contents(Cursor::new(&bytes[..length]), "a");
            assert!(listed.is_err(), "{format}: {length} of {} bytes were listed", bytes.len());
        }
    }
}

/// An archive is found from its end, and readers of archives forgive what follows it; GGUF pads its tensors; the others
/// say how much is left.
#[test]
fn bytes_at_the_end_are_noticed() {
    for (format, bytes) in valid_files() {
        let mut longer = bytes.clone();
        longer.extend_from_slice(&[0; 3]);
        match decode(&longer) {
            Ok(arrays) => {
                assert!(format.contains("npz") || format == "gguf");
                assert_same(&arrays, &decode(&bytes).unwrap());
            }
            Err(error) => assert!(matches!(error.cause, Cause::Trailing { extra: 3 }), "{format}: {error}"),
        }
    }
}

/// Every single byte set to a few values, then many random changes: an error or arrays, never a panic, and arrays
/// never larger than the file could hold.
#[test]
fn changed_bytes_never_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    for (format, bytes) in valid_files() {
        let check = |changed: &[u8]| {
            drop(decode_contents(Cursor::new(changed), "a"));
            if let Ok(arrays) = decode(changed) {
                let total: usize = arrays.iter().map(|(_, array)| array.size_in_bytes()).sum();
                assert!(total <= changed.len() * 8, "{format}: {total} bytes of elements");
            }
        };
        for position in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, b'9', b'{', b'('] {
                let mut changed = bytes.clone();
                changed[position] = value;
                check(&changed);
            }
        }
        for _ in 0..5000 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..6) {
                let position = random.usize(0..changed.len());
                changed[position] = random.u8(..);
            }
            changed.truncate(random.usize(bytes.len() / 2..=bytes.len()));
            check(&changed);
        }
    }
}

#[test]
fn wrong_starts_are_named() {
    let message = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(message(b""), "is not an array file: expected npy, npz, safetensors, gguf");
    assert_eq!(message(b"hello, this is text"), "is not an array file: expected npy, npz, safetensors, gguf");
    let npz = |bytes: &[u8]| decode_npz(Cursor::new(bytes)).unwrap_err().to_string();
    assert_eq!(npz(b""), "is not npz: it is empty");
    assert_eq!(npz(b"\x93NUMPY\x01\x00"), "is not npz: it looks like npy");
    assert_eq!(npz(b"hello, this is text"), "is not npz: it starts with the bytes 68 65 6c 6c 6f 2c");
    assert_eq!(decode_npy(b"PK\x03\x04").unwrap_err().to_string(), "is not npy: it looks like npz");
    let checkpoint = |bytes: &[u8]| decode_safetensors(Cursor::new(bytes)).unwrap_err().to_string();
    assert_eq!(checkpoint(b"\x93NUMPY\x01\x00"), "is not safetensors: it looks like npy");
}

#[test]
fn files_and_arrays_are_named() {
    let missing = read_npz("no/such/file.npz").unwrap_err();
    assert!(matches!(missing.cause, Cause::Read(_)));
    assert!(missing.to_string().starts_with("no/such/file.npz: cannot be read: No such file"), "{missing}");
    let folder = read_arrays(env!("CARGO_MANIFEST_DIR")).unwrap_err();
    assert!(matches!(folder.cause, Cause::NotFile { found: "a directory" }), "{folder}");

    let path = common::scratch("hostile.npz");
    let member = npy_bytes("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", &[0; 8]);
    std::fs::write(&path, zip_bytes(&[("in.x.npy", &member)], Stored)).unwrap();
    assert_eq!(
        read_arrays(&path).unwrap_err().to_string(),
        format!(
            "{}: array `in.x`: has elements of type `<c8`, which are not read from npy files; \
             convert them to float32 first",
            path.display()
        )
    );

    let error = write_npy("no/such/folder.npy", &Array::zeros(DType::F32, vec![1]).unwrap()).unwrap_err();
    assert!(matches!(error.cause, Cause::Write(_)), "{error}");
    let mut arrays = Arrays::new();
    arrays.insert("w", Array::zeros(DType::F32, vec![1; 65]).unwrap()).unwrap();
    let before = std::fs::read(&path).unwrap();
    let error = write_npz(&path, &arrays).unwrap_err().to_string();
    assert_eq!(std::fs::read(&path).unwrap(), before, "what cannot be written replaces nothing");
    assert!(error.ends_with("array `w`: has a malformed shape: 65 axes, NumPy has at most 64"), "{error}");
}

#[test]
fn npy_headers_that_claim_too_much_are_refused() {
    let with_shape = |shape: &str| {
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        decode_npy(&npy_bytes(&header, &[0; 8]))
    };
    assert_eq!(with_shape("(2,)").unwrap().shape(), [2]);
    let short = with_shape("(1000000000000,)").unwrap_err();
    assert!(matches!(short, Cause::Short { claimed: 4_000_000_000_000, available: 8, .. }), "{short}");
    for shape in ["(4294967296, 4294967296, 4294967296)", "(18446744073709551615,)"] {
        let error = with_shape(shape).unwrap_err();
        assert!(matches!(error, Cause::Array(ArrayError::TooLarge { .. })), "{error}");
    }
    assert!(matches!(with_shape("(1,)").unwrap_err(), Cause::Trailing { extra: 4 }));
    let empty = "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 18446744073709551615, 9), }";
    let error = decode_npy(&npy_bytes(empty, &[])).unwrap_err();
    assert!(matches!(error, Cause::Array(ArrayError::TooLarge { .. })), "{error}");
    let rank = format!("({})", "1,".repeat(65));
    assert!(matches!(with_shape(&rank).unwrap_err(), Cause::Malformed { .. }));
    // The length of the header lies.
    let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    let error = decode_npy(&bytes).unwrap_err();
    assert!(matches!(error, Cause::Short { claimed: 0xffff_ffff, available: 0, .. }), "{error}");
}

#[test]
fn npy_headers_that_are_not_headers_are_refused() {
    let cases = [
        ("", "expected `{`, found ``"),
        ("{}", "no key `descr`"),
        ("{'descr': '<f4', 'shape': (1,)}", "no key `fortran_order`"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", "unknown key `more`"),
        ("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", "key `descr` twice"),
        ("{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}", "expected True or False"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': 1}", "expected `(`"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "expected an extent, found `-1,"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "20 digits"),
        ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x", "expected the end, found `x`"),
        ("{'descr' '<f4'}", "expected `:`, found `'<f4'}`"),
        ("{'descr", "expected the end of a string"),
    ];
    for (header, problem) in cases {
        let error = decode_npy(&npy_bytes(header, &[0; 4])).unwrap_err();
        assert!(matches!(error, Cause::Malformed { part: "header", .. }), "{header}: {error}");
        assert!(error.to_string().contains(problem), "{header}: {error}");
    }
    // What a recursive parser would need a stack for.
    let nested = format!("{{'descr': {}", "[".repeat(9000));
    assert!(matches!(decode_npy(&npy_bytes(&nested, &[])).unwrap_err(), Cause::ElementType { .. }));
    let nested = "(".repeat(9000);
    assert!(matches!(decode_npy(&npy_bytes(&nested, &[])).unwrap_err(), Cause::Malformed { .. }));
    assert!(decode_npy(b"\x93NUMPY\x04\x00\x00\x00").unwrap_err().to_string().contains("version 4.0"));
}

#[test]
fn element_types_without_counterpart_are_refused() {
    for descr in
        ["'<c8'", "'|S4'", "'<U4'", "'|O'", "'<M8[ns]'", "'|V2'", "'|f4'", "'=f4'", "'f4'", "''", "'é4'"]
    {
        let header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        let error = decode_npy(&npy_bytes(&header, &[0; 16])).unwrap_err();
        assert!(matches!(error, Cause::ElementType { .. }), "{descr}: {error}");
    }
    let structure = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }";
    let error = decode_npy(&npy_bytes(structure, &[0; 4])).unwrap_err().to_string();
    assert!(error.contains("a structure"), "{error}");
}

#[test]
fn values_without_counterpart_are_refused() {
    let read = |descr: &str, elements: &[u8]| {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': (1,), }}");
        decode_npy(&npy_bytes(&header, elements)).unwrap_err()
    };
    assert!(matches!(read("<u8", &u64::MAX.to_le_bytes()), Cause::Integer { index: 0, value: u64::MAX }));
    assert!(matches!(read("|b1", &[2]), Cause::Boolean { index: 0, byte: 2 }));
    let error = read("<f8", &1e300f64.to_le_bytes());
    assert!(matches!(error, Cause::Array(ArrayError::Value { .. })), "{error}");
}

#[test]
fn archives_that_lie_are_refused() {
    // Two names that differ in the suffix only name one array.
    let array = encode_npy(&Array::zeros(DType::F32, vec![1]).unwrap()).unwrap();
    let error = decode_npz(Cursor::new(zip_bytes(&[("a.npy", &array), ("a", &array)], Stored))).unwrap_err();
    assert_eq!(error.to_string(), "array `a`: is there twice");
    // Two members of one name: the archive is put together with another, then renamed in place.
    let mut twice = zip_bytes(&[("a.npy", &array), ("b.npy", &array)], Stored);
    for start in 0..twice.len() - 5 {
        if &twice[start..start + 5] == b"b.npy" {
            twice[start] = b'a';
        }
    }
    let error = decode_npz(Cursor::new(twice)).unwrap_err();
    assert!(matches!(error.cause, Cause::DuplicateMember), "{error}");
    // A member that is no array.
    let error = decode_npz(Cursor::new(zip_bytes(&[("notes.txt", b"hello")], Stored))).unwrap_err();
    assert!(error.to_string().starts_with("array `notes.txt`: is not npy"), "{error}");
    // The checksum of a member does not hold.
    let mut changed = small_npz(Stored);
    let element = changed.windows(4).position(|bytes| bytes == 2.0f32.to_le_bytes()).unwrap();
    changed[element] ^= 1;
    let error = decode_npz(Cursor::new(changed)).unwrap_err();
    assert!(matches!(error.cause, Cause::Malformed { part: "member", .. }), "{error}");
}

/// The directory claims a member of gigabytes; the sizes in it are the last of their kind in the file.
#[test]
fn members_that_claim_too_much_are_refused() {
    let mut bytes = zip_bytes(&[("a.npy", &[0x93])], Stored);
    let entry = bytes.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    bytes[entry + 24..entry + 28].copy_from_slice(&0xffff_fff0u32.to_le_bytes());
    let error = decode_npz(Cursor::new(bytes)).unwrap_err();
    assert!(matches!(error.cause, Cause::Short { part: "a member", claimed: 0xffff_fff0, .. }), "{error}");
}

#[test]
fn checkpoints_that_lie_are_refused() {
    let read = |header: &str, elements: usize| {
        decode_safetensors(Cursor::new(safetensors_bytes(header, &vec![0; elements])))
    };
    let one = |info: &str| format!("{{\"w\":{{{info}}}}}");
    assert!(read(&one(r#""dtype":"F32","shape":[2],"data_offsets":[0,8]"#), 8).is_ok());
    let malformed = [
        // The shape does not take the bytes; the offsets run backwards, leave a gap, overlap; the shape overflows.
        one(r#""dtype":"F32","shape":[3],"data_offsets":[0,8]"#),
        one(r#""dtype":"F32","shape":[2],"data_offsets":[8,0]"#),
        one(r#""dtype":"F32","shape":[1],"data_offsets":[4,8]"#),
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}"#
            .to_owned(),
        one(r#""dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,8]"#),
        one(r#""dtype":"F32","shape":[-1],"data_offsets":[0,8]"#),
        one(r#""dtype":"F33","shape":[2],"data_offsets":[0,8]"#),
        one(r#""dtype":"F32","shape":[2]"#),
        "{".to_owned(),
        "[]".to_owned(),
        "{\"a\":".repeat(100_000),
    ];
    for header in malformed {
        let error = read(&header, 8).unwrap_err();
        let start: String = header.chars().take(100).collect();
        assert!(matches!(error.cause, Cause::Malformed { part: "header", .. }), "{start}: {error}");
    }
    let error = read(&one(r#""dtype":"F32","shape":[250000000000],"data_offsets":[0,1000000000000]"#), 8)
        .unwrap_err();
    assert!(matches!(error.cause, Cause::Short { claimed: 1_000_000_000_000, available: 8, .. }), "{error}");
    // Sizes that only overflow together.
    let tensors: Vec<String> = (0..7u64)
        .map(|i| {
            let (size, start) = ((1u64 << 61) - 1, i * ((1u64 << 61) - 1));
            format!(r#""{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{start},{}]}}"#, start + size)
        })
        .collect();
    let error = read(&format!("{{{}}}", tensors.join(",")), 8).unwrap_err();
    assert!(matches!(error.cause, Cause::Short { .. }), "{error}");
    let error = read(&one(r#""dtype":"F32","shape":[1],"data_offsets":[0,4]"#), 8).unwrap_err();
    assert!(matches!(error.cause, Cause::Trailing { extra: 4 }), "{error}");
    let error = read(&one(r#""dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8]"#), 8).unwrap_err();
    assert_eq!(
        error.to_string(),
        "array `w`: has elements of type F8_E4M3, which are not read from safetensors files; \
         convert them to float32 first"
    );
    // The length of the header lies.
    let mut bytes = safetensors_bytes("{}", &[]);
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let error = decode_safetensors(Cursor::new(bytes)).unwrap_err();
    assert!(matches!(error.cause, Cause::Short { claimed: u64::MAX, available: 2, .. }), "{error}");
}

/// What every reader says of a path.
fn said_by_all(path: &Path) -> Vec<(&'static str, IoError)> {
    let shard = common::scratch("not_files.safetensors.index.json");
    std::fs::write(&shard, "{\"weight_map\": {\"w\": \"shard\"}}").unwrap();
    let index = common::scratch("not_files_index.safetensors.index.json");
    for (link, target) in [(shard.with_file_name("shard"), path), (index.clone(), path)] {
        drop(std::fs::remove_file(&link));
        std::os::unix::fs::symlink(target, &link).unwrap();
    }
    vec![
        ("arrays", read_arrays(path).unwrap_err()),
        ("contents", read_contents(path).unwrap_err()),
        ("npy", read_npy(path).unwrap_err()),
        ("npz", read_npz(path).unwrap_err()),
        ("safetensors", read_safetensors(path).unwrap_err()),
        ("gguf", read_gguf(path).unwrap_err()),
        ("coded gguf", read_gguf_coded(path).unwrap_err()),
        ("data", read_data(path).unwrap_err()),
        ("shard", read_arrays(&shard).unwrap_err()),
        ("listed shard", read_contents(&shard).unwrap_err()),
        ("index", read_arrays(&index).unwrap_err()),
        ("text", read_text(path, 1000).unwrap_err()),
        ("bytes", read_bytes(path, 1000).unwrap_err()),
    ]
}

/// A device has no end, a pipe perhaps no writer, and a directory no bytes: none of them is opened.
#[test]
fn what_is_no_file_is_not_read() {
    let pipe = common::scratch("pipe");
    drop(std::fs::remove_file(&pipe));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let socket = common::scratch("socket");
    drop(std::fs::remove_file(&socket));
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (path, kind) in [
        (folder, "a directory"),
        (Path::new("/dev/zero"), "a device or a socket"),
        (pipe.as_path(), "a pipe"),
        (socket.as_path(), "a device or a socket"),
    ] {
        for (reader, error) in said_by_all(path) {
            assert!(matches!(error.cause, Cause::NotFile { found } if found == kind), "{reader}: {error}");
            assert!(
                error.to_string().ends_with(&format!("cannot be read: it is {kind}, not a file")),
                "{error}"
            );
        }
    }
}

#[test]
fn texts_have_a_limit_and_no_mark() {
    let path = common::scratch("text");
    std::fs::write(&path, b"\xef\xbb\xbfabc").unwrap();
    assert_eq!(read_text(&path, 6).unwrap(), "abc");
    let error = read_text(&path, 5).unwrap_err();
    assert_eq!(error.to_string(), format!("{}: is too long: at most 5 bytes are read", path.display()));
    std::fs::write(&path, b"ab\xff").unwrap();
    let error = read_text(&path, 9).unwrap_err().to_string();
    assert!(error.ends_with("cannot be read: it is not UTF-8 (at byte 2)"), "{error}");
}

/// The member of an array of zeros of that many bytes, without ever having them: deflated, they are one block again and again.
fn zeros(bytes: usize) -> Vec<u8> {
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({bytes},), }}");
    npy_bytes(&header, &vec![0; bytes])
}

#[test]
fn only_what_is_asked_for_is_unpacked() {
    let small = encode_npy(&Array::from_f32(vec![1], vec![7.0]).unwrap()).unwrap();
    let mut archive = zip_bytes(&[("bomb.npy", &zeros(1 << 20)), ("x.npy", &small)], Deflated);
    // A bomb that does not even unpack.
    let start = archive.windows(4).position(|bytes| bytes == b"PK\x03\x04").unwrap();
    archive[start + 60..start + 200].fill(0xff);
    let path = common::scratch("bomb.npz");
    std::fs::write(&path, &archive).unwrap();
    assert!(read_arrays(&path).is_err());
    let read = read_wanted(&path, &|name| name == "x").unwrap();
    assert_eq!(read.get("x").unwrap().as_f32(), Some([7.0].as_slice()));
    assert_eq!((read.len(), read.passed_over()), (1, &["bomb".to_owned()][..]));

    let checkpoint = common::scratch("wanted.safetensors");
    std::fs::write(&checkpoint, small_safetensors()).unwrap();
    let blocks = common::scratch("wanted.gguf");
    std::fs::write(&blocks, small_gguf()).unwrap();
    for (path, [wanted, other]) in [(checkpoint, ["b", "a"]), (blocks, ["q", "w"])] {
        let (all, some) = (read_arrays(&path).unwrap(), read_wanted(&path, &|name| name == wanted).unwrap());
        assert!(some.get(wanted).unwrap().same_bits(all.get(wanted).unwrap()));
        assert_eq!((some.len(), some.passed_over()), (1, &[other.to_owned()][..]));
    }
}

/// Two members that claim three gigabytes each in the directory, and no more than deflate can make of so long a file.
#[test]
fn compressed_members_are_unpacked_up_to_a_limit() {
    let mut archive = zip_bytes(&[("a.npy", &zeros(1000)), ("b.npy", &zeros(1000))], Deflated);
    let entries: Vec<usize> =
        (0..archive.len() - 4).filter(|at| archive[*at..*at + 4] == *b"PK\x01\x02").collect();
    for entry in entries {
        archive[entry + 24..entry + 28].copy_from_slice(&(3u32 << 30).to_le_bytes());
    }
    let read = |archive: &[u8], wanted: &dyn Fn(&str) -> bool| {
        let path = common::scratch("unpacked.npz");
        // What stands before an archive counts as its length.
        let padding = [b"PK\x05\x06".as_slice(), &vec![0; 4 << 20]].concat();
        std::fs::write(&path, [&padding, archive].concat()).unwrap();
        read_wanted(&path, wanted).map(|arrays| arrays.len())
    };
    let error = read(&archive, &|_| true).unwrap_err();
    assert!(matches!(error.cause, Cause::Unpacked { most: 0x1_0000_0000 }), "{error}");
    assert_eq!(error.array.as_deref(), Some("b"));
    // One of them is within the limit, and its header says otherwise than the directory.
    let error = read(&archive, &|name| name == "b").unwrap_err();
    assert!(matches!(error.cause, Cause::Trailing { .. }), "{error}");
    assert_eq!(read(&archive, &|_| false).unwrap(), 0);
}
