//! `salient report`: what the page holds, and how it answers in a browser. `SALIENT_WRITE_DOCS=1` writes `docs/report.schema.json`.

mod common;

use base64::Engine as _;
use common::{file, salient, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const BLOCKS: &str = "
/// A head of its own in each block.
block head[D](x: f32[T, D]) -> f32[T, D] {
  param wq: f32[D, D] = normal(0.5)
  let q = x @ wq
  let scores[i, j] = sum[e](q[i, e] * x[j, e]) / sqrt(D)
  let weights = softmax[j](if j <= i then scores[i, j] else -inf)
  return weights @ x
}
model two[D = 8](x: f32[T, D]) -> (y: f32[T, D]) {
  let y = x
  for l in 0..2 {
    y = y + head[D](y) as layers.{l}
  }
  return y
}
";

/// A page and its JSON.
fn report(model: &str, more: &[&str]) -> (PathBuf, Value) {
    let (page, json) = (scratch(&format!("{model}.html")), scratch(&format!("{model}.json")));
    let source = file(&format!("{model}.attn"), BLOCKS);
    let (page_name, json_name) = (page.display().to_string(), json.display().to_string());
    let call = ["report", &source, "--threads", "1", "-o", &page_name, "--json", &json_name];
    let ended = salient(&[&call, more].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json = std::fs::read_to_string(json).expect("the JSON is written");
    (page, serde_json::from_str(&json).expect("it is JSON"))
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("`{key}` is a list"))
}

fn number(value: &Value, key: &str) -> usize {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` is a number")) as usize
}

/// The lines of a pane that belong to a line of the source.
fn of_line(page: &Value, pane: &str, line: usize) -> Vec<String> {
    let pane = list(page, "panes").iter().find(|p| p["name"] == pane).expect("there is such a pane");
    let text: Vec<&str> = pane["text"].as_str().expect("a text").lines().collect();
    let belongs = |link: &&Value| list(link, "source").iter().any(|at| *at == line);
    let links = list(pane, "links").iter().filter(belongs);
    links
        .flat_map(|link| &text[number(link, "first")..number(link, "end")])
        .map(|&line| line.to_owned())
        .collect()
}

#[test]
fn a_page_holds_what_became_of_each_line() {
    let (path, page) = report("two", &["--random", "--set", "T=24"]);
    let html = std::fs::read_to_string(&path).expect("the page is written");
    let block = html.split("id=\"data\">").nth(1).and_then(|rest| rest.split("</script>").next());
    let in_page: Value = serde_json::from_str(block.expect("a block of JSON")).expect("it is JSON");
    assert_eq!(in_page, page);
    for reach in ["http://", "https://", "src=", "@import", "url("] {
        assert!(
            !html.replace("http://www.w3.org/2000/svg", "").contains(reach),
            "the page reaches out by {reach}"
        );
    }
    // Lines are counted from zero: 6 is that of the scores, 7 that of the weights.
    assert!(of_line(&page, "source", 5).concat().contains("let scores"));
    assert!(of_line(&page, "plan", 5).iter().any(|line| line.contains("attention ")), "{page}");
    assert!(of_line(&page, "fused", 7).iter().any(|line| line.contains("fused.attend")));
    assert!(of_line(&page, "machine code", 6).iter().any(|line| line.starts_with("; kernel ")));
    for pane in list(&page, "panes") {
        let lines = pane["text"].as_str().expect("a text").lines().count();
        let mut end = 0;
        for link in list(pane, "links") {
            assert!(end <= number(link, "first") && number(link, "first") < number(link, "end"), "{link}");
            end = number(link, "end");
            assert!(end <= lines, "{}: {link} of {lines}", pane["name"]);
            let kernels = list(&page, "kernels").len();
            assert!(
                list(link, "kernels").iter().all(|at| at.as_u64().is_some_and(|at| (at as usize) < kernels))
            );
        }
    }
}

/// Where a value is not as its schema says: by its path.
fn breaches(schema: &Value, of: &Value, value: &Value, path: &str, out: &mut Vec<String>) {
    if let Some(name) = of["$ref"].as_str().and_then(|link| link.strip_prefix("#/$defs/")) {
        return breaches(schema, &schema["$defs"][name], value, path, out);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let types = &of["type"];
    let allowed: Vec<&str> = types
        .as_array()
        .map_or(std::slice::from_ref(types), Vec::as_slice)
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_allowed = allowed.contains(&kind) || (kind == "integer" && allowed.contains(&"number"));
    if !is_allowed {
        out.push(format!("{path} is of the kind {kind}, and may be {allowed:?}"));
    }
    if let Some(items) = value.as_array() {
        let each = items.iter().enumerate();
        each.for_each(|(at, item)| breaches(schema, &of["items"], item, &format!("{path}[{at}]"), out));
    }
    if let Some(fields) = value.as_object() {
        let required = of["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        out.extend(
            required
                .filter(|name| !fields.contains_key(*name))
                .map(|name| format!("{path}.{name} is missing")),
        );
        for (name, field) in fields {
            let path = format!("{path}.{name}");
            match of["properties"].get(name) {
                Some(of) => breaches(schema, of, field, &path, out),
                None => out.push(format!("{path} is not in the schema")),
            }
        }
    }
}

#[test]
fn the_schema_in_the_documents_describes_a_page() {
    let schema = salient_draw::page::schema();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        std::fs::write(&path, &text).expect("it is written");
    }
    let written = std::fs::read_to_string(&path).expect("the schema is there");
    assert!(text == written, "docs/report.schema.json: run this test with SALIENT_WRITE_DOCS=1");
    let (_, mut page) = report("schema", &["--random", "--set", "T=24"]);
    let said = |page: &Value| {
        let mut out = Vec::new();
        breaches(&schema, &schema, page, "page", &mut out);
        out
    };
    assert_eq!(said(&page), Vec::<String>::new());
    page["masks"][0]["maps"][0]["tile"] = json!("four");
    page["kernels"][0].as_object_mut().expect("a kernel").remove("name");
    page["more"] = json!(1);
    let said = said(&page);
    assert_eq!(said.len(), 3, "{said:?}");
}

#[test]
fn a_program_without_attention_has_a_page() {
    let source = file("plain.attn", "model plain(x: f32[T, D]) -> (y: f32[T, D]) {\n  return x * 2.0\n}\n");
    let json = scratch("plain.json");
    let page = scratch("plain.html");
    let ended = salient(&[
        "report",
        &source,
        "--random",
        "-o",
        &page.display().to_string(),
        "--json",
        &json.display().to_string(),
    ]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("the page shows no weights: "), "{}", ended.stderr);
    let page: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(
        (list(&page, "masks"), list(&page, "walks"), list(&page, "weights")),
        (&[][..], &[][..], &[][..])
    );
    assert_eq!(list(&page, "kernels").len(), 1);
}

/// Nothing but the program is given: parameters without initialisers, and dimensions that only these have, are drawn too.
#[test]
fn examples_have_pages_without_data() {
    let page = scratch("alone.html").display().to_string();
    let examples = [
        "examples/seeds/000_multi_head_combined_mask.attn",
        "examples/seeds/001_causal_attention.attn",
        "examples/variants/key_padding.attn",
    ];
    for source in examples {
        let ended = salient(&["report", source, "--set", "T=24", "-o", &page]);
        assert_eq!(ended.code, Some(0), "{source}: {}", ended.stderr);
    }
}

#[test]
fn a_broken_program_has_no_page() {
    let source = file("broken.attn", "model broken(x: f32[T]) -> (y: f32[T]) {\n  return z\n}\n");
    let page = scratch("broken.html");
    let ended = salient(&["report", &source, "-o", &page.display().to_string()]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("broken.attn:2:10") && !page.exists(), "{}", ended.stderr);
}

#[test]
fn numbers_of_a_page_agree_with_each_other() {
    let (_, page) = report("numbers", &["--random", "--set", "T=24"]);
    assert_eq!(page["sizes"], json!([{"name": "T", "length": 24}]));
    let totals = list(&page, "totals");
    assert_eq!(totals.len(), 2);
    let of = |at: usize, key: &str| totals[at][key].as_f64().expect("a number");
    assert!(of(1, "kernels") < of(0, "kernels") && of(1, "bytes") < of(0, "bytes"));
    assert!(of(0, "measured") > 0.0 && of(1, "measured") > 0.0);
    // Kernels of equal blocks are counted; together they are those of the call.
    let called = list(&page, "kernels").iter().filter(|k| k["once"] == false && k["when"].is_null());
    let flops: f64 = called.clone().map(|k| k["flops"].as_f64().unwrap() * number(k, "times") as f64).sum();
    assert!((flops - of(1, "flops")).abs() <= 1e-6 * flops, "{flops} and {}", of(1, "flops"));
    assert!(called.into_iter().all(|k| k["measured"].as_f64().is_some_and(|ms| ms > 0.0)));
    let most = list(&page["memory"], "kernels").len();
    for buffer in list(&page["memory"], "buffers") {
        assert!(
            number(buffer, "first") <= number(buffer, "last") && number(buffer, "last") < most,
            "{buffer}"
        );
    }
    for walk in list(&page, "walks") {
        assert_eq!((walk["operator"].as_str(), walk["line"].as_u64()), (Some("attend"), Some(7)));
        let steps = list(walk, "steps");
        assert_eq!(steps.last().expect("a step")["rule"], "attention/attend");
        assert!(steps.iter().all(|step| step["before"] != step["after"] && step["why"] != ""), "{steps:?}");
    }
}

#[test]
fn a_causal_mask_is_shown_at_every_length_and_skips_the_upper_triangle() {
    let (_, page) = report("masks", &["--random", "--set", "T=24"]);
    let masks = list(&page, "masks");
    let maps = list(&masks[0], "maps");
    let lengths: Vec<usize> = maps.iter().map(|map| number(map, "queries")).collect();
    assert_eq!(lengths, [16, 24, 32, 64, 128, 256, 512, 1024]);
    for map in maps {
        let (queries, tile, columns) = (number(map, "queries"), number(map, "tile"), number(map, "columns"));
        let kept = queries as f64 * (queries + 1) as f64 / 2.0 / (queries * queries) as f64;
        assert!((map["kept"].as_f64().unwrap() - kept).abs() < 1e-12, "{map}");
        assert!((map["skipped"].as_f64().unwrap() - (1.0 - kept)).abs() < 1e-12, "{map}");
        for (at, found) in map["tiles"].as_str().unwrap().chars().enumerate() {
            let (row, column) = (at / columns * tile, at % columns * tile);
            let last = (row + tile).min(queries) - 1;
            let expected = match () {
                () if column > last => '-',
                () if (column + tile).min(queries) - 1 <= row => '#',
                () => '~',
            };
            assert_eq!(found, expected, "tile {at} of {queries}");
        }
    }
}

#[test]
fn weights_of_a_page_are_those_of_the_interpreter() {
    let (_, page) = report("weights", &["--random", "--set", "T=6"]);
    let source = file("weights.attn", BLOCKS);
    let shown =
        salient(&["run", &source, "--random", "--set", "T=6", "--engine", "oracle", "--print", "weights"]);
    let numbers: Vec<f64> = shown
        .stdout
        .split("layers.0.weights: f32[6, 6]\n")
        .nth(1)
        .expect("the weights are printed")
        .split(|c: char| c == '[' || c == ']' || c.is_whitespace())
        .filter_map(|word| word.parse().ok())
        .take(36)
        .collect();
    let map = &list(&page, "weights")[0];
    let cells = base64::engine::general_purpose::STANDARD.decode(map["cells"].as_str().unwrap()).unwrap();
    let high = map["high"].as_f64().unwrap();
    assert_eq!((cells.len(), numbers.len()), (36, 36));
    for (cell, expected) in cells.iter().zip(&numbers) {
        let shown = f64::from(*cell) / 255.0 * high;
        assert!((shown - expected).abs() <= high / 255.0, "{shown} where {expected} is right");
    }
}

/// The browser, if there is one.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()))
}

const WATCH: &str = "<script>
window.seen = { errors: [] };
addEventListener('error', (e) => seen.errors.push(String(e.message)));
addEventListener('securitypolicyviolation', (e) => seen.errors.push('refused: ' + e.blockedURI));
console.error = (...words) => seen.errors.push(words.join(' '));
console.warn = console.error;
</script></head>";

const USE: &str = r##"<script>
try {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const texts = (selector) => all(selector).map((element) => element.textContent.trim());
  const unit = (side, words) => all(`#${side} .unit.linked`).find((element) => element.textContent.includes(words));
  const hover = (element) => element.dispatchEvent(new MouseEvent("mouseenter"));
  const key = (element, name) => element.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  const button = (side, name) => all(`#${side} button`).find((element) => element.textContent === name);
  hover(unit("left", "let scores"));
  seen.became = texts("#right .unit.to");
  seen.said = document.getElementById("linked").textContent;
  hover(unit("right", "attention "));
  seen.came_from = texts("#left .unit.to");
  key(document.querySelector("#left .code"), "ArrowDown");
  key(document.querySelector("#left .code"), "ArrowDown");
  seen.second = texts("#left .unit.from");
  button("right", "machine code").click();
  seen.chosen = texts("#right button[aria-selected=true]");
  hover(unit("left", "let scores"));
  seen.code = texts("#right .unit.to").map((text) => text.split("\n")[0]);
  const slider = document.querySelector("#masks input");
  const caption = document.querySelector("#masks [aria-live]");
  seen.longest = caption.textContent;
  slider.value = "0";
  slider.dispatchEvent(new Event("input"));
  seen.shortest = caption.textContent;
  const walk = document.querySelector("#rules .walk");
  seen.rules = [walk.querySelector(".steps p").textContent];
  walk.querySelectorAll("button")[1].click();
  seen.rules.push(walk.querySelector(".steps p").textContent);
  key(walk, "ArrowLeft");
  seen.rules.push(walk.querySelector(".steps p").textContent);
  seen.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.links = all("nav a").filter((a) => document.querySelector(a.getAttribute("href")) === null).length;
  seen.empty = all("main section").filter((section) => section.innerText.trim().split("\n").length < 2).map((s) => s.id);
  seen.loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
  const canvas = document.querySelector("#weights canvas");
  seen.pixel = [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data];
  seen.maps = all("#weights canvas").length;
  seen.once = all("#kernels summary").map((element) => element.textContent);
  seen.ready = document.documentElement.dataset.ready;
} catch (fault) { seen.errors.push(String(fault.stack)); }
document.body.replaceChildren(Object.assign(document.createElement("pre"), { id: "seen", textContent: btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) }));
</script></body>"##;

