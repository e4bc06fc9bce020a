//! Every element of every result and of every value that is stored on the way is written by one item of one kernel, for all
//! sizes, in every program that the examples become; what is not proved of them is known, by class.

use salient::{Engine, Options, fuse, lower, models};
use salient_tests::examples::settings;
use salient_tests::files::{files_under, sources};
use salient_tests::sweep;
use salient_tile::Tiling;
use salient_tile::verify::coverage::{Coverage, coverage};
use salient_vector::tile::Shape;
use std::sync::Mutex;

/// Register tiles of the portable vectors, and one of several rows, which has edges of all kinds.
const TILES: [Shape; 2] = [Shape { rows: 1, vectors: 8 }, Shape { rows: 4, vectors: 4 }];

/// Why a buffer is not proved: examples, what is said of it, and how many there are in the program that has most.
const OPEN: [(&str, &str, usize); 0] = [];

/// What of a buffer has no value and is not written, by class.
const ROOM: [&str; 2] = ["columns after ", "rows that there are not"];

/// What is not proved and belongs to no class; `most` are the numbers of the classes so far.
fn unknown(file: &str, found: &Coverage, most: &Mutex<[usize; OPEN.len()]>) -> Vec<String> {
    let mut count = [0; OPEN.len()];
    let mut out = Vec::new();
    for open in &found.open {
        let text = open.to_string();
        let is_of = |(of, what, _): &(&str, &str, usize)| file.starts_with(of) && text.contains(what);
        match OPEN.iter().position(is_of).filter(|_| open.shown.is_none()) {
            Some(at) => count[at] += 1,
            None => out.push(text),
        }
    }
    let odd = found.with_room.iter().filter(|(_, room)| !ROOM.iter().any(|known| room.starts_with(known)));
    out.extend(odd.map(|(name, room)| format!("{name} leaves out {room}")));
    let mut most = most.lock().expect("no check holds it");
    for (most, count) in most.iter_mut().zip(count) {
        *most = count.max(*most);
    }
    out
}

#[test]
fn every_element_of_the_examples_is_written_once() {
    let files = files_under("examples", "attn");
    let most = Mutex::new([0; OPEN.len()]);
    sweep::each(&files, |file| {
        let sources = sources(&format!("examples/{file}"))?;
        for model in models(&sources).map_err(|e| e.to_string())? {
            for (engine, tile) in
                [(Engine::Jit, TILES[0]), (Engine::Jit, TILES[1]), (Engine::Unfused, TILES[1])]
            {
                let options =
                    Options { model: Some(model.clone()), engine, set: settings(file), ..Options::default() };
                let lowered = lower(&sources, &options).map_err(|e| e.to_string())?;
                let graph = fuse(&lowered.graph, &options);
                let tiling = Tiling::of(tile);
                let fuse = engine == Engine::Jit;
                let options = salient_tile::Options { fuse, tiling, ..salient_tile::Options::default() };
                let program = salient_tile::schedule(&graph, options);
                let found = coverage(&program, graph.requirements());
                if found.whole == 0 {
                    return Err(format!("{model} has no results"));
                }
                let unknown = unknown(file, &found, &most);
                if !unknown.is_empty() {
                    return Err(format!("{model}, {engine}, {tile:?}:\n{}", unknown.join("\n")));
                }
            }
        }
        Ok(())
    });
    if std::env::var_os("ONLY").is_none() {
        let most = most.into_inner().expect("no check holds it");
        let pinned = OPEN.map(|(.., pinned)| pinned);
        assert_eq!(most, pinned, "so many are not proved now: the numbers here may only become less");
    }
}
