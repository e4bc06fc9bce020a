//! Every access with every element, masked by the author, by the strip, by both and by neither; memory ends at the last element
//! that may be touched.

use salient_vector::eval::{Arg, Memory};
use salient_vector::{Body, Builder, Elem, I32, Mask, Place, Ptr};

use crate::harness::{Compiled, targets};

#[derive(Clone, Copy, PartialEq, Debug)]
enum Masked {
    No,
    First,
    Loaded,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Spread {
    Unit,
    One,
    Strided,
    Indexed,
}

const ELEMS: [Elem; 4] = [Elem::F32, Elem::F16, Elem::I32, Elem::Bool];
const MASKS: [Masked; 3] = [Masked::No, Masked::First, Masked::Loaded];
const SPREADS: [Spread; 4] = [Spread::Unit, Spread::One, Spread::Strided, Spread::Indexed];

/// What is stored of elements that are loaded: halves are so as floats.
fn stored(elem: Elem) -> Elem {
    match elem {
        Elem::F16 => Elem::F32,
        Elem::F32 | Elem::I32 | Elem::Bool => elem,
    }
}

/// Copies through one kind of load and one kind of store. The mask is of the load or of the store.
fn body_of(elem: Elem, load: Spread, store: Spread, masked: Masked, mask_load: bool) -> Body {
    let mut b = Builder::new("copy");
    let (x, index, keep) = (b.input("x"), b.input("index"), b.input("keep"));
    let y = b.output("y");
    let (n, stride, bound) = (b.int_param("n"), b.int_param("stride"), b.int_param("bound"));
    b.lanes(n, (), |b, i, ()| {
        let spread = |b: &mut Builder, p: Ptr, how: Spread| -> Place {
            match how {
                Spread::Unit => p.at(i),
                Spread::One => p.at(i).one(),
                Spread::Strided => {
                    let start = b.mul(i, stride);
                    p.at(start).strided(stride)
                }
                Spread::Indexed => {
                    let ix = b.load::<I32>(index.at(i));
                    p.at_start().indexed(ix, stride)
                }
            }
        };
        let mask = match masked {
            Masked::No => None,
            Masked::First => Some(b.first(bound)),
            Masked::Loaded => Some(b.load::<Mask>(keep.at(i))),
        };
        let (mut from, mut to) = (spread(b, x, load), spread(b, y, store));
        if let Some(mask) = mask {
            if mask_load {
                from = from.masked(mask);
            } else {
                to = to.masked(mask);
            }
        }
        let value = b.load_elem(elem, from);
        b.store_elem(stored(elem), to, value);
    });
    b.finish()
}

fn buffer(memory: &mut Memory, elem: Elem, elems: usize, seed: u8) -> Arg {
    let bytes = elems * elem.size() as usize;
    memory.add((0..bytes).map(|at| (at as u8).wrapping_mul(37).wrapping_add(seed) % 3 * 85).collect())
}

#[test]
fn every_access_touches_what_it_may_and_nothing_else() {
    for elem in ELEMS {
        for (load, store) in SPREADS.iter().flat_map(|&a| SPREADS.map(|b| (a, b))) {
            for (masked, mask_load) in MASKS.iter().flat_map(|&m| [true, false].map(|l| (m, l))) {
                let body = body_of(elem, load, store, masked, mask_load);
                for target in targets() {
                    let compiled = Compiled::new(&body, &target);
                    let lanes = compiled.lanes() as i64;
                    for n in [0, 1, lanes - 1, lanes, lanes + 1, 2 * lanes + 3] {
                        for (stride, bound) in [(1, lanes), (3, 2), (2, 0)] {
                            let size = (n as usize * stride as usize + 1)
                                .saturating_sub(stride as usize)
                                .min(if n == 0 { 0 } else { usize::MAX });
                            let mut memory = Memory::default();
                            let index: Vec<i32> = (0..n as i32).map(|i| n as i32 - 1 - i / 2).collect();
                            // Where the mask is false the index is wild: it must not be followed.
                            let keep: Vec<u8> = (0..n).map(|i| u8::from(i % 5 != 0 && i != 2)).collect();
                            let wild = masked == Masked::Loaded && mask_load && store != Spread::Indexed;
                            let index: Vec<i32> = index
                                .iter()
                                .zip(&keep)
                                .map(|(&at, &keep)| if wild && keep == 0 { i32::MAX - at } else { at })
                                .collect();
                            let x = buffer(&mut memory, elem, size.max(n as usize), 1);
                            let index = memory.add_i32(&index);
                            let keep = memory.add(keep);
                            let y = buffer(&mut memory, stored(elem), size.max(n as usize), 2);
                            let args = [x, index, keep, y, Arg::Int(n), Arg::Int(stride), Arg::Int(bound)];
                            compiled.agrees(&args, &memory);
                        }
                    }
                }
            }
        }
    }
}

/// The rows of either side lie further apart than they are wide; memory ends at the last word.
#[test]
fn matrices_are_transposed() {
    let mut b = Builder::new("transpose");
    let (x, y) = (b.input("x"), b.output("y"));
    let [rows, columns, from_row, to_row] =
        ["rows", "columns", "from_row", "to_row"].map(|name| b.int_param(name));
    b.transpose((x, from_row), (y, to_row), (rows, columns));
    let body = b.finish();
    for target in targets() {
        let compiled = Compiled::new(&body, &target);
        let lanes = compiled.lanes();
        let counts = [0, 1, 3, lanes - 1, lanes, lanes + 1, 3 * lanes + 2];
        for (rows, columns) in counts[..5].iter().flat_map(|rows| counts.map(|columns| (*rows, columns))) {
            for (beside_from, beside_to) in [(0, 0), (5, 3)] {
                let (from_row, to_row) = (columns + beside_from, rows + beside_to);
                let size = |rows: usize, row: usize, width: usize| {
                    if rows * width == 0 { 0 } else { (rows - 1) * row + width }
                };
                let mut memory = Memory::default();
                let words: Vec<i32> =
                    (0..size(rows, from_row, columns) as i32).map(|at| at * 7 + 1).collect();
                let x = memory.add_i32(&words);
                let y = memory.add_i32(&vec![-1; size(columns, to_row, rows)]);
                let ints = [rows, columns, from_row, to_row].map(|int| Arg::Int(int as i64));
                compiled.agrees(&[vec![x, y], ints.to_vec()].concat(), &memory);
            }
        }
    }
}

#[test]
fn every_half_is_widened_exactly() {
    let mut b = Builder::new("widen");
    let (x, y) = (b.input("x"), b.output("y"));
    let n = b.int_param("n");
    b.lanes(n, (), |b, i, ()| {
        let value = b.load_halves(x.at(i));
        b.store(y.at(i), value);
    });
    let body = b.finish();
    let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let count = halves.len() / 2;
    for target in targets() {
        let mut memory = Memory::default();
        let args = [memory.add(halves.clone()), memory.add(vec![0; 4 * count]), Arg::Int(count as i64)];
        Compiled::new(&body, &target).agrees(&args, &memory);
    }
}

#[test]
fn integers_are_loaded_from_memory() {
    let mut b = Builder::new("gather_row");
    let (ids, table, flags) = (b.input("ids"), b.input("table"), b.input("flags"));
    let y = b.output("y");
    let (which, width) = (b.int_param("which"), b.int_param("width"));
    let id = b.load_int(Elem::I32, ids.at(which));
    let flag = b.load_int(Elem::Bool, flags.at(which));
    let id = b.add(id, flag);
    let start = b.mul(id, width);
    let row = b.address(Elem::I32, table.at(start));
    b.lanes(width, (), |b, i, ()| {
        let v = b.load::<I32>(row.at(i));
        b.store(y.at(i), v);
    });
    let body = b.finish();
    for target in targets() {
        let compiled = Compiled::new(&body, &target);
        for (which, width) in [(0, 5), (1, 5), (2, 4)] {
            let mut memory = Memory::default();
            let ids = memory.add_i32(&[2, 0, -1]);
            let table = memory.add_i32(&(0..20).collect::<Vec<i32>>());
            let flags = memory.add(vec![0, 9, 1]);
            let y = memory.add(vec![0; 4 * width as usize]);
            compiled.agrees(&[ids, table, flags, y, Arg::Int(which), Arg::Int(width)], &memory);
        }
    }
}
