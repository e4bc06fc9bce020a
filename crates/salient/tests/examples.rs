//! The examples of the library do what they say.

#[path = "../examples/errors.rs"]
mod errors;
#[path = "../examples/sessions.rs"]
mod sessions;
#[path = "../examples/states.rs"]
mod states;

#[test]
fn examples_run() {
    sessions::main().unwrap();
    states::main().unwrap();
    errors::main().unwrap();
}
