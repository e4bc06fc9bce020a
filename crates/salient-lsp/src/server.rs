//! The conversation: messages in, answers and diagnostics out.
//!
//! A document is read again when a question about it comes, or when no message waits; compiling goes on beside. A question
//! that needs shapes waits for them a little, and then takes those from before.

mod requests;

use crate::answers::{Asked, tell};
use crate::documents::Document;
use crate::lines::Encoding;
use crate::program::Program;
use crate::uri::path_of;
use crate::worker::{Done, Job, Workers};
use crossbeam_channel::select;
use lsp_server::{Connection, ErrorCode, Message, Notification, ProtocolError, Request, Response};
use lsp_types::{
    Diagnostic, DidChangeTextDocumentParams, DidCloseTextDocumentParams, DidOpenTextDocumentParams,
    PublishDiagnosticsParams, Uri,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a question waits for shapes where older ones are known, and where none are.
const PATIENCE: [Duration; 2] = [Duration::from_millis(25), Duration::from_secs(2)];

/// How a conversation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// As the editor asked for.
    Properly,
    /// The editor went away, or left without asking for it.
    Abruptly,
}

/// Serves the editor at the other end of standard input and output.
///
/// # Errors
/// What the editor sent that is no message of the protocol, in words.
pub fn serve_stdio(library: Option<PathBuf>) -> Result<Ended, String> {
    let (connection, threads) = Connection::stdio();
    let ended = serve(&connection, library);
    if ended == Ok(Ended::Properly) {
        // Whoever says that it leaves has read all answers; a model that is being optimised is not waited for.
        return ended;
    }
    // The threads end when nothing can be sent any longer.
    drop(connection);
    threads.join().map_err(|e| e.to_string())?;
    ended
}

/// Serves an editor. Files of the library are written into the folder where one is given, so that editors can show them.
///
/// # Errors
/// What the editor sent that is no message of the protocol, in words.
pub fn serve(connection: &Connection, library: Option<PathBuf>) -> Result<Ended, String> {
    let wrong = |e: ProtocolError| e.to_string();
    let (id, params) = match connection.initialize_start() {
        Ok(first) => first,
        Err(e) if e.channel_is_disconnected() => return Ok(Ended::Abruptly),
        Err(e) => return Err(wrong(e)),
    };
    let encoding = encoding(&params);
    connection.initialize_finish(id, requests::abilities(encoding)).map_err(wrong)?;
    let workers = Workers::start(connection.sender.clone()).map_err(|e| e.to_string())?;
    let mut server =
        Server { connection, workers, encoding, library, documents: BTreeMap::new(), told: BTreeMap::new() };
    server.converse()
}

/// In which units positions count: UTF-16, unless the editor has UTF-8 too.
fn encoding(params: &Value) -> Encoding {
    let known = params.pointer("/capabilities/general/positionEncodings").and_then(Value::as_array);
    let has_utf8 = known.is_some_and(|known| known.iter().any(|name| name == "utf-8"));
    if has_utf8 { Encoding::Utf8 } else { Encoding::Utf16 }
}

struct Server<'c> {
    connection: &'c Connection,
    workers: Workers,
    encoding: Encoding,
    library: Option<PathBuf>,
    /// By address.
    documents: BTreeMap<String, Document>,
    /// What was last told of each document, and of which version.
    told: BTreeMap<String, (i32, Vec<Diagnostic>)>,
}

