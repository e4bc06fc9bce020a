//! How a command ends when it does not succeed.

/// The exit code of a broken invariant, as of any panic.
pub(crate) const BUG: u8 = 101;

/// Who is wrong: what the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blame {
    /// The model, or its result.
    Model,
    /// The call.
    Call,
}

/// What is said on standard error.
#[derive(Debug)]
pub(crate) enum Message {
    /// Sentences, a line each, to be marked as errors.
    Sentences(String),
    /// A source that is refused, with its lines.
    Source(Box<salient::Rejected>),
    /// Text as it is to be shown.
    Rendered(String),
    /// Nothing: everything has been said already.
    Nothing,
}

/// A message and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    blame: Blame,
    pub(crate) message: Message,
}

/// What a command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// The call is wrong.
    pub(crate) fn call(message: impl Into<String>) -> Failure {
        Failure { blame: Blame::Call, message: Message::Sentences(message.into()) }
    }

    /// The model or its result is wrong.
    pub(crate) fn model(message: impl Into<String>) -> Failure {
        Failure { blame: Blame::Model, message: Message::Sentences(message.into()) }
    }

    /// The model or its result is wrong, and standard output says so.
    pub(crate) fn reported() -> Failure {
        Failure { blame: Blame::Model, message: Message::Nothing }
    }

    /// The same where standard error has said what is wrong.
    pub(crate) fn said(self) -> Failure {
        Failure { message: Message::Nothing, ..self }
    }

    /// What is wrong, for who asked by another way than the command line.
    pub(crate) fn text(&self) -> String {
        match &self.message {
            Message::Sentences(text) | Message::Rendered(text) => text.clone(),
            Message::Source(rejected) => rejected.render(false),
            Message::Nothing => String::new(),
        }
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
        let message = match error {
            salient::Error::Source(rejected) => Message::Source(rejected),
            salient::Error::Unfused(text) => {
                Message::Rendered(format!("error: attention is not fused, as was required\n{text}\n"))
            }
            salient::Error::Unreadable { .. }
            | salient::Error::Call(_)
            | salient::Error::Io(_)
            | salient::Error::Tuning(_)
            | salient::Error::Target(_)
            | salient::Error::Plan(_)
            | salient::Error::Code(_)
            | salient::Error::Run(_) => Message::Sentences(error.to_string()),
        };
        Failure { blame, message }
    }
}

impl From<salient::IoError> for Failure {
    fn from(error: salient::IoError) -> Failure {
        Failure::call(error.to_string())
    }
}

impl From<salient_text::TextError> for Failure {
    fn from(error: salient_text::TextError) -> Failure {
        if let salient_text::TextError::Model(error) = error {
            return error.into();
        }
        let say = if error.is_call() { Failure::call } else { Failure::model };
        say(error.to_string())
    }
}
