//! Sizes beyond what 32 bits tell apart: refused where lanes would need more, served where they do not. Nothing here has the
//! memory that it speaks of: plans are made from dimensions alone.

use salient::{Engine, Isa, IsaChoice, Options, Sources, fuse, lower, schedule};
use salient_ir::Bindings;
use salient_jit::{Compiled, RunError, Threading};

/// The code of a program in every way of compiling it.
fn ways(program: &str) -> Vec<(String, Compiled)> {
    let mut sources = Sources::new();
    sources.add("limits.attn", program);
    let graph = lower(&sources, &Options::default()).unwrap_or_else(|e| panic!("{e}")).graph;
    let isas = Isa::ALL.into_iter().filter(|isa| *isa <= Isa::detect());
    let ways = isas.flat_map(|isa| [Engine::Unfused, Engine::Jit].map(|engine| (engine, isa)));
    ways.map(|(engine, isa)| {
        let options = Options { engine, isa: IsaChoice::Only(isa), ..Options::default() };
        let program = schedule(&fuse(&graph, &options), &options);
        let options = salient_jit::Options { isa: options.isa, threads: 1, threading: Threading::default() };
        (format!("{engine} on {isa}"), Compiled::new(program, &options).unwrap_or_else(|e| panic!("{e}")))
    })
    .collect()
}

/// The dimensions of a call, and why it is refused, if it is.
type At<'a> = (&'a [(&'a str, i64)], Option<&'a str>);

/// What each way says of a call at these dimensions.
fn binds(program: &str, calls: &[At<'_>]) {
    for (way, compiled) in ways(program) {
        for (dimensions, refusal) in calls {
            let known: Bindings = dimensions.iter().map(|(name, n)| ((*name).into(), *n)).collect();
            match (compiled.bind(&known), refusal) {
                (Ok(_), None) => {}
                (Err(e @ (RunError::TooManyElements { .. } | RunError::WideInteger { .. })), Some(why)) => {
                    assert_eq!(e.to_string(), *why, "{way}: {dimensions:?}");
                }
                (found, _) => panic!("{way}: {dimensions:?}: {:?}, not {refusal:?}", found.map(|_| ())),
            }
        }
    }
}

const MOST: i64 = 1 << 31;

#[test]
fn a_gather_from_more_elements_than_lanes_tell_apart_is_refused() {
    let gather =
        "model m(x: bool[V, D], ids: i64[T]) -> (y: bool[T]) { let y[t: T] = x[ids[t], 0] return y }";
    binds(
        gather,
        &[
            (&[("V", MOST / 2), ("D", 2), ("T", 32)], None),
            (
                &[("V", 45_000), ("D", 50_000), ("T", 32)],
                Some("`x` has 2250000000 elements, and compiled code gathers from at most 2147483648"),
            ),
            (
                &[("V", 3), ("D", 715_827_883), ("T", 1)],
                Some("`x` has 2147483649 elements, and compiled code gathers from at most 2147483648"),
            ),
        ],
    );
}

#[test]
fn an_index_that_is_the_position_of_a_quotient_is_refused_where_it_is_wide() {
    // Rows by remainder and columns by quotient: no stride leads from one element to the next.
    let folded = "model m(x: f32[N, K]) -> (y: f32[N * K / 3]) {
        let y[i: N * K / 3] = x[(i * 3 + 1) % N, (i * 3 + 1) / N]
        return y
    }";
    binds(
        folded,
        &[
            (&[("N", 3), ("K", 1000)], None),
            (
                &[("N", 45_000), ("K", 50_000)],
                Some("`x` has 2250000000 elements, and compiled code gathers from at most 2147483648"),
            ),
        ],
    );
}

#[test]
fn whole_rows_of_a_table_of_any_size_are_copied() {
    // The rows' index is the same along a row: addresses have 64 bits.
    let rows = "model m(table: f32[V, D], ids: i64[T]) -> (y: f32[T, D]) {
        let y[t: T, d: D] = table[ids[t], d]
        return y
    }";
    let big: &[(&str, i64)] = &[("V", 2_000_000), ("D", 4096), ("T", 5)];
    for (way, compiled) in ways(rows).into_iter().filter(|(way, _)| way.starts_with("jit")) {
        let known: Bindings = big.iter().map(|(name, n)| ((*name).into(), *n)).collect();
        compiled.bind(&known).unwrap_or_else(|e| panic!("{way}: {e}"));
    }
}

#[test]
fn contiguous_tensors_of_any_size_are_served() {
    let sizes: &[At<'_>] = &[(&[("T", 70_000), ("D", 70_000)], None), (&[("T", 3 * MOST), ("D", 1)], None)];
    binds("model m(x: f32[T, D]) -> (y: f32[T, D]) { return x * 2 + 1 }", sizes);
    binds("model m(x: f32[T, D]) -> (y: f32[T]) { return sum(x * x) }", sizes);
}

#[test]
fn positions_that_leave_32_bits_are_refused_where_they_are_values() {
    let position = "model m(x: f32[T, D]) -> (y: i64[T, D]) {
        let at[i: T, j: D] = i * D + j
        return at + 0
    }";
    // 65536 times 32768 is 2^31, and the last position one less.
    binds(
        position,
        &[
            (&[("T", 65_536), ("D", 32_768)], None),
            (
                &[("T", 65_537), ("D", 32_768)],
                Some(
                    "an index reaches 2147516415 at D = 32768, T = 65537, which does not fit the 32 bits of \
                     compiled code",
                ),
            ),
        ],
    );
    let greatest = "model m(x: f32[T]) -> (y: i64[]) { return argmax(x) }";
    binds(
        greatest,
        &[
            (&[("T", MOST - 1)], None),
            (
                &[("T", MOST)],
                Some(
                    "an index reaches 2147483648 at T = 2147483648, which does not fit the 32 bits of compiled code",
                ),
            ),
        ],
    );
    let guard =
        "model m(x: f32[T], n: i64[]) -> (y: f32[T]) { let y[t: T] = if t < n then x[t] else 0.0 return y }";
    binds(guard, &[(&[("T", MOST)], None)]);
}

/// Parts of parts: each position of the result is read at a place of its own, and there are 2^60 of them for each of `x`.
#[test]
fn a_tensor_that_is_put_behind_itself_over_and_over_compiles() {
    let doubled = |times: usize| {
        format!(
            "model m(x: f32[T]) -> (y: f32[{} * T]) {{ let y = x for l in 0..{times} {{ y = concat(y, y) }} return y }}",
            1u64 << times
        )
    };
    for (_, compiled) in ways(&doubled(60)) {
        // Nothing is as large as that.
        assert!(compiled.bind(&Bindings::from([("T".into(), 1 << 20)])).is_err());
    }
    binds(&doubled(8), &[(&[("T", 3)], None)]);
}
