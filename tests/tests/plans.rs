//! The text of a plan is a plan: it reads back as what it says, and what was read computes the same bits.

use salient::{
    Array, Bits, Coding, Engine, Graph, Isa, IsaChoice, Model, Options, Scales, Sources, Stage, Timings,
    lower, print_stage, read_data, read_plan,
};
use salient_ir::text;
use salient_tests::examples::{self, Example, settings};
use salient_tests::files::sources;
use salient_tests::generate::{self, Data};
use salient_tests::ways::Call;
use salient_tests::{snapshot, sweep};
use std::collections::BTreeSet;
use std::sync::Mutex;

/// Reads a text back; gives why it does not, or what it reads as.
fn reads_back(text: &str, options: &Options) -> Result<(), String> {
    let read = read_plan(text, options).map_err(|why| format!("{text}\n{why}"))?;
    let again = read.print(&read.plan());
    if again != text { Err(format!("reads back as another plan:\n{text}\nas\n{again}")) } else { Ok(()) }
}

/// Steps of training whose plans do not read back yet, and what is said of them. A line that is not needed any more fails.
const DO_NOT_READ: [(&str, &str); 1] = [
    // A product is stored, and made again for the value behind its bias: read back that one has none.
    ("train/adapters/train", "no product is in the expression"),
];

#[test]
fn plans_of_examples_read_back() {
    let unread = Mutex::new(BTreeSet::new());
    let check = |example: &Example| -> Result<(), String> {
        let sources = example.sources()?;
        let isas = [IsaChoice::Only(Isa::Baseline), IsaChoice::default()];
        for (engine, isa) in [(Engine::Jit, isas[0]), (Engine::Jit, isas[1]), (Engine::Unfused, isas[0])] {
            for set in [Vec::new(), settings(&example.file)] {
                let options = Options { isa, engine, set, one_plan: true, ..example.options() };
                let text = print_stage(&sources, Stage::Plan, &options, &mut Timings::default())
                    .map_err(|e| e.to_string())?;
                reads_back(&text, &options).map_err(|why| format!("{engine:?}: {why}"))?;
            }
        }
        Ok(())
    };
    examples::each(|example| {
        let Err(why) = check(example) else { return Ok(()) };
        let known = DO_NOT_READ.iter().find(|(name, said)| *name == example.name && why.contains(said));
        let Some((name, _)) = known else { return Err(why) };
        unread.lock().expect("no check holds it").insert(*name);
        Ok(())
    });
    if std::env::var_os("ONLY").is_none() {
        let unread = unread.into_inner().expect("no check holds it");
        assert_eq!(unread, DO_NOT_READ.iter().map(|(name, _)| *name).collect(), "they read back now");
    }
}

/// What two models make of a call: the same bits, or a refusal by both.
fn same_bits(call: &Call, wanted: &Model, found: &Model) -> Result<(), String> {
    let (wanted, found) = match (call.run(wanted), call.run(found)) {
        (Ok(wanted), Ok(found)) => (wanted, found),
        (Err(_), Err(_)) => return Ok(()),
        (Err(why), Ok(_)) => return Err(format!("the plan takes what is refused: {why}")),
        (Ok(_), Err(why)) => return Err(format!("the plan refuses: {why}")),
    };
    let bits = |array: &Array| array.to_f64_vec().into_iter().map(f64::to_bits).collect::<Vec<_>>();
    for (name, array) in wanted.iter() {
        let other = found.get(name).ok_or_else(|| format!("the plan does not give `{name}`"))?;
        if bits(array) != bits(other) {
            return Err(format!("`{name}` has other bits"));
        }
    }
    Ok(())
}

/// Reads the plan of a program for all sizes back, and runs both.
fn runs_alike(graph: &Graph, call: &Call, options: &Options) -> Result<(), String> {
    let options = &Options { one_plan: true, ..options.clone() };
    let mut sources = Sources::new();
    sources.add("program.attn", &text::print(graph));
    let plan =
        print_stage(&sources, Stage::Plan, options, &mut Timings::default()).map_err(|e| e.to_string())?;
    reads_back(&plan, options)?;
    let read = read_plan(&plan, options).map_err(|why| why.to_string())?;
    let found = Model::from_plan(&read, options).map_err(|e| e.to_string())?;
    // Of the text, as the plan is: reading it, the front end writes a power as products.
    let graph = lower(&sources, options).map_err(|e| e.to_string())?.graph;
    let wanted = Model::from_graph(graph, options).map_err(|e| e.to_string())?;
    same_bits(call, &wanted, &found).map_err(|why| format!("{plan}\n{why}"))
}

