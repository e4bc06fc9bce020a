//! What goes wrong at run time is told with the line of the source: indices, sizes, and numbers that are not finite.

mod common;

use common::{Ended, file, npz, salient, words};
use salient::Array;

/// What a call that is refused with this code says.
fn refused(ended: &Ended, code: i32) -> &str {
    assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
    ended.stderr.trim_end()
}

/// Runs a program on spelt-out inputs.
fn run(path: &str, inputs: &[&str], more: &[&str]) -> Ended {
    let inputs = inputs.iter().flat_map(|input| ["--input", input]);
    salient(&["run", path].into_iter().chain(inputs).chain(more.iter().copied()).collect::<Vec<_>>())
}

const ENGINES: [&str; 3] = ["jit", "unfused", "oracle"];

#[test]
fn an_index_outside_its_axis_is_told_with_its_line() {
    let inner = file(
        "index-inner.attn",
        "model pick(table: f32[V, D], ids: i64[T]) -> (total: f32[D]) {\n    let rows[t, d] = table[ids[t], d]\n    return sum[t](exp(rows))\n}\n",
    );
    // In a function of the library it is the line of the call.
    let library = file(
        "index-library.attn",
        "model embed(ids: i64[T]) -> (y: f32[T, 2]) {\n    let shift = 1\n    let rows = embedding[4, 2](ids + shift) as table\n    return rows * 2\n}\n",
    );
    for engine in ENGINES {
        let ended = run(&inner, &["table=[[1,2],[3,4]]", "ids=0,2"], &["--engine", engine]);
        let message = refused(&ended, 1);
        assert!(message.contains("index 2 is outside the axis"), "{engine}: {message}");
        assert!(message.contains("index-inner.attn:2:"), "{engine}: {message}");
        let ended = run(&library, &["ids=1,3"], &["--init", "1", "--engine", engine]);
        let message = refused(&ended, 1);
        assert!(message.contains("index 4 is outside the axis"), "{engine}: {message}");
        assert!(message.contains("index-library.attn:3:"), "{engine}: {message}");
    }
}

#[test]
fn a_size_that_is_refused_is_told_with_its_line() {
    let path = file(
        "sizes.attn",
        "model halves[H = 2](x: f32[T, D], bias: f32[D]) -> (y: f32[T, D]) {\n    require D % H == 0, \"heads are of one width\"\n    require T <= 3, \"short texts only\"\n    return x + bias\n}\n",
    );
    let ended = run(&path, &["x=[[1,2,3]]", "bias=1,2,3"], &[]);
    let message = refused(&ended, 2);
    assert!(message.contains("heads are of one width") && message.contains("sizes.attn:2:"), "{message}");
    let ended = run(&path, &["x=[[1,2],[3,4],[5,6],[7,8]]", "bias=1,2"], &[]);
    let message = refused(&ended, 2);
    assert!(message.contains("short texts only") && message.contains("sizes.attn:3:"), "{message}");
    // What a tensor's declaration says.
    let ended = run(&path, &["x=[[1,2]]", "bias=1,2,3,4"], &[]);
    let message = refused(&ended, 2);
    assert!(message.starts_with("error: input `bias`: axis 0 has length 4, expected D = 2"), "{message}");
    assert!(message.ends_with("sizes.attn:1:35"), "{message}");
    // What a function of the library requires is told with the call.
    let heads = file(
        "sizes-library.attn",
        "model heads(x: f32[B, T, D]) -> (y: f32[B, T, D]) {\n    return multi_head[3](x, x, x)\n}\n",
    );
    let ended = run(&heads, &["x=[[[1,2,3,4]]]"], &["--init", "1"]);
    let message = refused(&ended, 2);
    assert!(message.contains("sizes-library.attn:2:"), "{message}");
    let quotient = file(
        "quotient.attn",
        "model wide(x: f32[T, D]) -> (y: f32[T, D / 2]) {\n    let half[t, d: D / 2] = x[t, d]\n    return half\n}\n",
    );
    let message = run(&quotient, &["x=[[1,2,3]]"], &[]);
    let message = refused(&message, 2);
    assert!(message.contains("D = 3") && message.contains("quotient.attn:"), "{message}");
}

