//! Every address of every program that the examples become lies in its buffer or scratch slot, for all sizes; what is not
//! proved of them is known, by class.

use salient_tests::examples;
use salient_tile::verify::bounds::{Undecided, bounds};
use std::sync::Mutex;

/// Why an address is not proved: examples, what stands in the call, and how many there are in the program that has most.
const OPEN: [(&str, &str, usize); 2] = [
    // Pixels of patches of an image: the index is a quotient of a remainder of a quotient. Lanes outside are masked.
    ("models/vit", "patches", 2),
    // Scores of the last rows of a tile of few rows, which are half of what four times a quarter of them leaves.
    ("models/gpt2", "dots_2x8", 2),
];

/// What is not proved and belongs to no class; `most` are the numbers of the classes so far.
fn unknown(name: &str, open: &[Undecided], most: &Mutex<[usize; OPEN.len()]>) -> Vec<String> {
    let class = |u: &Undecided| {
        OPEN.iter().position(|(of, call, _)| {
            u.outside.is_none() && name.starts_with(of) && u.to_string().contains(call)
        })
    };
    let mut count = [0; OPEN.len()];
    let mut out = Vec::new();
    for u in open {
        match class(u) {
            Some(at) => count[at] += 1,
            None => out.push(u.to_string()),
        }
    }
    let mut most = most.lock().expect("no check holds it");
    for (most, count) in most.iter_mut().zip(count) {
        *most = count.max(*most);
    }
    out
}

#[test]
fn every_address_of_the_examples_is_proved_or_of_a_known_class() {
    let most = Mutex::new([0; OPEN.len()]);
    examples::each_program(|example, program, requirements| {
        let found = bounds(program, requirements);
        if found.looked_at == 0 {
            return Err("it has no addresses".to_owned());
        }
        let unknown = unknown(&example.name, &found.undecided, &most);
        if unknown.is_empty() { Ok(()) } else { Err(unknown.join("\n")) }
    });
    if std::env::var_os("ONLY").is_none() {
        let most = most.into_inner().expect("no check holds it");
        let pinned = OPEN.map(|(.., pinned)| pinned);
        assert_eq!(most, pinned, "so many are not proved now: the numbers here may only become less");
    }
}
