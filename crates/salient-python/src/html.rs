//! What notebooks show of a model.

use salient::view::{Viewed, settings, with_weights};
use salient::{Array, Arrays, Bindings, DType, Error, Graph, Options, Port, Sources, Weights, lower};
use salient_draw::heat::{Grid, Map, Row, svg};

/// Positions along each side of the picture of a mask.
const POSITIONS: i64 = 24;

/// Elements of all parameters of a model whose masks are drawn, at most: the model runs for that.
const ELEMENTS: usize = 1 << 24;

/// What a page has in it.
pub(crate) struct Parts {
    pub(crate) head: String,
    pub(crate) fused: String,
    pub(crate) certificate: String,
    /// A picture as SVG.
    pub(crate) plan: String,
    /// A picture as SVG, where there is an attention whose mask can be drawn.
    pub(crate) mask: Option<String>,
}

/// The page.
pub(crate) fn page(parts: &Parts) -> String {
    let folded = |title: &str, inside: &str| format!("<details><summary>{title}</summary>{inside}</details>");
    let text = |text: &str| format!("<pre>{}</pre>", escaped(text));
    let mask = parts.mask.as_ref().map_or_else(String::new, |mask| {
        format!("<details open><summary>weights where all scores are equal</summary>{mask}</details>")
    });
    format!(
        "<div><code>{}</code>{}{}{}{mask}</div>",
        escaped(&parts.head),
        folded("fused program", &text(&parts.fused)),
        folded("certificate", &text(&parts.certificate)),
        folded("plan", &parts.plan),
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The masks of a model's attentions: their weights where inputs and parameters are zeros, so that all scores are equal, and every
/// truth value is true. None for large models, and for those that have no value on that.
pub(crate) fn mask(sources: &Sources, options: &Options, graph: &Graph) -> Option<String> {
    drawn(sources, options, graph).ok().flatten()
}

fn drawn(sources: &Sources, options: &Options, graph: &Graph) -> Result<Option<String>, Error> {
    let mut sizes = Bindings::new();
    for port in graph.inputs() {
        let names = graph.shape(&port.axes).into_iter().flat_map(|dim| dim.dimensions());
        sizes.extend(names.map(|name| (name, POSITIONS)));
    }
    // Parameters are zeros, and in no blocks.
    // States are zeros too, and those that grow hold nothing.
    graph.growths().iter().for_each(|growth| _ = sizes.remove(&growth.held));
    let mut fixed = Options { coded: Default::default(), ..options.clone() };
    fixed.set.extend(settings(graph, &sizes));
    let lowered = lower(sources, &fixed)?;
    let Viewed { model, maps } = with_weights(&lowered.graph, &lowered.inner, &fixed, &sizes)?;
    let graph = model.graph();
    let Some(parameters) = plain(graph, graph.params().iter(), &sizes, ELEMENTS)? else { return Ok(None) };
    let is_state = |at: usize| graph.states().iter().any(|state| state.input == at);
    let inputs = graph.inputs().iter().enumerate().filter(|(at, _)| !is_state(*at)).map(|(_, port)| port);
    let Some(inputs) = plain(graph, inputs, &sizes, usize::MAX)? else { return Ok(None) };
    let results = model.run(&inputs, Weights::from(&parameters))?;
    let mut rows: Vec<Row> = Vec::new();
    for map in &maps {
        let Some(head) = map.heads(&results).into_iter().next() else { continue };
        // The layers of a model have one mask, or a few.
        if rows.iter().all(|row| row.maps[0].values != head.weights) {
            let map_of = Map {
                name: String::new(),
                rows: map.queries.tiles(),
                columns: map.keys.tiles(),
                values: head.weights,
            };
            rows.push(Row { name: map.name.clone(), maps: vec![map_of] });
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    Ok(Some(svg(&Grid {
        title: model.graph().name().to_string(),
        note: format!("{POSITIONS} positions, the first head"),
        rows,
        row_labels: Vec::new(),
        column_labels: Vec::new(),
    })))
}

/// Zeros, and `true` for truth values; `None` if there are more than so many elements.
fn plain<'g>(
    graph: &Graph,
    ports: impl Iterator<Item = &'g Port>,
    sizes: &Bindings,
    most: usize,
) -> Result<Option<Arrays>, Error> {
    let mut arrays = Arrays::new();
    let mut left = most;
    for port in ports {
        let length = |dim: &salient::Dim| dim.eval(sizes).ok().and_then(|n| usize::try_from(n).ok());
        let shape: Option<Vec<usize>> = graph.shape(&port.axes).iter().map(length).collect();
        let Some(shape) = shape else { return Err(Error::Run("a dimension has no length".to_owned())) };
        let elements = shape.iter().try_fold(1, |product: usize, n| product.checked_mul(*n));
        let Some(rest) = elements.and_then(|elements| left.checked_sub(elements)) else { return Ok(None) };
        left = rest;
        let array = match port.dtype {
            DType::Bool => Array::from_bool(shape.clone(), vec![true; shape.iter().product()]),
            DType::F32 | DType::F16 | DType::BF16 | DType::I32 | DType::I64 => {
                Array::zeros(port.dtype, shape)
            }
        };
        arrays.insert(&*port.name, array.map_err(|e| Error::Run(e.to_string()))?)?;
    }
    Ok(Some(arrays))
}
