//! Every element of every result and of every value that is stored on the way is written by one item of one kernel, for all
//! sizes, in every program that the examples become.

use salient_tests::examples;
use salient_tile::verify::coverage::coverage;

/// What of a buffer has no value and is not written, by class.
const ROOM: [&str; 2] = ["columns after ", "rows that there are not"];

#[test]
fn every_element_of_the_examples_is_written_once() {
    examples::each_program(|_, program, requirements| {
        let found = coverage(program, requirements);
        if found.whole == 0 {
            return Err("it has no results".to_owned());
        }
        let open = found.open.iter().map(ToString::to_string);
        let odd =
            found.with_room.iter().filter(|(_, room)| !ROOM.iter().any(|known| room.starts_with(known)));
        let faults: Vec<String> =
            open.chain(odd.map(|(name, room)| format!("{name} leaves out {room}"))).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
    });
}
