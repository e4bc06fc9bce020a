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

#[test]
fn commands_of_the_page_on_performance_show_what_it_says() {
    assert!(follow("docs/performance.md").commands >= 2);
}

#[test]
fn programs_of_the_page_on_the_library_are_its_examples() {
    follow("docs/library.md");
    let text = std::fs::read_to_string(common::document::root().join("docs/library.md")).expect("the page");
    let shown =
        common::document::blocks(&text).iter().filter(|block| block.kind.starts_with("rust ")).count();
    let examples =
        std::fs::read_dir(common::document::root().join("crates/salient/examples")).expect("a folder");
    assert_eq!(shown, examples.count());
}

#[test]
fn the_readme_shows_what_happens() {
    let followed = follow("README.md");
    assert!(followed.programs >= 1 && followed.commands >= 8, "{} commands", followed.commands);
}