#[test]
fn plans_that_were_read_compute_the_same_bits() {
    let mut all = examples::examples();
    all.retain(|example| example.data().is_some());
    assert!(all.len() > 20, "examples have data");
    sweep::each_of(
        &all,
        |example| &example.name,
        |example| {
            let data = example.data().expect("those that have some");
            let arrays = read_data(data).map_err(|e| e.to_string())?;
            let call = Call { inputs: arrays.inputs, params: arrays.params, ..Call::default() };
            for engine in [Engine::Jit, Engine::Unfused] {
                let options = Options { engine, set: settings(&example.file), ..example.options() };
                let graph = lower(&example.sources()?, &options).map_err(|e| e.to_string())?.graph;
                let options = Options { model: None, set: Vec::new(), ..options };
                runs_alike(&graph, &call, &options)?;
            }
            Ok(())
        },
    );
}

/// Random programs of which the plan is refused: a view is stored and read by another view, which the front end makes one view
/// of what the first one is of.
const NOT_READ: [u64; 1] = [147];

#[test]
fn plans_of_random_programs_read_back() {
    let names: Vec<String> = (0..200).map(|seed| format!("{seed}")).collect();
    sweep::each(&names, |name| {
        let seed: u64 = name.parse().expect("made above");
        let graph = generate::program(seed, 4 + (seed % 9) as usize);
        let call = generate::call(&graph, seed, &generate::sizes(&graph, seed as usize), Data::Tame);
        let engine = if seed.is_multiple_of(4) { Engine::Unfused } else { Engine::Jit };
        let found = runs_alike(&graph, &call, &Options { engine, ..Options::default() });
        match (found, NOT_READ.contains(&seed)) {
            (Err(why), true) if why.contains("of the plan: ") => Ok(()),
            (Ok(()), true) => Err("it is read now: take it off the list".to_owned()),
            (found, _) => found,
        }
    });
}