impl Server<'_> {
    fn converse(&mut self) -> Result<Ended, String> {
        loop {
            let finished = self.workers.done.clone();
            select! {
                recv(self.connection.receiver) -> message => {
                    let Ok(message) = message else { return Ok(Ended::Abruptly) };
                    if let Some(ended) = self.message(message)? {
                        return Ok(ended);
                    }
                }
                recv(finished) -> done => match done {
                    Ok(done) => self.finished(done),
                    Err(_) => return Err("the compiler's thread has ended".to_owned()),
                },
            }
            if self.connection.receiver.is_empty() {
                self.refresh();
            }
        }
    }

    fn message(&mut self, message: Message) -> Result<Option<Ended>, String> {
        match message {
            Message::Request(request) => {
                if self.connection.handle_shutdown(&request).map_err(|e| e.to_string())? {
                    return Ok(Some(Ended::Properly));
                }
                self.request(request);
            }
            Message::Notification(notification) if notification.method == "exit" => {
                return Ok(Some(Ended::Abruptly));
            }
            Message::Notification(notification) => self.notified(notification),
            // Nothing is asked of the editor.
            Message::Response(_) => {}
        }
        Ok(None)
    }

    fn request(&mut self, request: Request) {
        let id = request.id.clone();
        let answer = catch_unwind(AssertUnwindSafe(|| self.answer(request)));
        let fault = "internal error: please report what was asked for".to_owned();
        let answer =
            answer.unwrap_or_else(|_| Some(Response::new_err(id, ErrorCode::InternalError as i32, fault)));
        if let Some(answer) = answer {
            self.send(answer.into());
        }
    }

    /// An editor that has gone away is noticed where messages are received.
    fn send(&self, message: Message) {
        let _ = self.connection.sender.send(message);
    }

    // ---- documents

    fn notified(&mut self, notification: Notification) {
        // What has not the form of its kind says nothing.
        let Notification { method, params } = notification;
        match method.as_str() {
            "textDocument/didOpen" => {
                if let Ok(DidOpenTextDocumentParams { text_document: new }) = serde_json::from_value(params) {
                    self.open(&new.uri, new.version, new.text);
                }
            }
            "textDocument/didChange" => {
                let Ok(DidChangeTextDocumentParams { text_document: of, content_changes }) =
                    serde_json::from_value(params)
                else {
                    return;
                };
                let uri = of.text_document_identifier.uri;
                if let Some(document) = self.documents.get_mut(&uri.0) {
                    document.change(of.version, content_changes);
                    self.others_are_stale(&uri);
                }
            }
            "textDocument/didClose" => {
                if let Ok(DidCloseTextDocumentParams { text_document: of }) = serde_json::from_value(params) {
                    self.documents.remove(&of.uri.0);
                    self.told.remove(&of.uri.0);
                    self.publish(&of.uri, None, Vec::new());
                    self.others_are_stale(&of.uri);
                }
            }
            // Files that are imported may have changed.
            "textDocument/didSave" | "workspace/didChangeWatchedFiles" => {
                let importing = self
                    .documents
                    .values_mut()
                    .filter(|d| d.now.sources.user_files().len() > 1 || !d.now.unread.is_empty());
                importing.for_each(|document| document.is_stale = true);
            }
            _ => {}
        }
    }

    fn open(&mut self, uri: &Uri, version: i32, text: String) {
        let document = Document::new(uri, version, text, self.encoding, &|path| read(&self.documents, path));
        self.told.remove(&uri.0);
        self.documents.insert(uri.0.clone(), document);
        self.others_are_stale(uri);
        self.has_been_read(uri);
    }

    /// Documents that import one that has changed are to be read again.
    fn others_are_stale(&mut self, changed: &Uri) {
        let path = path_of(changed);
        for (uri, document) in &mut self.documents {
            // A path may be written in several ways; the last of its names stays.
            let mut files = document.now.sources.user_files().iter().map(|file| Path::new(&file.name));
            let imports =
                files.any(|file| file.file_name() == path.file_name()) || !document.now.unread.is_empty();
            if *uri != changed.0 && imports {
                document.is_stale = true;
            }
        }
    }

    /// Reads the documents again that have changed.
    fn refresh(&mut self) {
        let stale: Vec<String> =
            self.documents.iter().filter(|(_, d)| d.is_stale).map(|(uri, _)| uri.clone()).collect();
        for uri in stale {
            let Some(mut document) = self.documents.remove(&uri) else { continue };
            document.refresh(&|path| read(&self.documents, path));
            self.documents.insert(uri.clone(), document);
            self.has_been_read(&Uri(uri));
        }
    }

    /// Errors of syntax are told at once; the rest when the program has been compiled.
    fn has_been_read(&mut self, uri: &Uri) {
        let Some(document) = self.documents.get(&uri.0) else { return };
        let sources = document.now.sources.clone();
        if !document.now.parses() {
            self.tell(uri);
        }
        let _ = self.workers.jobs.send(Job { uri: uri.clone(), sources });
    }

    fn finished(&mut self, done: Done) {
        let Some(document) = self.documents.get_mut(&done.uri.0) else { return };
        if !Arc::ptr_eq(&document.now.sources, &done.sources) {
            return;
        }
        document.now.examined = Some(done.examined);
        self.tell(&done.uri);
    }

    /// Waits a little for the shapes of a document that is being compiled.
    fn settle(&mut self, uri: &Uri) {
        let waits = |server: &Self| {
            let document = server.documents.get(&uri.0)?;
            let known = document.before.is_some();
            document.now.examined.is_none().then_some(PATIENCE[usize::from(!known)])
        };
        let start = Instant::now();
        while let Some(left) = waits(self).and_then(|most| most.checked_sub(start.elapsed())) {
            match self.workers.done.recv_timeout(left) {
                Ok(done) => self.finished(done),
                Err(_) => return,
            }
        }
    }

    // ---- diagnostics

    fn tell(&mut self, uri: &Uri) {
        let Some(document) = self.documents.get(&uri.0) else { return };
        let (version, found) = (document.version, tell::diagnostics(Asked { uri, document }));
        let new = (version, found.clone());
        if self.told.get(&uri.0) != Some(&new) {
            self.told.insert(uri.0.clone(), new);
            self.publish(uri, Some(version), found);
        }
    }

    fn publish(&self, uri: &Uri, version: Option<i32>, diagnostics: Vec<Diagnostic>) {
        let params = PublishDiagnosticsParams { uri: uri.clone(), version, diagnostics };
        let method = "textDocument/publishDiagnostics".to_owned();
        self.send(Notification { method, params: json!(params) }.into());
    }
}

/// The text of a file that is imported: as an editor has it, else from its file.
fn read(documents: &BTreeMap<String, Document>, path: &Path) -> Result<String, String> {
    let same = |document: &&Document| {
        document.path == path
            || path.file_name() == document.path.file_name() && is_same(&document.path, path)
    };
    match documents.values().find(same) {
        Some(document) => Ok(document.text().to_owned()),
        None => salient::read_source_text(path),
    }
}

fn is_same(a: &Path, b: &Path) -> bool {
    a.canonicalize().ok().zip(b.canonicalize().ok()).is_some_and(|(a, b)| a == b)
}

/// The program of a document, where it is open.
fn program_of(document: Option<&Document>) -> Option<&Program> {
    document.map(|document| &document.now)
}
