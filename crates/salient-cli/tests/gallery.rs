//! The pictures of `docs/gallery.md` and of the README: each is what its command draws, or shows the numbers of a table in
//! `docs/benchmarks.md`. `SALIENT_WRITE_DOCS=1` writes them anew.

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{salient, scratch};
use roxmltree::{Document, Node};
use salient_draw::bars::{self, Bar, Bars};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A picture: its file, what stands over it, and the command that draws it, from the root of the project.
struct Picture {
    file: &'static str,
    heading: &'static str,
    text: &'static str,
    command: &'static [&'static str],
}

/// A checkpoint that not every machine has: `tools/fetch-models.sh` fetches it.
const CHECKPOINT: &str = "weights/minilm.safetensors";

const PICTURES: [Picture; 7] = [
    Picture {
        file: "six-tokens",
        heading: "Six tokens, no weights",
        text: "Every token is its own query, key and value: `softmax(x @ x.T)`.",
        command: &[
            "examples/seeds/001_simple_attention.attn",
            "--data",
            "examples/seeds/data/001_simple_attention.npz",
            "--labels",
            "x0,x1,x2,x3,x4,x5",
        ],
    },
    Picture {
        file: "causal-heads",
        heading: "Four heads under a causal mask",
        text: "The mask is an input of the model; the scores of later keys are never weighed.",
        command: &[
            "examples/seeds/003_causal_multi_head.attn",
            "--data",
            "examples/seeds/data/003_causal_multi_head.npz",
        ],
    },
    Picture {
        file: "cross-attention",
        heading: "A sentence over its translation, with padding",
        text: "Eight heads of a decoder's queries over an encoder's keys; the keys of padding get no weight.",
        command: &[
            "examples/seeds/000_cross_attention_padding.attn",
            "--data",
            "examples/seeds/data/000_cross_attention_padding.npz",
        ],
    },
    Picture {
        file: "window",
        heading: "A sliding window",
        text: "Each query sees itself and the seven keys before it. Keys outside of the window are never read.",
        command: &[
            "examples/variants/sliding_window.attn",
            "--random",
            "--set",
            "W=8",
            "--set",
            "B=1",
            "--set",
            "H=4",
            "--set",
            "T=32",
            "--set",
            "E=8",
        ],
    },
    Picture {
        file: "alibi",
        heading: "ALiBi",
        text: "A penalty that grows with the distance, with a slope for each head (Press, Smith and Lewis, 2022).",
        command: &[
            "examples/variants/alibi.attn",
            "--random",
            "--set",
            "B=1",
            "--set",
            "H=4",
            "--set",
            "T=32",
            "--set",
            "E=8",
        ],
    },
    Picture {
        file: "t5-bias",
        heading: "The relative bias of T5",
        text: "A learned number for each bucket of distances and each head (Raffel et al., 2020), here drawn at random.",
        command: &[
            "examples/variants/t5_relative_bias.attn",
            "--random",
            "--draw",
            "q=zeros",
            "--set",
            "B=1",
            "--set",
            "H=4",
            "--set",
            "T=32",
            "--set",
            "S=32",
            "--set",
            "E=8",
        ],
    },
    Picture {
        file: "minilm",
        heading: "all-MiniLM-L6-v2 on a sentence",
        text: "Six layers of twelve heads of a real checkpoint. Some heads look at the token itself or the next one, many at the first token, which stands for the whole sentence.",
        command: &[
            "examples/models/minilm.attn",
            "--weights",
            CHECKPOINT,
            "--tokenizer",
            "weights/minilm.tokenizer.json",
            "--text",
            "The bank raised its rates, so we walked along the river bank.",
        ],
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words of a command from the root of the project, as they are called from anywhere.
fn from_root(word: &str) -> String {
    let path = root().join(word);
    if path.exists() { path.to_string_lossy().into_owned() } else { word.to_owned() }
}

/// How far a colour may be from the one that is drawn on another machine: arithmetic differs in the last bits.
const COLOUR: u8 = 2;

/// Whether two pictures show the same: the same elements, words and places, and about the same colours.
fn same(a: Node<'_, '_>, b: Node<'_, '_>) -> Result<(), String> {
    let of = |node: Node<'_, '_>| (node.tag_name().name().to_owned(), node.text().map(str::to_owned));
    if of(a) != of(b) && a.tag_name().name() != "title" {
        return Err(format!("{:?} and {:?}", of(a), of(b)));
    }
    for attribute in a.attributes() {
        let (name, own, other) = (attribute.name(), attribute.value(), b.attribute(attribute.name()));
        let other = other.ok_or_else(|| format!("no {name}"))?;
        let is_same = match name {
            "href" => {
                let (own, other) = (pixels(own), pixels(other));
                own.len() == other.len() && own.iter().zip(&other).all(|(x, y)| x.abs_diff(*y) <= COLOUR)
            }
            "fill" => channels(own).zip(channels(other)).all(|(x, y)| x.abs_diff(y) <= COLOUR),
            _ => own == other,
        };
        if !is_same {
            return Err(format!("{name}: {own} and {other}"));
        }
    }
    let (a, b): (Vec<_>, Vec<_>) = (a.children().collect(), b.children().collect());
    if a.len() != b.len() {
        return Err(format!("{} and {} elements", a.len(), b.len()));
    }
    a.into_iter().zip(b).try_for_each(|(a, b)| same(a, b))
}

/// The bytes of an image within a picture.
fn pixels(href: &str) -> Vec<u8> {
    let image = href.strip_prefix("data:image/png;base64,").expect("an image");
    let file = STANDARD.decode(image).expect("its file");
    let mut reader = png::Decoder::new(std::io::Cursor::new(file)).read_info().expect("its head");
    let mut bytes = vec![0; reader.output_buffer_size().expect("it fits")];
    reader.next_frame(&mut bytes).expect("its pixels");
    bytes
}

fn channels(colour: &str) -> impl Iterator<Item = u8> {
    let number = u32::from_str_radix(colour.trim_start_matches('#'), 16).expect("a colour");
    number.to_be_bytes().into_iter().skip(1)
}

#[test]
fn pictures_of_the_gallery_are_what_their_commands_draw() {
    let writes = std::env::var_os("SALIENT_WRITE_DOCS").is_some();
    let mut page = "# Gallery\n\nWhat `salient view` draws. A row is a query, a column a key, and the colour says how much of its attention \
                    the query gives to the key. The pictures are made by the commands under them, and a test compares them.\n"
        .to_owned();
    for picture in &PICTURES {
        let kept = root().join(format!("docs/pictures/{}.svg", picture.file));
        let command: Vec<&str> = picture.command.to_vec();
        let shown: Vec<String> = command
            .iter()
            .map(|word| if word.contains(' ') { format!("\"{word}\"") } else { (*word).to_owned() })
            .collect();
        let _ = write!(
            page,
            "\n## {}\n\n{}\n\n![{}](pictures/{}.svg)\n\n```\nsalient view {} -o {}.svg\n```\n",
            picture.heading,
            picture.text,
            picture.heading,
            picture.file,
            shown.join(" "),
            picture.file
        );
        if command.contains(&CHECKPOINT) && !root().join(CHECKPOINT).exists() {
            println!("skipped: {} needs {CHECKPOINT}, which tools/fetch-models.sh fetches", picture.file);
            continue;
        }
        let drawn = if writes { kept.clone() } else { scratch(&format!("gallery-{}.svg", picture.file)) };
        let words: Vec<String> = command.iter().map(|word| from_root(word)).collect();
        let path = drawn.to_string_lossy().into_owned();
        let mut call = vec!["view", "-o", &path];
        call.extend(words.iter().map(String::as_str));
        let ended = salient(&call);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let read = |path: &Path| std::fs::read_to_string(path).expect("a picture");
        let (drawn, kept) = (read(&drawn), read(&kept));
        let parse = |text| Document::parse(text).expect("SVG");
        let (drawn, kept) = (parse(&drawn), parse(&kept));
        same(drawn.root_element(), kept.root_element())
            .unwrap_or_else(|why| panic!("{}: {why}", picture.file));
    }
    let kept = root().join("docs/gallery.md");
    if writes {
        std::fs::write(&kept, &page).expect("the page is written");
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("the page"), page);
}

/// The program of the pictures in the README, and its stages.
const PIPELINE: [(&str, &str); 2] = [("graph", "pipeline-graph"), ("plan", "pipeline-plan")];

#[test]
fn pictures_of_the_readme_are_what_their_commands_draw() {
    let writes = std::env::var_os("SALIENT_WRITE_DOCS").is_some();
    let program = from_root("examples/variants/soft_cap.attn");
    for (stage, name) in PIPELINE {
        let kept = root().join(format!("docs/pictures/{name}.svg"));
        let drawn = if writes { kept.clone() } else { scratch(&format!("{name}.svg")) };
        let ended = salient(&["ir", &program, "--stage", stage, "--svg", &drawn.to_string_lossy()]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let read = |path: &Path| std::fs::read_to_string(path).expect("a picture");
        assert_eq!(read(&drawn), read(&kept), "{name}");
        assert!(read(&root().join("README.md")).contains(&format!("docs/pictures/{name}.svg")));
    }
}

/// The rows of the table of variants beside PyTorch: what it is of, how many times as fast as the fastest other, and which that is.
fn variants_beside_others(page: &str) -> Vec<Bar> {
    let table = page.split("References of the families").nth(1).expect("the table of variants");
    let rows = table.lines().skip_while(|line| !line.starts_with("|---")).skip(1);
    let cells = rows.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let (times, other) = cells[2].split_once(' ').expect("a number and who it is of");
        let note = other
            .replace('_', " ")
            .replace("torch flex", "FlexAttention")
            .replace("torch compiled", "torch.compile");
        Bar { name: cells[0].replace('_', " "), value: times.parse().expect("a number"), note }
    });
    cells.collect()
}

#[test]
fn the_picture_of_peers_has_the_numbers_of_the_benchmarks() {
    let page = std::fs::read_to_string(root().join("docs/benchmarks.md")).expect("the page");
    let mut variants = variants_beside_others(&page);
    assert!(variants.len() > 20, "{}", variants.len());
    variants.sort_by(|a, b| b.value.total_cmp(&a.value));
    let picture = bars::svg(&Bars {
        title: "Attention variants beside PyTorch, one thread".to_owned(),
        note: "time of the faster of FlexAttention and torch.compile over ours; right of the line, ours is faster".to_owned(),
        bars: variants,
    });
    let kept = root().join("docs/pictures/peers.svg");
    if std::env::var_os("SALIENT_WRITE_DOCS").is_some() {
        std::fs::write(&kept, &picture).expect("the picture is written");
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("the picture"), picture);
}
