//! What documents say to write and to call is so: their programs compile, and their commands show what is said.

mod common;

use common::document::follow;

#[test]
fn the_tutorial_shows_what_happens() {
    let followed = follow("docs/tutorial.md");
    assert!(followed.programs >= 6 && followed.commands >= 11, "{} programs", followed.programs);
}

#[test]
fn what_pytorch_has_is_here_as_it_is_said() {
    let followed = follow("docs/from-pytorch.md");
    assert!(followed.programs >= 11 && followed.commands >= 5, "{} programs", followed.programs);
}
