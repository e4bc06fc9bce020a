//! Texts to ids and back: one type for every kind of tokenizer that checkpoints come with.
//!
//! The `tokenizers` crate does the work. Files are read elsewhere, and padding is not done here: batches are of the
//! embedder's making.

use crate::error::TextError;
use tokenizers::{PostProcessor, TruncationDirection};

/// A text as ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The ids.
    pub ids: Vec<u32>,
    /// Whether the text was longer and is cut.
    pub is_cut: bool,
}

/// A tokenizer.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    /// Neither pads nor cuts.
    inner: tokenizers::Tokenizer,
    /// The most tokens of a text, special ones counted.
    longest: Option<usize>,
    /// What ends a text that is generated.
    ends: Vec<u32>,
    /// What a prompt begins with, if the checkpoint asks for it.
    start: Option<u32>,
    chat_template: Option<String>,
}

impl Tokenizer {
    /// The tokenizer of a `tokenizer.json`'s bytes; the error is a sentence.
    pub(crate) fn from_json(text: &[u8]) -> Result<Tokenizer, String> {
        let not_one = |e: tokenizers::Error| format!("is no tokenizer: {e}");
        let mut inner = guarded(|| tokenizers::Tokenizer::from_bytes(text)).map_err(not_one)?;
        let longest = inner.get_truncation().map(|truncation| truncation.max_length);
        inner.with_padding(None);
        inner.with_truncation(None).map_err(not_one)?;
        Ok(Tokenizer { inner, longest, ends: Vec::new(), start: None, chat_template: None })
    }

    pub(crate) fn from_parts(
        inner: tokenizers::Tokenizer,
        ends: Vec<u32>,
        start: Option<u32>,
        chat_template: Option<String>,
    ) -> Tokenizer {
        Tokenizer { inner, longest: None, ends, start, chat_template }
    }

    /// The ids of a text, with the special tokens that the tokenizer puts around one.
    ///
    /// # Errors
    /// [`TextError::Text`] if the tokenizer refuses it.
    pub fn encode(&self, text: &str) -> Result<Encoded, TextError> {
        let refused = |e: tokenizers::Error| TextError::Text(e.to_string());
        let mut encoded = guarded(|| self.inner.encode_fast(text, true)).map_err(refused)?;
        let longest = self.longest.filter(|longest| encoded.len() > *longest);
        if let Some(longest) = longest {
            // The end goes, and the special tokens stay around what is left.
            let mut plain = self.inner.encode_fast(text, false).map_err(refused)?;
            plain.truncate(longest.saturating_sub(self.special_tokens()), 0, TruncationDirection::Right);
            encoded = self.inner.post_process(plain, None, true).map_err(refused)?;
        }
        let first = encoded.get_ids().first();
        let start = self.start.filter(|start| first != Some(start));
        let ids = start.into_iter().chain(encoded.get_ids().iter().copied()).collect();
        Ok(Encoded { ids, is_cut: longest.is_some() })
    }

    /// How many special tokens stand around a text.
    fn special_tokens(&self) -> usize {
        self.inner.get_post_processor().map_or(0, |p| p.added_tokens(false))
    }

    /// Shortens texts to so many tokens, special ones counted; `None` keeps all of them. Without a call, the tokenizer's own
    /// file decides.
    ///
    /// # Errors
    /// Fewer tokens are asked for than the special ones take.
    pub fn truncate(&mut self, tokens: Option<usize>) -> Result<(), TextError> {
        let special = self.special_tokens();
        if let Some(tokens) = tokens.filter(|tokens| *tokens <= special) {
            return Err(TextError::Text(format!(
                "{tokens} tokens leave no room beside {special} special ones"
            )));
        }
        self.longest = tokens;
        Ok(())
    }

    /// Whether an id is one of the tokenizer's.
    pub fn has(&self, id: u32) -> bool {
        self.inner.id_to_token(id).is_some()
    }

    /// The text of ids, without special tokens.
    ///
    /// # Errors
    /// [`TextError::NoSuchToken`] if an id is not one of the tokenizer's.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TextError> {
        if let Some(position) = ids.iter().position(|id| !self.has(*id)) {
            return Err(TextError::NoSuchToken { id: ids[position], position, size: self.size() });
        }
        guarded(|| self.inner.decode(ids, true)).map_err(|e| TextError::Text(e.to_string()))
    }

    /// Decodes ids as they come.
    pub fn stream(&self) -> TextStream<'_> {
        TextStream { inner: self.inner.decode_stream(true) }
    }

    /// The id of a token by its text.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The number of ids.
    pub fn size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The ids that end a text, by the checkpoint; none if it does not say.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// The chat template of the checkpoint, in the language of Jinja.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }
}

/// The library panics on some files whose parts do not fit each other, as a template with a token that is nowhere.
fn guarded<T>(run: impl FnOnce() -> tokenizers::Result<T>) -> tokenizers::Result<T> {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    caught.unwrap_or_else(|_| Err("the parts of the tokenizer do not fit each other".into()))
}

type Stream<'a> = tokenizers::tokenizer::DecodeStream<
    'a,
    tokenizers::ModelWrapper,
    tokenizers::NormalizerWrapper,
    tokenizers::PreTokenizerWrapper,
    tokenizers::PostProcessorWrapper,
    tokenizers::DecoderWrapper,
>;

/// Ids to text, piece by piece: a character whose bytes come from several tokens appears with the last of them.
pub struct TextStream<'a> {
    inner: Stream<'a>,
}

impl TextStream<'_> {
    /// What is added to the text by one more id; may be empty.
    ///
    /// # Errors
    /// [`TextError::Text`] if it is not one of the tokenizer's.
    pub fn push(&mut self, id: u32) -> Result<String, TextError> {
        let added = guarded(|| self.inner.step(id)).map_err(|e| TextError::Text(e.to_string()))?;
        Ok(added.unwrap_or_default())
    }
}