#[test]
fn a_number_that_is_not_finite_is_told_with_its_value_line_and_index() {
    let path = file(
        "finite.attn",
        "model roots(x: f32[T, D]) -> (total: f32[T], y: f32[T, D]) {\n    let root = sqrt(x)\n    let total = sum(root)\n    return total, root * total[.., _]\n}\n",
    );
    for engine in ENGINES {
        let call = |x: &str| run(&path, &[x], &["--check-finite", "--engine", engine]);
        assert_eq!(call("x=[[1,4],[9,16]]").code, Some(0), "{engine}");
        let ended = call("x=[[1,4],[9,-1]]");
        let message = refused(&ended, 1);
        let (value, place) = match engine {
            "oracle" => ("error: the output `total` is NaN at [1]", "finite.attn:3:"),
            // Whichever of the two a kernel stores first.
            _ if message.contains("`root`") => ("error: `root` is NaN at t = 1, d = 1", "finite.attn:2:"),
            _ => ("error: `total` is NaN at t = 1", "finite.attn:3:"),
        };
        assert!(message.starts_with(value) && message.contains(place), "{engine}: {message}");
        // Without the flag it is a result.
        assert_eq!(run(&path, &["x=[[1,4],[9,-1]]"], &["--engine", engine]).code, Some(0));
        let given = Array::from_f32(vec![1, 2], vec![1.0, f32::INFINITY]).unwrap();
        let data = npz(&format!("finite-{engine}.npz"), vec![("x", given)]);
        let ended = words(&format!("run {path} --inputs {data} --check-finite --engine {engine}"));
        let message = refused(&ended, 1);
        assert!(message.starts_with("error: input `x` is inf at [0, 1] ("), "{engine}: {message}");
        assert!(message.ends_with("finite.attn:1:13)"), "{engine}: {message}");
    }
}

/// A temporary that several kernels read is looked at when it is complete, before what is computed from it.
#[test]
fn an_inner_value_is_told_before_the_results_that_it_spoils() {
    let path = file(
        "finite-inner.attn",
        "model inner(x: f32[T, D], w: f32[D, D]) -> (y: f32[T, D], z: f32[T]) {\n    let first = x @ w / x[0, 0]\n    let y = first @ w + first\n    return y, max(y)\n}\n",
    );
    let ended = run(&path, &["x=[[0,1],[2,3]]", "w=[[1,1],[1,1]]"], &["--check-finite"]);
    let message = refused(&ended, 1);
    assert!(message.starts_with("error: `first` is inf at t = 0, "), "{message}");
    assert!(message.ends_with("finite-inner.attn:2:17)"), "{message}");
}

#[test]
fn what_a_mask_writes_is_no_fault() {
    let path = file(
        "finite-mask.attn",
        "model masked(s: f32[T, T], bias: f32[T]) -> (masked: f32[T, T], weights: f32[T, T], y: f32[T]) {\n    let keep[i: T, j: T] = j <= i\n    let masked = if keep then s else -inf\n    let weights = softmax(masked)\n    return masked, weights, log(max(bias, 0))\n}\n",
    );
    for engine in ENGINES {
        let call =
            |bias: &str| run(&path, &["s=[[1,2],[3,4]]", bias], &["--check-finite", "--engine", engine]);
        assert_eq!(call("bias=1,2").code, Some(0), "{engine}: {}", call("bias=1,2").stderr);
        let ended = call("bias=1,0");
        let message = refused(&ended, 1);
        assert!(
            message.contains("is -inf at") && message.contains("finite-mask.attn:5:"),
            "{engine}: {message}"
        );
    }
}

#[test]
fn examples_are_finite() {
    let data = "examples/data/causal_self_attention.npz";
    for engine in ENGINES {
        let ended = words(&format!(
            "run examples/causal_self_attention.attn --data {data} --check --check-finite --engine {engine}"
        ));
        assert_eq!(ended.code, Some(0), "{engine}: {}", ended.stderr);
    }
}
