//! How a command ends when it does not succeed.

use crate::terminal;

/// Who is wrong: what the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The model, or its result.
    Model,
    /// The call.
    Call,
}

/// A message and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) blame: Blame,
    /// Whole sentences, a line each; empty where everything has been said on standard output.
    pub(crate) message: String,
}

/// What a command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The call is wrong.
    pub(crate) fn call(message: impl Into<String>) -> Failure {
        Failure { blame: Blame::Call, message: message.into() }
    }

    /// The model or its result is wrong.
    pub(crate) fn model(message: impl Into<String>) -> Failure {
        Failure { blame: Blame::Model, message: message.into() }
    }

    pub(crate) fn code(&self) -> u8 {
        match self.blame {
            Blame::Model => 1,
            Blame::Call => 2,
        }
    }
}

impl From<salient::Error> for Failure {
    fn from(error: salient::Error) -> Failure {
        let blame = if error.is_call() { Blame::Call } else { Blame::Model };
        Failure { blame, message: error.render(terminal::stderr_colour()) }
    }
}

impl From<salient::IoError> for Failure {
    fn from(error: salient::IoError) -> Failure {
        Failure::call(error.to_string())
    }
}
