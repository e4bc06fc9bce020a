//! The binary of the command line, which is the library `salient_cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(salient_cli::run(std::env::args_os()))
}
