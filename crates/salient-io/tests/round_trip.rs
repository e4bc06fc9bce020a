//! What is written reads back the same; what others write is read as they mean it.

mod common;

use std::io::Cursor;

use common::{assert_same, npy_bytes, sample_arrays, samples, scratch};
use npyz::WriterBuilder;
use salient_io::{
    Arrays, Cause, decode_npy, decode_npz, encode_npy, read_arrays, read_data, read_npy, split_data,
    write_npy, write_npz, write_safetensors,
};
use salient_ir::DType;
use salient_ir::array::Array;

#[test]
fn every_dtype_survives_npy() {
    for (name, array) in samples().unwrap() {
        let bytes = encode_npy(&array).unwrap();
        // NumPy has no bf16: f32 holds the same numbers.
        let expected = if array.dtype() == DType::BF16 { array.widen().unwrap() } else { array };
        assert!(decode_npy(&bytes).unwrap().same_bits(&expected), "{name}");
    }
}

#[test]
fn files_survive_by_path_whatever_their_extension() {
    let arrays = sample_arrays(false);
    let path = scratch("round_trip.weights");
    write_npz(&path, &arrays).unwrap();
    assert_same(&read_arrays(&path).unwrap(), &arrays);
    assert_eq!(
        read_arrays(&path).unwrap().names().collect::<Vec<_>>(),
        arrays.names().collect::<Vec<_>>(),
        "the order of an archive is kept"
    );

    let arrays = sample_arrays(true);
    write_safetensors(&path, &arrays).unwrap();
    assert_same(&read_arrays(&path).unwrap(), &arrays);

    let path = scratch("alone.npy");
    let array = arrays.get("x").unwrap();
    write_npy(&path, array).unwrap();
    assert!(read_npy(&path).unwrap().same_bits(array));
    assert!(read_arrays(&path).unwrap().get("alone").unwrap().same_bits(array));
}

#[test]
fn equal_arrays_make_equal_files() {
    let written = |name: &str| {
        let path = scratch(name);
        write_npz(&path, &sample_arrays(false)).unwrap();
        let npz = std::fs::read(&path).unwrap();
        write_safetensors(&path, &sample_arrays(true)).unwrap();
        (npz, std::fs::read(&path).unwrap())
    };
    assert_eq!(written("first"), written("second"));
}

#[test]
fn deflated_archives_are_read() {
    let array = Array::from_i32(vec![1000], vec![5; 1000]).unwrap();
    let member = encode_npy(&array).unwrap();
    let bytes = common::zip_bytes(&[("five.npy", &member)], zip::CompressionMethod::Deflated);
    assert!(bytes.len() < member.len() / 4, "the member is compressed");
    assert!(decode_npz(Cursor::new(bytes)).unwrap().get("five").unwrap().same_bits(&array));
}

#[test]
fn npy_agrees_with_another_writer_and_reader() {
    for order in [npyz::Order::C, npyz::Order::Fortran] {
        let values: Vec<f32> = (0..24).map(|i| i as f32 * 0.5 - 3.0).collect();
        let mut bytes = Vec::new();
        let mut writer = npyz::WriteOptions::new()
            .default_dtype()
            .shape(&[2, 3, 4])
            .order(order)
            .writer(&mut bytes)
            .begin_nd()
            .unwrap();
        writer.extend(values.iter().copied()).unwrap();
        writer.finish().unwrap();
        let read = decode_npy(&bytes).unwrap();
        assert_eq!(read.shape(), [2, 3, 4]);
        for i in 0..2 {
            for j in 0..3 {
                for k in 0..4 {
                    let theirs = match order {
                        npyz::Order::C => values[(i * 3 + j) * 4 + k],
                        npyz::Order::Fortran => values[i + 2 * (j + 3 * k)],
                    };
                    assert_eq!(read.as_f32().unwrap()[(i * 3 + j) * 4 + k], theirs);
                }
            }
        }
        let written = encode_npy(&read).unwrap();
        let back = npyz::NpyFile::new(&written[..]).unwrap();
        assert_eq!((back.shape(), back.order()), (&[2, 3, 4][..], npyz::Order::C));
        assert_eq!(back.into_vec::<f32>().unwrap(), read.as_f32().unwrap());
    }
}