/// What the page answers in a window of so many pixels.
fn in_browser(browser: &str, page: &Path, width: usize) -> Value {
    let html = std::fs::read_to_string(page).expect("the page");
    let (head, rest) = html.split_once("</head>").expect("a head");
    let (body, end) = rest.rsplit_once("</body>").expect("a body");
    let used = scratch(&format!("used-{width}.html"));
    std::fs::write(&used, [head, WATCH, body, USE, end].concat()).expect("it is written");
    let profile = scratch(&format!("profile-{width}"));
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--disable-dev-shm-usage"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--window-size={width},900"))
        .arg(format!("file://{}", used.display()))
        .output()
        .expect("the browser runs");
    let dom = String::from_utf8_lossy(&out.stdout).into_owned();
    let coded = dom.split("id=\"seen\">").nth(1).and_then(|rest| rest.split('<').next());
    let coded = coded.unwrap_or_else(|| panic!("the page has answered: {dom}\n{:?}", out.stderr));
    let bytes = base64::engine::general_purpose::STANDARD.decode(coded).expect("base64");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// The picture in `docs/report.md`, which a browser makes of the README's first example.
#[test]
fn a_picture_of_a_page_is_in_the_documents() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let picture = docs.join("pictures/report.png");
    let (width, height) = (1200, 2700);
    if let Some(browser) = browser().filter(|_| std::env::var_os("SALIENT_WRITE_DOCS").is_some()) {
        let page = scratch("pictured.html").display().to_string();
        let (source, data) =
            ("examples/causal_self_attention.attn", "examples/data/causal_self_attention.npz");
        let ended = salient(&["report", source, "--data", data, "-o", &page]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let profile = scratch("profile-picture");
        let out = Command::new(browser)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--screenshot={}", picture.display()))
            .arg(format!("file://{page}"))
            .output();
        assert!(out.is_ok_and(|out| out.status.success()));
    }
    let decoder =
        png::Decoder::new(std::io::BufReader::new(std::fs::File::open(&picture).expect("it is there")));
    let reader = decoder.read_info().expect("a PNG");
    assert_eq!((reader.info().width, reader.info().height), (width, height));
    let text = std::fs::read_to_string(docs.join("report.md")).expect("the document");
    for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        assert!(docs.join(link).exists(), "docs/report.md links to {link}, which is not there");
    }
}

