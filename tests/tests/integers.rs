//! Integers at the ends of 32 bits: compiled code gives what the interpreter gives, or refuses the call and says what may not
//! fit. Nothing wraps.

use salient::{Array, DType, Options, Sources, lower};
use salient_tests::data::Values;
use salient_tests::ways::{Call, Ways};

const MOST: i64 = i32::MAX as i64;
const LEAST: i64 = i32::MIN as i64;

fn ways(program: &str) -> Ways {
    let mut sources = Sources::new();
    sources.add("integers.attn", program);
    let graph = lower(&sources, &Options::default()).unwrap_or_else(|e| panic!("{e}")).graph;
    Ways::new(&graph).unwrap_or_else(|e| panic!("{e}"))
}

fn call(ways: &Ways, inputs: &[(&str, &str)]) -> Call {
    let mut call = Call { seed: Some(1), ..Call::default() };
    for (name, text) in inputs {
        let port = ways.graph().inputs().iter().find(|p| *p.name == **name).expect("an input of the program");
        let Ok(values @ Values::Literal(..)) = Values::parse(text) else { panic!("{text}: a literal") };
        let Values::Literal(shape, _) = &values else { unreachable!("matched") };
        let array = values.array(port.dtype, shape, name).unwrap_or_else(|e| panic!("{e}"));
        call.inputs.insert(*name, array).expect("named once");
    }
    call
}

/// Every way gives these values for the output `y`.
fn gives(ways: &Ways, inputs: &[(&str, &str)], y: &[i64]) {
    for (way, outputs) in ways.outputs(&call(ways, inputs)).unwrap_or_else(|e| panic!("{e}")) {
        let found = outputs.get("y").expect("the output");
        let wanted: Vec<f64> = y.iter().map(|n| *n as f64).collect();
        assert_eq!(found.to_f64_vec(), wanted, "{way}: {inputs:?}");
    }
}

/// The interpreter gives these values, and compiled code refuses the call with all of these words.
fn too_wide(ways: &Ways, inputs: &[(&str, &str)], y: &[i64], words: &[&str]) {
    for (way, result) in ways.each_result(&call(ways, inputs)) {
        match result {
            Ok(outputs) => {
                assert_eq!(way, "oracle", "{inputs:?}: {:?}", outputs.get("y").map(Array::to_f64_vec));
                let wanted: Vec<f64> = y.iter().map(|n| *n as f64).collect();
                assert_eq!(outputs.get("y").expect("the output").to_f64_vec(), wanted);
            }
            Err(e) => {
                let message = e.to_string();
                assert!(way != "oracle" && message.contains("32 bits"), "{way}: {message}");
                assert!(words.iter().all(|word| message.contains(word)), "{way}: {message}");
            }
        }
    }
}

fn map(expression: &str) -> Ways {
    ways(&format!("model m(n: i64[T], k: i64[T]) -> (y: i64[T]) {{ return {expression} + 0 * k }}"))
}

/// An operator at the last integers that fit, and at the first that do not.
fn border(expression: &str, fits: (i64, i64, i64), does_not: (i64, i64, i64)) {
    let ways = map(expression);
    let (n, k, y) = fits;
    let text = |n: i64| format!("[{n}]");
    gives(&ways, &[("n", &text(n)), ("k", &text(k))], &[y]);
    let (n, k, y) = does_not;
    let held = format!("`n` holds {n} to {n}");
    too_wide(&ways, &[("n", &text(n)), ("k", &text(k))], &[y], &[&held, &y.to_string()]);
}

#[test]
fn every_operator_refuses_what_does_not_fit() {
    border("(n + k)", (MOST - 1, 1, MOST), (MOST, 1, MOST + 1));
    border("(n + k)", (LEAST + 1, -1, LEAST), (LEAST, -1, LEAST - 1));
    border("(n - k)", (LEAST + 1, 1, LEAST), (LEAST, 1, LEAST - 1));
    border("(n - k)", (MOST - 1, -1, MOST), (MOST, -1, MOST + 1));
    border("(n * k)", (46_340, 46_340, 2_147_395_600), (46_341, 46_341, 2_147_488_281));
    border("(n * k)", (65_536, -32_768, LEAST), (65_536, -32_769, -2_147_549_184));
    border("(-n)", (LEAST + 1, 0, MOST), (LEAST, 0, MOST + 1));
    border("abs(n)", (LEAST + 1, 0, MOST), (LEAST, 0, MOST + 1));
}