/// The element types of NumPy, by what they are read as.
#[test]
fn element_types_are_read_by_the_rule() {
    let read = |descr: &str, elements: &[u8]| {
        let size = descr[2..].parse::<usize>().unwrap();
        let shape = elements.len() / size;
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape},), }}\n");
        let array = decode_npy(&npy_bytes(&header, elements)).unwrap();
        (array.dtype(), array.to_f64_vec())
    };
    assert_eq!(read("<f8", &0.1f64.to_le_bytes()), (DType::F32, vec![f64::from(0.1f32)]));
    assert_eq!(read(">f8", &(-2.5f64).to_be_bytes()), (DType::F32, vec![-2.5]));
    assert_eq!(read(">f4", &1.25f32.to_be_bytes()), (DType::F32, vec![1.25]));
    assert_eq!(read(">f2", &[0x3c, 0x00]), (DType::F16, vec![1.0]));
    assert_eq!(read("<i8", &(-3i64).to_le_bytes()), (DType::I64, vec![-3.0]));
    assert_eq!(read(">i4", &(-3i32).to_be_bytes()), (DType::I32, vec![-3.0]));
    assert_eq!(read("<i2", &(-3i16).to_le_bytes()), (DType::I32, vec![-3.0]));
    assert_eq!(read("|i1", &[0xff, 2]), (DType::I32, vec![-1.0, 2.0]));
    assert_eq!(read("<u8", &7u64.to_le_bytes()), (DType::I64, vec![7.0]));
    assert_eq!(read("<u4", &u32::MAX.to_le_bytes()), (DType::I64, vec![f64::from(u32::MAX)]));
    assert_eq!(read(">u2", &[1, 2]), (DType::I32, vec![258.0]));
    assert_eq!(read("|u1", &[255]), (DType::I32, vec![255.0]));
    assert_eq!(read("|b1", &[1, 0]), (DType::Bool, vec![1.0, 0.0]));
}

/// Versions 2 and 3 have four bytes of header length; Python 2 wrote `L` after long integers.
#[test]
fn other_versions_of_npy_are_read() {
    let header = "{\"shape\":(2L,), \"descr\":\"<i2\",\"fortran_order\":False}";
    for version in [2, 3] {
        let mut bytes = vec![0x93, b'N', b'U', b'M', b'P', b'Y', version, 0];
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        bytes.extend_from_slice(&[1, 0, 2, 0]);
        assert_eq!(decode_npy(&bytes).unwrap().as_i32(), Some(&[1, 2][..]));
    }
}

#[test]
fn recorded_data_files_split_by_prefix() {
    let data = |name: &str| {
        read_data(format!("{}/tests/data/{name}.npz", env!("CARGO_MANIFEST_DIR")))
            .unwrap_or_else(|e| panic!("{e}"))
    };
    let two_ways = data("001_causal_two_ways");
    assert_eq!(two_ways.inputs.names().collect::<Vec<_>>(), ["x"]);
    assert_eq!(
        two_ways.params.names().collect::<Vec<_>>(),
        ["W_query.weight", "W_key.weight", "W_value.weight"]
    );
    assert!(two_ways.outputs.names().all(|name| !name.starts_with("out.")));
    let x = two_ways.inputs.get("x").unwrap();
    assert_eq!(x.shape(), [6, 3]);
    // The first word of the example sentence that the recorded systems share.
    assert_eq!(&x.as_f32().unwrap()[..3], [0.43, 0.15, 0.89]);
    // Rows of attention weights sum to one: the elements are in the right places.
    let weights = two_ways.outputs.get("weights_renormalised").unwrap();
    for row in weights.as_f32().unwrap().chunks_exact(6) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
    }
    assert_eq!(data("001_single_query").inputs.names().collect::<Vec<_>>(), ["x", "query"]);
    assert!(data("001_dropout").params.is_empty());
    assert!(data("004_multi_head_loop").params.get("heads.0.W_Q").is_some());
}

#[test]
fn names_of_data_files_must_say_what_they_are() {
    for name in ["x", "input.x", "in", "in.", "param"] {
        let mut arrays = Arrays::new();
        arrays.insert(name, Array::zeros(DType::F32, vec![1]).unwrap()).unwrap();
        let error = split_data(arrays).unwrap_err();
        assert!(matches!(error.cause, Cause::Prefix { .. }));
        assert_eq!(error.to_string(), format!("array `{name}`: the name must start with in., param., out."));
    }
}

/// The crate of the format reads what is written, and its elements are aligned.
#[test]
fn safetensors_agrees_with_another_reader() {
    let path = scratch("theirs.safetensors");
    let arrays = sample_arrays(true);
    write_safetensors(&path, &arrays).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let theirs = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(theirs.len(), arrays.len());
    for (name, tensor) in theirs.iter() {
        let ours = arrays.get(name).unwrap();
        assert_eq!(tensor.shape(), ours.shape());
        assert_eq!(tensor.data().len(), ours.size_in_bytes());
        let start = tensor.data().as_ptr().addr() - bytes.as_ptr().addr();
        assert!(start.is_multiple_of(ours.dtype().size()), "{name} at {start}");
    }
    assert_eq!(theirs.tensor("ids").unwrap().data()[..8], i64::MIN.to_le_bytes());
}
