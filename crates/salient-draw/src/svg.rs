//! A writer of SVG text: elements with attributes, text escaped, and one style sheet for light and dark.

use std::fmt::{Display, Write as _};

/// The style sheet of every picture. Colours are named once, for light and for dark, and elements refer to them by class.
const STYLE: &str = "\
svg{--paper:#ffffff;--ink:#1b1f24;--faint:#6b7280;--line:#c9ced6;--box:#f3f5f8;--mark:#1f6feb;\
background:var(--paper);max-width:100%;height:auto;font-family:ui-sans-serif,system-ui,'DejaVu Sans',sans-serif}\
@media(prefers-color-scheme:dark){svg{--paper:#0f1318;--ink:#e6e9ee;--faint:#9aa3af;--line:#3a424d;--box:#1a2028;--mark:#6ea8fe}}\
text{fill:var(--ink)}.faint{fill:var(--faint)}.line{stroke:var(--line);fill:none}.box{fill:var(--box);stroke:var(--line)}\
.mark{fill:var(--mark)}.code{font-family:ui-monospace,'DejaVu Sans Mono',monospace}";

/// A picture that is being written.
#[derive(Debug, Clone)]
pub struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
    open: Vec<&'static str>,
}

impl Svg {
    /// An empty picture of so many pixels, with what a screen reader says of it.
    #[must_use]
    pub fn new(width: f64, height: f64, title: &str) -> Svg {
        Svg { width, height, title: title.to_owned(), body: String::new(), open: Vec::new() }
    }

    /// An element without content.
    pub fn element(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.start(name, attributes);
        self.body.push_str("/>\n");
    }

    /// An element around a text.
    pub fn text(&mut self, name: &str, attributes: &[(&str, &dyn Display)], text: &str) {
        self.start(name, attributes);
        let _ = writeln!(self.body, ">{}</{name}>", escaped(text));
    }

    /// Opens an element, which [`Svg::close`] ends.
    pub fn open(&mut self, name: &'static str, attributes: &[(&str, &dyn Display)]) {
        self.start(name, attributes);
        self.body.push_str(">\n");
        self.open.push(name);
    }

    /// Ends the element that was opened last.
    pub fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            let _ = writeln!(self.body, "</{name}>");
        }
    }

    fn start(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        let _ = write!(self.body, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.body, " {key}=\"{}\"", escaped(&value.to_string()));
        }
    }

    /// The whole file.
    #[must_use]
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        let (width, height, title, body) = (self.width, self.height, escaped(&self.title), self.body);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\">\n<title>{title}</title>\n<style>{STYLE}</style>\n{body}</svg>\n"
        )
    }
}

/// A text as it stands in an attribute or between elements. Characters that XML does not have are left out.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{9}' | '\u{a}' | '\u{d}' => out.push(c),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_what_is_open_is_closed() {
        let mut svg = Svg::new(10.0, 5.0, "a < \"b\"");
        svg.open("g", &[("class", &"line")]);
        svg.element("rect", &[("x", &1.5), ("data-name", &"<&\u{1}")]);
        svg.text("text", &[], "T×T & more");
        let text = svg.finish();
        assert!(text.contains("<title>a &lt; &quot;b&quot;</title>"), "{text}");
        assert!(text.contains("<g class=\"line\">\n<rect x=\"1.5\" data-name=\"&lt;&amp;\"/>\n"), "{text}");
        assert!(text.ends_with("<text>T×T &amp; more</text>\n</g>\n</svg>\n"), "{text}");
    }
}