#[test]
fn sums_and_products_along_axes_refuse_what_does_not_fit() {
    for (reduction, fits, does_not) in [
        ("sum(n)", ("[1073741823, 1073741823]", 2_147_483_646), ("[1073741824, 1073741824]", 2_147_483_648)),
        ("sum(n)", ("[-1073741824, -1073741824]", LEAST), ("[-1073741825, -1073741824]", LEAST - 1)),
        ("prod(n)", ("[46340, 46340]", 2_147_395_600), ("[46341, 46341]", 2_147_488_281)),
        ("prod(n)", ("[65536, -32768]", LEAST), ("[65536, -65536]", -4_294_967_296)),
    ] {
        let ways = ways(&format!("model m(n: i64[T]) -> (y: i64[]) {{ return {reduction} }}"));
        if reduction == "prod(n)" && fits.1 == LEAST {
            // 65536 * 65536 is not there, but for all that is known of the elements it might be.
            too_wide(&ways, &[("n", fits.0)], &[fits.1], &["`n` holds -32768 to 65536"]);
        } else {
            gives(&ways, &[("n", fits.0)], &[fits.1]);
        }
        too_wide(&ways, &[("n", does_not.0)], &[does_not.1], &["`n` holds"]);
    }
    let ways = ways("model m(n: i64[T]) -> (y: i64[T]) { return cumsum(n) }");
    gives(&ways, &[("n", "[1073741823, 1073741823]")], &[1_073_741_823, 2_147_483_646]);
    too_wide(&ways, &[("n", "[1073741824, 1073741824]")], &[1_073_741_824, 2_147_483_648], &["cumsum"]);
}

#[test]
fn sums_that_leave_32_bits_on_the_way_only_are_refused_too() {
    let ways = ways("model m(n: i64[T]) -> (y: i64[]) { return sum(n) }");
    too_wide(&ways, &[("n", "[2147483647, 1, -2147483647]")], &[1], &["`n` holds -2147483647 to 2147483647"]);
}

#[test]
fn what_is_only_read_or_compared_may_be_any_integer_of_32_bits() {
    let ways = ways(
        "model m(n: i64[T], x: i64[V]) -> (y: i64[T]) {
            let y[t: T] = if n[t] > 5 then min(x[n[t] % V], n[t]) else max(n[t], x[0])
            return y
        }",
    );
    let inputs = [("n", "[2147483647, -2147483648]"), ("x", "[-2147483648, 2147483647, 7]")];
    // 2147483647 is 1 more than a multiple of 3.
    gives(&ways, &inputs, &[MOST, LEAST]);
}

#[test]
fn positions_found_by_data_are_followed() {
    let ways = ways(
        "model m(ids: i64[T], x: f32[V]) -> (y: i64[T]) {
            let scaled[v: V] = v * 1000000000
            let y[t: T] = scaled[ids[t]]
            return y
        }",
    );
    gives(&ways, &[("ids", "[2, 0]"), ("x", "[1, 1, 1]")], &[2_000_000_000, 0]);
    let wide = call(&ways, &[("ids", "[3]"), ("x", "[1, 1, 1, 1]")]);
    for (way, result) in ways.each_result(&wide) {
        match result {
            Ok(outputs) => {
                assert_eq!(way, "oracle");
                assert_eq!(outputs.get("y").expect("the output").to_f64_vec(), [3e9]);
            }
            Err(e) => assert!(way != "oracle" && e.to_string().contains("32 bits"), "{way}: {e}"),
        }
    }
}

#[test]
fn integers_made_of_numbers_are_followed_from_the_numbers() {
    let ways = ways("model m(x: f32[T]) -> (y: i64[T]) { return i64(floor(x / 2)) * 100000 + 7 }");
    gives(&ways, &[("x", "[40000, -3]")], &[2_000_000_007, -199_993]);
    too_wide(&ways, &[("x", "[43000, -3]")], &[2_150_000_007, -199_993], &["floor"]);
}

/// A number that is no integer of the type asked for has no value; compiled code has 32 bits for either type.
#[test]
fn numbers_that_are_no_integers_are_refused() {
    let ways = ways("model m(x: f32[T]) -> (y: i64[T]) { return i64(x) }");
    gives(&ways, &[("x", "[2147483520, -2147483648, -0.9]")], &[2_147_483_520, LEAST, 0]);
    too_wide(&ways, &[("x", "[3e9, 1]")], &[3_000_000_000, 1], &["i64(x)", "1 to 3000000000"]);
}

#[test]
fn integers_of_parameters_are_followed_when_they_are_bound() {
    let program = "model m(x: f32[T]) -> (y: i64[T]) {
        param n: i64[T]
        return n * n
    }";
    let ways = ways(program);
    let with = |n: i64| {
        let mut call = call(&ways, &[("x", "[1, 1]")]);
        call.params.insert("n", Array::from_i64(vec![2], vec![n, -2]).expect("two")).expect("named once");
        call
    };
    ways.check(&with(46_340)).unwrap_or_else(|e| panic!("{e}"));
    for (way, result) in ways.each_result(&with(46_341)) {
        match result {
            Ok(outputs) => {
                assert_eq!(way, "oracle");
                assert_eq!(outputs.get("y").map(Array::dtype), Some(DType::I64));
            }
            Err(e) => assert!(e.to_string().contains("`n` holds -2 to 46341"), "{way}: {e}"),
        }
    }
}
