//! Which question is answered by what, and what the editor is told that it can ask.

use super::{Server, program_of};
use crate::answers::{Asked, complete, define, format, hints, hover, lens, rename, symbols};
use crate::lines::Encoding;
use crate::worker::Wanted;
use lsp_server::{ErrorCode, Request, RequestId, Response};
use lsp_types::{
    CodeLens, CodeLensParams, CompletionParams, DefinitionParams, DocumentFormattingParams,
    DocumentSymbolParams, HoverParams, InlayHintParams, PrepareRenameParams, ReferenceParams, RenameParams,
    TextDocumentPositionParams, Uri,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the server can do, in the protocol's words.
pub(super) fn abilities(encoding: Encoding) -> Value {
    let encoding = match encoding {
        Encoding::Utf8 => "utf-8",
        Encoding::Utf16 => "utf-16",
    };
    json!({
        "capabilities": {
            "positionEncoding": encoding,
            "textDocumentSync": { "openClose": true, "change": 2, "save": true },
            "hoverProvider": true,
            "completionProvider": { "triggerCharacters": ["["] },
            "definitionProvider": true,
            "referencesProvider": true,
            "renameProvider": { "prepareProvider": true },
            "documentFormattingProvider": true,
            "documentSymbolProvider": true,
            "inlayHintProvider": true,
            "codeLensProvider": { "resolveProvider": true },
        },
        "serverInfo": { "name": "salient", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// Why a question has no answer: a code of the protocol, and words.
type Refused = (ErrorCode, String);

/// The parameters of a question, which have to have its form.
fn given<T: DeserializeOwned>(params: Value) -> Result<T, Refused> {
    serde_json::from_value(params).map_err(|e| (ErrorCode::InvalidParams, e.to_string()))
}

impl Server<'_> {
    /// The answer to a question; none for one that is answered later.
    pub(super) fn answer(&mut self, request: Request) -> Option<Response> {
        self.refresh();
        let Request { id, method, params } = request;
        if method == "codeLens/resolve" {
            return self.resolve(id, params);
        }
        Some(match self.result(&method, params) {
            Ok(result) => Response::new_ok(id, result),
            Err((code, words)) => Response::new_err(id, code as i32, words),
        })
    }

    fn result(&mut self, method: &str, params: Value) -> Result<Value, Refused> {
        match method {
            "textDocument/hover" => {
                let HoverParams { text_document_position_params: at, .. } = given(params)?;
                self.settle(&at.text_document.uri);
                Ok(self.at(&at, |asked| json!(hover::hover(asked, at.position))))
            }
            "textDocument/completion" => {
                let CompletionParams { text_document_position_params: at, .. } = given(params)?;
                Ok(self.at(&at, |asked| json!(complete::items(asked, at.position))))
            }
            "textDocument/definition" => {
                let DefinitionParams { text_document_position_params: at, .. } = given(params)?;
                let library = self.library.as_deref();
                Ok(self.at(&at, |asked| json!(define::definition(asked, at.position, library))))
            }
            "textDocument/references" => {
                let ReferenceParams { text_document_position_params: at, context, .. } = given(params)?;
                let own = context.include_declaration;
                Ok(self.at(&at, |asked| json!(define::references(asked, at.position, own))))
            }
            "textDocument/prepareRename" => {
                let PrepareRenameParams { text_document_position_params: at, .. } = given(params)?;
                Ok(self.at(&at, |asked| json!(rename::prepare(asked, at.position))))
            }
            "textDocument/rename" => {
                let RenameParams { text_document_position_params: at, new_name, .. } = given(params)?;
                let Some(asked) = self.asked(&at.text_document.uri) else { return Ok(Value::Null) };
                let renamed = rename::rename(asked, at.position, &new_name);
                renamed.map(|edit| json!(edit)).map_err(|words| (ErrorCode::RequestFailed, words))
            }
            _ => self.of_document(method, params),
        }
    }

    /// Questions about a document as a whole.
    fn of_document(&mut self, method: &str, params: Value) -> Result<Value, Refused> {
        match method {
            "textDocument/formatting" => {
                let DocumentFormattingParams { text_document: of, .. } = given(params)?;
                Ok(self.asked(&of.uri).map_or(Value::Null, |asked| json!(format::edits(asked))))
            }
            "textDocument/documentSymbol" => {
                let DocumentSymbolParams { text_document: of, .. } = given(params)?;
                Ok(self.asked(&of.uri).map_or(Value::Null, |asked| json!(symbols::symbols(asked))))
            }
            "textDocument/inlayHint" => {
                let InlayHintParams { text_document: of, range, .. } = given(params)?;
                self.settle(&of.uri);
                Ok(self.asked(&of.uri).map_or(Value::Null, |asked| json!(hints::hints(asked, range))))
            }
            "textDocument/codeLens" => {
                let CodeLensParams { text_document: of, .. } = given(params)?;
                Ok(self.asked(&of.uri).map_or(Value::Null, |asked| json!(lens::lenses(asked))))
            }
            _ => Err((ErrorCode::MethodNotFound, format!("`{method}` is not answered here"))),
        }
    }

    fn asked<'d>(&'d self, uri: &'d Uri) -> Option<Asked<'d>> {
        Some(Asked { uri, document: self.documents.get(&uri.0)? })
    }

    /// The answer to a question about a position; nothing of a document that is not open.
    fn at(&self, at: &TextDocumentPositionParams, answer: impl FnOnce(Asked<'_>) -> Value) -> Value {
        self.asked(&at.text_document.uri).map_or(Value::Null, answer)
    }

    /// Hands a lens over to the optimiser's thread, which answers.
    fn resolve(&mut self, id: RequestId, params: Value) -> Option<Response> {
        let lens: CodeLens = match given(params) {
            Ok(lens) => lens,
            Err((code, words)) => return Some(Response::new_err(id, code as i32, words)),
        };
        let subject = lens::subject(&lens);
        let program = subject.as_ref().and_then(|(uri, _)| program_of(self.documents.get(uri)));
        let (Some(program), Some((_, model))) = (program, &subject) else {
            let words = "this lens is of no document that is open".to_owned();
            return Some(Response::new_err(id, ErrorCode::InvalidParams as i32, words));
        };
        let wanted = Wanted { id, lens, sources: program.sources.clone(), model: model.clone() };
        let _ = self.workers.lenses.send(wanted);
        None
    }
}