/// The plan of a model of an example.
fn plan_of(file: &str, model: &str) -> String {
    let isa = IsaChoice::Only(Isa::Baseline);
    let options = Options { model: Some(model.to_owned()), isa, ..Options::default() };
    let sources = sources(file).unwrap_or_else(|e| panic!("{e}"));
    print_stage(&sources, Stage::Plan, &options, &mut Timings::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// What is said about plans that contradict themselves, or are none.
#[test]
fn plans_that_cannot_be_are_refused() {
    let causal = plan_of("examples/variants/grouped_heads.attn", "grouped_heads");
    let model = plan_of("examples/models/gpt2.attn", "gpt2");
    let side = plan_of("examples/variants/side_outputs.attn", "side_outputs");
    let changes = [
        ("no plan", &causal, "plan grouped", "model grouped"),
        ("no kernel of that word", &causal, "    attention ", "    attend "),
        ("a value that nothing stores", &model, "gemm x.2[", "gemm x.9["),
        ("a norm as a product", &model, "rows qkv.22", "gemm qkv.22"),
        ("a product as a map", &model, "gemm x.2[", "map x.2["),
        ("an operand in another form", &model, "c_attn_weight~prepacked", "c_attn_weight~codes4"),
        ("rows that are read in place", &model, "qkv.22[b, t, n768] *", "qkv.22~rows[b, t, n768] *"),
        ("other keys", &model, "over s_t in 0 .. S + t + 1", "over s_t in 0 .. S + t"),
        ("other rows", &model, "rows t, split_kv", "rows b, split_kv"),
        ("an expression that the language does not have", &model, "sqrt(", "root("),
        ("blocks that are not there", &model, "h.{0 .. 12} (x", "h.{0 .. 14} (x"),
        ("other axes", &model, "map x[b, t, n768]", "map x[b, t]"),
        ("a result beside no attention", &side, "attention context[", "rows context["),
        ("a result beside an attention that is its own", &side, "beside greatest[", "attention greatest["),
        ("a minimum of scores beside an attention", &side, " = max[t_2](", " = min[t_2]("),
        ("an attention that its results stand apart from", &side, "    joint {", "    once joint {"),
    ];
    let mut said = String::new();
    for (what, text, from, to) in changes {
        assert!(text.contains(from), "{what}: `{from}` is in\n{text}");
        let options = Options { isa: IsaChoice::Only(Isa::Baseline), ..Options::default() };
        let why = read_plan(&text.replacen(from, to, 1), &options).expect_err(what);
        said.push_str(&format!("{what}: {why}\n"));
    }
    snapshot::assert("plans", "refused", &said);
}

/// Whatever a text says, it is read or refused.
#[test]
fn no_text_of_a_plan_makes_the_reader_fail() {
    let files = [
        "models/gpt2.attn gpt2",
        "variants/grouped_heads.attn grouped_heads",
        "variants/side_outputs.attn side_outputs",
        "models/llama.attn llama",
    ];
    let names: Vec<String> = files.iter().map(|f| format!("examples/{f}")).collect();
    sweep::each(&names, |name| {
        let (file, model) = name.split_once(' ').expect("written above");
        let text = plan_of(file, model);
        let lines: Vec<&str> = text.lines().collect();
        let options = Options { isa: IsaChoice::Only(Isa::Baseline), ..Options::default() };
        let mut refused = 0;
        for at in 0..lines.len() {
            let with = |new: &[&str]| [&lines[..at], new, &lines[at + 1..]].concat().join("\n");
            let words: Vec<&str> = lines[at].split(' ').collect();
            let other = |n: usize| {
                let mut words = words.clone();
                let n = n % words.len();
                words[n] = lines[(at + 1) % lines.len()].split(' ').nth_back(n).unwrap_or("x");
                words.join(" ")
            };
            let cut = &lines[at][..lines[at].len() * 2 / 3];
            let great = great_numbers(lines[at]);
            let unclosed = lines[at].replace([']', ')', '}'], "");
            let changed = [
                with(&[]),
                with(&[lines[at], lines[at]]),
                with(&[&other(at)]),
                with(&[&other(at * 7 + 3)]),
                with(&[cut]),
                with(&[&great]),
                with(&[&unclosed]),
            ];
            for text in changed {
                refused += usize::from(read_plan(&text, &options).is_err());
            }
        }
        // A change of one word may come to the same plan, but most do not.
        if refused > 5 * lines.len() {
            Ok(())
        } else {
            Err(format!("{refused} of {} are refused", 7 * lines.len()))
        }
    });
}

/// The line with every number as great as one can be.
fn great_numbers(line: &str) -> String {
    let mut out = String::new();
    for part in line.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        out.push_str(if digits > 0 { "18446744073709551615" } else { "" });
        out.push_str(&part[digits..]);
    }
    out
}

/// Weights in blocks of few bits, in some layers of a model and in all.
#[test]
fn plans_with_weights_in_codes_read_back() {
    let sources = sources("examples/models/llama.attn").unwrap_or_else(|e| panic!("{e}"));
    let coding = |at: usize| Coding {
        bits: if at.is_multiple_of(2) { Bits::Four } else { Bits::Eight },
        scales: if at == 3 { Scales::Single } else { Scales::Half },
    };
    for layers in [1..30, 3..6] {
        let paths =
            layers.flat_map(|at| ["attn_q", "ffn_up"].map(|w| (format!("blk.{at}.{w}.weight"), coding(at))));
        let options =
            Options { model: Some("llama".to_owned()), coded: paths.collect(), ..Options::default() };
        let text =
            print_stage(&sources, Stage::Plan, &options, &mut Timings::default()).expect("it compiles");
        assert!(text.contains("~codes4") && text.contains("~codes8"), "{text}");
        reads_back(&text, &options).unwrap_or_else(|why| panic!("{why}"));
    }
}
