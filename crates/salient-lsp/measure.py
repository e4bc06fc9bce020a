"""How long the language server takes to answer after a keystroke in a long file.

    python3 crates/salient-lsp/measure.py [target/release/salient] [lines]

The file is examples/models/t5.attn with its declarations repeated under other names, up to so many lines (300). Each keystroke is one
character more or less of a comment, of a name or of a number; after it one request is sent, and what is printed is the time from the
keystroke to its answer: the median and the greatest of each kind of request.
"""

import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def long_file(lines):
    text = (ROOT / "examples/models/t5.attn").read_text()
    declared = set(re.findall(r"^(?:block|fn|model) (\w+)", text, re.M))
    parts, copy = [text], 1
    while sum(part.count("\n") for part in parts) < lines:
        copy += 1
        parts.append(re.sub(r"\b(" + "|".join(declared) + r")\b", rf"\1_{copy}", text))
    return "\n".join(parts)


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen([command, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last = 0

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self.process.stdin.flush()

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def receive(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length))

    def diagnostics_of(self, version):
        while True:
            message = self.receive()
            is_one = message.get("method") == "textDocument/publishDiagnostics"
            if is_one and message["params"].get("version") == version:
                return

    def ask(self, method, params):
        self.last += 1
        self.send({"id": self.last, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.last and "method" not in message:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "target/release/salient")
    text = long_file(int(sys.argv[2]) if len(sys.argv) > 2 else 300)
    lines = text.split("\n")
    uri = (ROOT / "examples/models/measured.attn").as_uri()
    document = {"uri": uri}
    server = Server(command)
    server.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    server.tell("initialized", {})
    server.tell("textDocument/didOpen", {"textDocument": {**document, "languageId": "attn", "version": 1, "text": text}})
    server.diagnostics_of(1)
    # In the middle of the file: a name that a line reads, where a number stands, a comment of its own.
    middle = len(lines) // 2
    row = next(n for n in range(middle, len(lines)) if re.search(r"let \w+ = \w+", lines[n]))
    column = re.search(r"= (\w)", lines[row]).start(1)
    at = {"line": row, "character": column}
    whole = {"start": {"line": 0, "character": 0}, "end": {"line": len(lines), "character": 0}}
    requests = {
        "hover": {"position": at},
        "completion": {"position": at},
        "definition": {"position": at},
        "documentSymbol": {},
        "inlayHint": {"range": whole},
        "codeLens": {},
        "diagnostic": None,
    }
    print(f"{len(lines)} lines")
    version = 1
    for kind, params in requests.items():
        seconds = []
        for stroke in range(60):
            version += 1
            insert = stroke % 2 == 0
            start = {"line": row, "character": column}
            end = start if insert else {"line": row, "character": column + 1}
            change = {"range": {"start": start, "end": end}, "text": "q" if insert else ""}
            begin = time.perf_counter()
            versioned = {**document, "version": version}
            server.tell("textDocument/didChange", {"textDocument": versioned, "contentChanges": [change]})
            if params is None:
                server.diagnostics_of(version)
            else:
                server.ask(f"textDocument/{kind}", {"textDocument": document, **params})
            seconds.append(time.perf_counter() - begin)
        print(f"{kind:15} median {statistics.median(seconds) * 1e3:6.1f} ms, greatest {max(seconds) * 1e3:6.1f} ms")
    server.ask("shutdown", None)
    server.tell("exit", None)


if __name__ == "__main__":
    main()
