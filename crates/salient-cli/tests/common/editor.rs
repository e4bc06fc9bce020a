//! An editor: starts `salient lsp` and speaks the protocol with it over its standard input and output.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// How long an answer may take before the test fails: no measurement, but an end.
const PATIENCE: Duration = Duration::from_secs(120);

/// An editor with a server of its own.
pub(crate) struct Editor {
    server: Child,
    stdin: ChildStdin,
    messages: Receiver<Value>,
    /// Diagnostics that came while something else was awaited.
    told: Vec<Value>,
    next: i64,
}

impl Editor {
    /// Starts a server; positions count units of UTF-16.
    pub(crate) fn new() -> Editor {
        let mut editor = Editor::silent();
        let abilities = editor.asks("initialize", &json!({ "capabilities": {} }));
        assert_eq!(abilities["capabilities"]["positionEncoding"], "utf-16");
        editor.tells("initialized", &json!({}));
        editor
    }

    /// Starts a server and says nothing yet.
    pub(crate) fn silent() -> Editor {
        let mut server = Command::new(env!("CARGO_BIN_EXE_salient"))
            .args(["lsp", "--stdio"])
            .env("XDG_CACHE_HOME", super::scratch("cache of editors"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let stdin = server.stdin.take().expect("it has a standard input");
        let stdout = server.stdout.take().expect("it has a standard output");
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            let mut stdout = BufReader::new(stdout);
            while let Some(message) = message(&mut stdout) {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        Editor { server, stdin, messages, told: Vec::new(), next: 0 }
    }

    /// Sends bytes as they are.
    pub(crate) fn sends(&mut self, bytes: &[u8]) {
        self.stdin.write_all(bytes).expect("the server reads");
        self.stdin.flush().expect("the server reads");
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        self.sends(format!("Content-Length: {}\r\n\r\n{text}", text.len()).as_bytes());
    }

    /// Sends a notification.
    pub(crate) fn tells(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Sends a request, and gives its answer.
    pub(crate) fn asks(&mut self, method: &str, params: &Value) -> Value {
        self.tries(method, params).unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// Sends a request, and gives its answer or its error.
    pub(crate) fn tries(&mut self, method: &str, params: &Value) -> Result<Value, Value> {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        loop {
            let message = self.messages.recv_timeout(PATIENCE).expect("the server answers");
            if message["id"] == id {
                let error = message.get("error").cloned();
                return error.map_or_else(|| Ok(message["result"].clone()), Err);
            }
            self.told.push(message);
        }
    }

    /// Opens a text, and gives what is told of it.
    pub(crate) fn opens(&mut self, uri: &str, text: &str) -> Vec<Value> {
        let document = json!({ "uri": uri, "languageId": "salient", "version": 1, "text": text });
        self.tells("textDocument/didOpen", &json!({ "textDocument": document }));
        self.diagnostics(uri, 1)
    }

    /// Replaces all of a text, and gives what is told of it.
    pub(crate) fn types(&mut self, uri: &str, version: i64, text: &str) -> Vec<Value> {
        let document = json!({ "uri": uri, "version": version });
        let changes = json!([{ "text": text }]);
        self.tells("textDocument/didChange", &json!({ "textDocument": document, "contentChanges": changes }));
        self.diagnostics(uri, version)
    }

    /// What is told next of a version of a text.
    pub(crate) fn diagnostics(&mut self, uri: &str, version: i64) -> Vec<Value> {
        loop {
            let is_it = |m: &Value| m["params"]["uri"] == uri && m["params"]["version"] == version;
            if let Some(at) = self.told.iter().position(is_it) {
                let message = self.told.remove(at);
                return message["params"]["diagnostics"].as_array().expect("a list").clone();
            }
            let message = self.messages.recv_timeout(PATIENCE).expect("the server tells");
            self.told.push(message);
        }
    }

    /// Asks about a position.
    pub(crate) fn at(&mut self, method: &str, uri: &str, (line, character): (usize, usize)) -> Value {
        let position = json!({ "line": line, "character": character });
        self.asks(method, &json!({ "textDocument": { "uri": uri }, "position": position, "context": { "includeDeclaration": true, "triggerKind": 1 } }))
    }

    /// Asks about a document.
    pub(crate) fn of(&mut self, method: &str, uri: &str) -> Value {
        self.asks(
            method,
            &json!({ "textDocument": { "uri": uri }, "options": { "tabSize": 4, "insertSpaces": true } }),
        )
    }

    /// Ends the conversation as the protocol has it.
    pub(crate) fn leaves(mut self) -> ExitStatus {
        assert_eq!(self.asks("shutdown", &Value::Null), Value::Null);
        self.tells("exit", &Value::Null);
        self.server.wait().expect("the server ends")
    }

    /// Goes away without a word.
    pub(crate) fn vanishes(self) -> ExitStatus {
        let Editor { mut server, stdin, .. } = self;
        drop(stdin);
        server.wait().expect("the server ends")
    }
}

/// The next message, if there is one.
fn message(stdout: &mut BufReader<ChildStdout>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stdout.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            header => {
                let value = header.strip_prefix("Content-Length: ");
                length = value.map_or(length, |value| value.parse().expect("a length"));
            }
        }
    }
    let mut body = vec![0; length];
    stdout.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).expect("the server speaks JSON"))
}

/// The position of the `n`-th occurrence of a text, in lines and units of UTF-16.
pub(crate) fn position(text: &str, wanted: &str, n: usize) -> (usize, usize) {
    let at = text.match_indices(wanted).nth(n).unwrap_or_else(|| panic!("{wanted} ({n})")).0;
    position_of(text, at)
}

/// The position of a byte.
pub(crate) fn position_of(text: &str, at: usize) -> (usize, usize) {
    let line = text[..at].rfind('\n').map_or(0, |n| n + 1);
    (text[..at].matches('\n').count(), text[line..at].encode_utf16().count())
}

/// The byte of a position that an answer has.
pub(crate) fn byte(text: &str, position: &Value) -> usize {
    let number = |key: &str| position[key].as_u64().expect("a number") as usize;
    let start: usize = text.split_inclusive('\n').take(number("line")).map(str::len).sum();
    let mut units = 0;
    let inside = text[start..].char_indices().find(|(_, c)| {
        units += c.len_utf16();
        units > number("character")
    });
    inside.map_or(text.len(), |(at, _)| start + at)
}

/// The text with the edits made that an answer has for it.
pub(crate) fn edited(text: &str, edits: &Value) -> String {
    let mut places: Vec<(usize, usize, &str)> = edits
        .as_array()
        .expect("a list of edits")
        .iter()
        .map(|edit| {
            let [start, end] = ["start", "end"].map(|key| byte(text, &edit["range"][key]));
            (start, end, edit["newText"].as_str().expect("a text"))
        })
        .collect();
    places.sort_unstable();
    let mut out = text.to_owned();
    for (start, end, new) in places.into_iter().rev() {
        out.replace_range(start..end, new);
    }
    out
}