#[test]
fn a_page_answers_pointer_keys_and_slider_in_a_browser() {
    let Some(browser) = browser() else {
        eprintln!("skipped: there is no Chromium on this machine");
        return;
    };
    let (path, _) = report("browser", &["--random", "--set", "T=24"]);
    for width in [1440, 500] {
        let seen = in_browser(browser, &path, width);
        assert_eq!(seen["errors"], json!([]), "at {width}");
        assert_eq!(seen["ready"], "true");
        let texts =
            |key: &str| list(&seen, key).iter().map(|t| t.as_str().unwrap_or_default()).collect::<Vec<_>>();
        assert!(texts("became").iter().any(|text| text.contains("attention ")), "{seen}");
        assert!(seen["said"].as_str().unwrap().starts_with("source, line 6; kernel"), "{seen}");
        assert!(texts("came_from").iter().any(|text| text.starts_with("let scores")), "{seen}");
        assert_eq!(texts("second").len(), 1);
        assert_eq!(texts("chosen"), ["machine code"]);
        assert!(texts("code").iter().any(|text| text.starts_with("; kernel ")), "{seen}");
        assert!(seen["longest"].as_str().unwrap().starts_with("1024 queries by 1024 keys"), "{seen}");
        assert!(seen["shortest"].as_str().unwrap().starts_with("16 queries by 16 keys"), "{seen}");
        let rules = texts("rules");
        assert!(
            rules[0].starts_with("rule 1 of") && rules[1].starts_with("rule 2 of") && rules[2] == rules[0]
        );
        assert_eq!((&seen["overflow"], &seen["links"]), (&json!(0), &json!(0)), "at {width}");
        assert_eq!((&seen["empty"], &seen["loaded"]), (&json!([]), &json!([])));
        assert!(texts("once")[0].ends_with("when the parameters are bound"), "{seen}");
        // The first query has one key: the greatest weight, in the brightest colour.
        assert_eq!((&seen["pixel"], &seen["maps"]), (&json!([253, 231, 37, 255]), &json!(2)));
    }
}
