"use strict";
// Draws the report from the JSON block. Nothing is loaded from elsewhere.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";

  /** An element with attributes and children; text becomes text, never markup. */
  function make(tag, attributes = {}, ...children) {
    const isSvg = ["svg", "g", "path", "line", "rect", "circle", "text", "title"].includes(tag);
    const made = isSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (value !== undefined && value !== null) made.setAttribute(name, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  }
  const body = (id) => document.querySelector(`#${id} .body`);
  const missing = (id, words) => body(id).append(make("p", { class: "note" }, words));

  /** A number with a prefix of units: 1.2 M. */
  function short(number, unit = "") {
    if (number === null || number === undefined) return "–";
    const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    for (const [size, letter] of steps) if (Math.abs(number) >= size) return `${(number / size).toPrecision(3)} ${letter}${unit}`;
    return `${Number.isInteger(number) ? number : number.toPrecision(3)} ${unit}`.trim();
  }
  const ms = (number) => (number === null || number === undefined ? "–" : number >= 100 ? number.toFixed(0) : number.toPrecision(3));
  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

  function table(target, heads, rows) {
    const numeric = (at) => (heads[at].number ? "number" : undefined);
    const head = make("tr", {}, ...heads.map((h, at) => make("th", { class: numeric(at), scope: "col" }, h.text)));
    const lines = rows.map((row) => make("tr", {}, ...row.map((cell, at) => make("td", { class: numeric(at) }, cell))));
    target.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "table" },
      make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines))));
  }
  const words = (text) => ({ text });
  const count = (text) => ({ text, number: true });

  // The head of the page.
  document.getElementById("model").textContent = page.model;
  const sizes = page.sizes.map((size) => `${size.name} = ${size.length}`).join(", ");
  document.getElementById("about").textContent =
    `${page.file}${sizes ? `, at ${sizes}` : ""}; ${page.data}; ${page.machine.isa}, ${plural(page.machine.threads, "thread")}.`;

  // Totals.
  table(body("totals"),
    [words("form"), count("kernels"), count("operations"), count("bytes moved"), count("working memory"), count("priced, ms"), count("measured, ms")],
    page.totals.map((t) => [t.name, String(t.kernels), short(t.flops), short(t.bytes, "B"), short(t.working, "B"), ms(t.priced), ms(t.measured)]));
  body("totals").append(make("p", { class: "note" }, page.taken));

  // Panes whose lines are linked.
  const linked = document.getElementById("linked");
  const shown = { left: null, right: null };
  const meet = (some, others) => some.some((one) => others.includes(one));

  function related(pane, unit, other, candidate) {
    if (pane === other) return unit === candidate;
    if (pane.name === "source" || other.name === "source") return meet(unit.source, candidate.source);
    return unit.kernels.length > 0 ? meet(unit.kernels, candidate.kernels) : meet(unit.source, candidate.source);
  }
  function say(pane, unit) {
    const names = unit.kernels.map((at) => `${page.kernels[at].word} ${page.kernels[at].name}`);
    const lines = unit.source.map((line) => line + 1).join(", ");
    const place = `${pane.name}, line ${unit.first + 1}`;
    const of = pane.name === "source" || lines === "" ? "" : `; source ${unit.source.length === 1 ? "line" : "lines"} ${lines}`;
    linked.textContent = `${place}${of}${names.length > 0 ? `; ${names.length === 1 ? "kernel" : "kernels"} ${names.join(", ")}` : "; no kernel of its own"}`;
  }
  function point(side, unit) {
    for (const key of ["left", "right"]) {
      const view = shown[key];
      let first = null;
      for (const [element, candidate] of view.units) {
        const is = related(shown[side].pane, unit, view.pane, candidate);
        element.classList.toggle("from", is && key === side);
        element.classList.toggle("to", is && key !== side);
        if (is && key !== side && first === null) first = element;
      }
      if (first !== null) {
        const box = view.code;
        const above = first.offsetTop < box.scrollTop;
        const below = first.offsetTop + Math.min(first.offsetHeight, 40) > box.scrollTop + box.clientHeight;
        if (above || below) box.scrollTop = Math.max(0, first.offsetTop - box.clientHeight / 3);
      }
    }
    say(shown[side].pane, unit);
  }
  function showPane(side, pane) {
    const code = make("div", { class: "code", tabindex: "0", role: "group", "aria-label": `${pane.name}: ${pane.about}` });
    const lines = pane.text.split("\n");
    const units = [];
    let at = 0;
    const plain = (end) => {
      if (end > at) code.append(make("div", { class: "unit" }, lines.slice(at, end).join("\n") || " "));
      at = Math.max(at, end);
    };
    for (const link of pane.links) {
      plain(link.first);
      const text = lines.slice(link.first, link.end).join("\n") || " ";
      const element = make("div", { class: "unit linked", onmouseenter: () => point(side, link) }, text);
      units.push([element, link]);
      code.append(element);
      at = link.end;
    }
    plain(lines.length);
    let active = -1;
    code.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step === undefined || units.length === 0) return;
      event.preventDefault();
      active = Math.min(units.length - 1, Math.max(0, active + step));
      const [element, link] = units[active];
      if (element.offsetTop < code.scrollTop || element.offsetTop + 20 > code.scrollTop + code.clientHeight) {
        code.scrollTop = Math.max(0, element.offsetTop - code.clientHeight / 3);
      }
      point(side, link);
    });
    shown[side] = { pane, units, code };
    return code;
  }
  function tabs(side, panes, first) {
    const target = document.getElementById(side);
    const bar = make("div", { class: "tabs", role: "tablist" });
    const choose = (pane) => {
      for (const button of bar.children) button.setAttribute("aria-selected", String(button.textContent === pane.name));
      const code = showPane(side, pane);
      target.replaceChildren(bar, make("p", { class: "hint" }, pane.about), code);
      linked.textContent = "\u00a0";
      const other = shown[side === "left" ? "right" : "left"];
      if (other !== null) for (const [element] of other.units) element.classList.remove("from", "to");
    };
    for (const pane of panes) {
      bar.append(make("button", { role: "tab", type: "button", onclick: () => { choose(pane); keep(pane.name); } }, pane.name));
    }
    const keep = (name) => [...bar.children].find((button) => button.textContent === name).focus();
    choose(panes.find((pane) => pane.name === first) ?? panes[0]);
  }
  tabs("left", page.panes, "source");
  tabs("right", page.panes.filter((pane) => pane.name !== "source"), "plan");

  // Rules, one at a time.
  const source = page.panes.find((pane) => pane.name === "source").text.split("\n");
  if (page.walks.length === 0) missing("rules", "No operator of this program is fused with another by the rules.");
  for (const walk of page.walks) {
    let at = 0;
    const times = walk.times > 1 ? `, in each of ${walk.times} equal blocks` : "";
    const place = make("p", { class: "hint", "aria-live": "polite" });
    const rule = make("div", { class: "rule" });
    const back = make("button", { type: "button", onclick: () => go(-1), "aria-label": `the rule before, for ${walk.name}` }, "◀ back");
    const next = make("button", { type: "button", onclick: () => go(1), "aria-label": `the next rule, for ${walk.name}` }, "next ▶");
    const show = () => {
      const step = walk.steps[at];
      back.disabled = at === 0;
      next.disabled = at + 1 === walk.steps.length;
      place.textContent = `rule ${at + 1} of ${walk.steps.length}`;
      const line = step.line === null ? null : make("pre", { class: "note" }, `${String(step.line + 1).padStart(4)}  ${source[step.line].trim()}`);
      rule.replaceChildren(
        make("strong", {}, step.rule), ` (${step.holds})`, ...(line === null ? [] : [line]),
        make("pre", { class: "was" }, step.before), make("pre", { class: "is" }, step.after), make("div", { class: "note" }, step.why));
    };
    const go = (by) => { at = Math.min(walk.steps.length - 1, Math.max(0, at + by)); show(); };
    const where = walk.line === null ? "" : `, line ${walk.line + 1}`;
    const part = make("div", { class: "walk" }, make("h3", {}, `${walk.name} is fused.${walk.operator}${where}${times}`), make("p", { class: "note" }, walk.about));
    if (walk.steps.length > 0) {
      part.append(make("div", { class: "steps" }, back, next, place), rule);
      part.addEventListener("keydown", (event) => {
        if (event.key === "ArrowRight") go(1);
        if (event.key === "ArrowLeft") go(-1);
      });
      show();
    } else part.append(make("p", { class: "note" }, "It is written so: no rule was needed."));
    body("rules").append(part);
  }

  // Masks.
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const repaint = [];
  const kinds = { "-": "skipped", "~": "partial", "#": "whole" };
  if (page.masks.length === 0) missing("masks", "No attention with rows of queries is in the plan.");
  for (const [number, mask] of page.masks.entries()) {
    const canvas = make("canvas", { role: "img" });
    const caption = make("p", { class: "hint", "aria-live": "polite" });
    const slider = make("input", { type: "range", min: "0", max: String(mask.maps.length - 1), value: String(mask.maps.length - 1), step: "1", id: `length-${number}`, oninput: () => show() });
    const show = () => {
      const map = mask.maps[Number(slider.value)];
      const rows = Math.ceil(map.tiles.length / map.columns);
      const side = Math.max(2, Math.floor(320 / Math.max(rows, map.columns)));
      canvas.width = map.columns * side;
      canvas.height = rows * side;
      const paint = canvas.getContext("2d");
      for (let at = 0; at < map.tiles.length; at += 1) {
        paint.fillStyle = colour(kinds[map.tiles[at]]);
        const gap = side > 4 ? 1 : 0;
        paint.fillRect((at % map.columns) * side, Math.floor(at / map.columns) * side, side - gap, side - gap);
      }
      const kept = map.kept === null ? "" : `; ${percent(map.kept)} count`;
      caption.textContent = `${map.queries} queries by ${map.keys} keys, tiles of ${map.tile}: ${percent(map.skipped)} of all pairs are not visited${kept}`;
      canvas.setAttribute("aria-label", `${mask.name}: ${caption.textContent}`);
      slider.setAttribute("aria-valuetext", `${map.queries} queries`);
    };
    const keys = Object.values(kinds).map((kind) => make("span", { class: "note" }, make("span", { class: "key", style: `background: var(--${kind})` }), `${kind} `));
    const controls = make("div", {}, make("label", { for: `length-${number}` }, "length"), make("br"), slider, caption, make("p", {}, ...keys), make("p", { class: "note" }, "Keys of a row: ", make("code", {}, mask.keys)), make("p", { class: "note" }, mask.about));
    body("masks").append(make("h3", {}, mask.times > 1 ? `${mask.name}, and ${plural(mask.times - 1, "attention")} like it` : mask.name), make("div", { class: "map" }, canvas, controls));
    repaint.push(show);
    show();
  }

  // The roofline.
  const timed = page.kernels.filter((kernel) => !kernel.once && kernel.measured > 0 && kernel.flops > 0 && kernel.bytes > 0);
  if (timed.length === 0) missing("roofline", "No kernel with arithmetic was measured.");
  else {
    const points = timed.map((kernel) => ({ kernel, x: kernel.flops / kernel.bytes, y: kernel.flops / kernel.measured / 1e6 }));
    const { gflops, gbytes, threads } = page.machine;
    const [width, height, left, top, bottom] = [720, 380, 60, 26, 46];
    const low = (values, bound) => 10 ** Math.floor(Math.log10(Math.min(bound, ...values)));
    const high = (values, bound) => 10 ** Math.ceil(Math.log10(Math.max(bound, ...values)));
    const [x0, x1] = [low(points.map((p) => p.x), 0.1), high(points.map((p) => p.x), gflops * threads / gbytes * 4)];
    const [y0, y1] = [low(points.map((p) => p.y), 1), high(points.map((p) => p.y), gflops * threads * 1.5)];
    const x = (value) => left + (width - left - 16) * Math.log10(value / x0) / Math.log10(x1 / x0);
    const y = (value) => height - bottom - (height - bottom - top) * Math.log10(value / y0) / Math.log10(y1 / y0);
    const chart = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "kernels by operations for a byte and operations in a second" });
    for (let at = x0; at <= x1 * 1.01; at *= 10) {
      chart.append(make("line", { class: "axis", x1: x(at), x2: x(at), y1: top, y2: height - bottom }), make("text", { class: "faint", x: x(at), y: height - bottom + 18, "text-anchor": "middle" }, String(Number(at.toPrecision(1)))));
    }
    for (let at = y0; at <= y1 * 1.01; at *= 10) {
      chart.append(make("line", { class: "axis", x1: left, x2: width - 16, y1: y(at), y2: y(at) }), make("text", { class: "faint", x: left - 6, y: y(at) + 4, "text-anchor": "end" }, String(Number(at.toPrecision(1)))));
    }
    // Threads have a roof each for arithmetic and share the memory.
    const roof = (cores, className) => {
      const [top, slope] = [gflops * cores, gbytes];
      const start = Math.max(x0, y0 / slope);
      chart.append(
        make("path", { class: className, d: `M ${x(start)} ${y(start * slope)} L ${x(top / slope)} ${y(top)} L ${x(x1)} ${y(top)}` }),
        make("text", { class: "faint", x: width - 20, y: y(top) + (cores === 1 && threads > 1 ? 16 : -6), "text-anchor": "end" }, `${top.toFixed(0)} GF/s, ${plural(cores, "core")}`));
    };
    if (threads > 1) roof(1, "roof other");
    roof(threads, "roof");
    chart.append(
      make("text", { x: (left + width) / 2, y: height - 8, "text-anchor": "middle" }, "operations for a byte"),
      make("text", { x: 4, y: 12 }, "operations in a second, in GF/s"));
    const all = timed.reduce((sum, kernel) => sum + kernel.measured * kernel.times, 0);
    for (const p of points) {
      const share = p.kernel.measured * p.kernel.times / all;
      const dot = make("circle", { class: "point", cx: x(p.x), cy: y(p.y), r: 4 + 18 * Math.sqrt(share) });
      dot.append(make("title", {}, `${p.kernel.word} ${p.kernel.name}: ${p.y.toPrecision(3)} GF/s, ${p.x.toPrecision(3)} operations for a byte, ${percent(share)} of the time`));
      chart.append(dot);
    }
    // The kernels that take longest have names; those at one place share a label.
    const labels = [];
    const longest = [...points].sort((a, b) => b.kernel.measured * b.kernel.times - a.kernel.measured * a.kernel.times).slice(0, 8);
    for (const p of longest) {
      const near = labels.find((other) => Math.abs(other.x - x(p.x)) < 24 && Math.abs(other.y - y(p.y)) < 24);
      if (near) near.names.push(p.kernel.name);
      else labels.push({ x: x(p.x), y: y(p.y), names: [p.kernel.name] });
    }
    const lines = [];
    for (const label of labels) {
      const end = label.x > width * 0.5;
      let at = label.y + 4;
      while (lines.some((other) => Math.abs(other - at) < 14)) at += 14;
      lines.push(at);
      const text = label.names.slice(0, 3).join(", ") + (label.names.length > 3 ? ", …" : "");
      chart.append(make("text", { class: "name", x: label.x + (end ? -18 : 18), y: Math.min(at, height - bottom - 4), "text-anchor": end ? "end" : "start" }, text));
    }
    body("roofline").append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "roofline" }, chart), make("p", { class: "note" }, "A dot is a kernel; its area is its share of the time. Bytes are counted once for each kernel, so what stays in a cache may lie above the slope. Operations that a mask hides are counted."));
  }

  // Kernels: those of every call, and behind them what runs once.
  const rates = (k) => [ms(k.measured), k.measured > 0 ? (k.flops / k.measured / 1e6).toPrecision(3) : "–"];
  const ofKernel = (k) => [k.word, k.name, k.computes.join(", ") + (k.when === null ? "" : ` (where ${k.when})`), String(k.times), short(k.flops), short(k.bytes, "B")];
  const heads = [words("kernel"), words("stores"), words("computes"), count("times"), count("operations"), count("bytes")];
  table(body("kernels"), [...heads, count("priced, ms"), words("bound by"), count("measured, ms"), count("GF/s")],
    page.kernels.filter((k) => !k.once).map((k) => [...ofKernel(k), ms(k.priced), k.bound ?? "", ...rates(k)]));
  const once = page.kernels.filter((k) => k.once);
  if (once.length > 0) {
    const number = once.reduce((sum, k) => sum + k.times, 0);
    const more = make("details", {}, make("summary", {}, `${plural(number, "kernel")} that ${number === 1 ? "runs" : "run"} once, when the parameters are bound`));
    table(more, heads, once.map(ofKernel));
    body("kernels").append(more);
  }

  // Memory.
  const { buffers } = page.memory;
  if (buffers.length === 0) missing("memory", "Nothing is stored between kernels.");
  else {
    const columns = page.memory.kernels.length;
    const held = page.memory.kernels.map((_, at) => buffers.filter((b) => b.first <= at && at <= b.last).reduce((sum, b) => sum + b.bytes, 0));
    const most = Math.max(...held);
    const rows = buffers.slice(0, 60);
    const [width, left, line, top] = [900, 210, 18, 90];
    const height = top + rows.length * line + 24;
    const step = (width - left - 10) / columns;
    const chart = make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "bytes held while each kernel runs, and the life of each buffer" });
    chart.append(make("text", { x: left - 8, y: 20, "text-anchor": "end" }, short(most, "B")), make("line", { class: "axis", x1: left, x2: width - 10, y1: top - 10, y2: top - 10 }));
    held.forEach((bytes, at) => {
      const tall = bytes / most * (top - 24);
      chart.append(make("rect", { class: "bar", x: left + at * step, y: top - 10 - tall, width: Math.max(1, step - 1), height: tall }, make("title", {}, `${page.memory.kernels[at]}: ${short(bytes, "B")}`)));
    });
    rows.forEach((buffer, at) => {
      const name = buffer.name.length > 26 ? `${buffer.name.slice(0, 25)}…` : buffer.name;
      chart.append(
        make("text", { x: left - 8, y: top + at * line + 13, "text-anchor": "end" }, name),
        make("rect", { class: "bar", x: left + buffer.first * step, y: top + at * line + 3, width: Math.max(2, (buffer.last - buffer.first + 1) * step - 1), height: line - 6 },
          make("title", {}, `${buffer.name}: ${short(buffer.bytes, "B")}, from ${page.memory.kernels[buffer.first]} to ${page.memory.kernels[buffer.last]}`)));
    });
    chart.append(make("text", { class: "faint", x: left, y: height - 6 }, `${plural(columns, "kernel")} in the order in which they run`));
    body("memory").append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "memory over time" }, chart));
    if (buffers.length > rows.length) body("memory").append(make("p", { class: "note" }, `${plural(buffers.length - rows.length, "smaller buffer")} not drawn`));
  }
  body("memory").append(make("pre", { class: "scroll" }, page.memory.formula.join("\n")));

  // Weights.
  const VIRIDIS = [[68, 1, 84], [72, 40, 120], [62, 74, 137], [49, 104, 142], [38, 130, 142], [31, 158, 137], [53, 183, 121], [109, 205, 89], [180, 222, 44], [253, 231, 37]];
  const viridis = (share) => {
    const at = Math.min(VIRIDIS.length - 1.001, Math.max(0, share * (VIRIDIS.length - 1)));
    const [a, b, part] = [VIRIDIS[Math.floor(at)], VIRIDIS[Math.floor(at) + 1], at % 1];
    return a.map((channel, n) => Math.round(channel + (b[n] - channel) * part));
  };
  const tip = make("div", { id: "tip", role: "status" });
  document.body.append(tip);
  if (page.weights.length === 0) missing("weights", "No attention weights were asked for, or none were found.");
  const scaleOf = (map) => Math.max(1, Math.floor((page.weights.length > 8 ? 100 : 240) / Math.max(map.rows, map.columns)));
  let grid = null;
  let attention = null;
  for (const map of page.weights) {
    if (map.attention !== attention) {
      attention = map.attention;
      grid = make("div", { class: "heat" });
      body("weights").append(make("h3", {}, attention), grid);
    }
    const cells = Uint8Array.from(atob(map.cells), (letter) => letter.charCodeAt(0));
    const canvas = make("canvas", { width: map.columns, height: map.rows, role: "img", "aria-label": `${map.attention} ${map.head}: ${map.rows} rows of queries by ${map.columns} columns of keys, greatest weight ${map.high.toPrecision(3)}` });
    canvas.style.width = `${map.columns * scaleOf(map)}px`;
    const paint = canvas.getContext("2d");
    const image = paint.createImageData(map.columns, map.rows);
    cells.forEach((cell, at) => image.data.set([...viridis(cell / 255), 255], at * 4));
    paint.putImageData(image, 0, 0);
    const label = (labels, at, each) => labels[at] ?? (each > 1 ? `${at * each} to ${(at + 1) * each - 1}` : String(at));
    canvas.addEventListener("mousemove", (event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.min(map.columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * map.columns)));
      const row = Math.min(map.rows - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * map.rows)));
      const weight = cells[row * map.columns + column] / 255 * map.high;
      tip.textContent = `query ${label(map.row_labels, row, map.queries)}, key ${label(map.column_labels, column, map.keys)}: ${weight.toPrecision(2)}`;
      tip.style.display = "block";
      tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${event.clientY + 14}px`;
    });
    canvas.addEventListener("mouseleave", () => { tip.style.display = "none"; });
    grid.append(make("figure", {}, canvas, make("figcaption", {}, map.head)));
  }
  if (page.weights.length > 0) {
    const stops = VIRIDIS.map((c) => `rgb(${c.join(",")})`).join(", ");
    body("weights").append(make("p", { class: "note" }, "0 ", make("span", { style: `display: inline-block; width: 10rem; height: .8rem; background: linear-gradient(90deg, ${stops})` }), " the greatest weight of the map. A row is a query, a column a key."));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint.forEach((show) => show()));
  document.documentElement.dataset.ready = "true";
})();
