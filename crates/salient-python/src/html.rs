//! What notebooks show of a model.

use salient::view::{Viewed, settings, with_weights};
use salient::{Array, Arrays, Bindings, DType, Error, Graph, Model, Options, Sources, Weights, lower};
use salient_draw::heat::{Grid, Map, Row, svg};

/// Positions along each side of the picture of a mask.
const POSITIONS: i64 = 24;

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

/// The masks of a model's attentions: their weights on inputs of zeros, where every truth value is true. None for models with
/// parameters, which such inputs say little of, and for those that have no value on them.
pub(crate) fn mask(sources: &Sources, options: &Options, graph: &Graph) -> Option<String> {
    if !graph.params().is_empty() {
        return None;
    }
    drawn(sources, options, graph).ok().flatten()
}

fn drawn(sources: &Sources, options: &Options, graph: &Graph) -> Result<Option<String>, Error> {
    let mut sizes = Bindings::new();
    for port in graph.inputs() {
        let names = graph.shape(&port.axes).into_iter().flat_map(|dim| dim.dimensions());
        sizes.extend(names.map(|name| (name, POSITIONS)));
    }
    let mut fixed = options.clone();
    fixed.set.extend(settings(graph, &sizes));
    let lowered = lower(sources, &fixed)?;
    let Viewed { model, maps } = with_weights(&lowered.graph, &lowered.inner, &fixed, &sizes)?;
    let inputs = plain_inputs(&model, &sizes)?;
    let results = model.run(&inputs, Weights::none())?;
    let rows = maps.iter().filter_map(|map| {
        let head = map.heads(&results).into_iter().next()?;
        let (rows, columns) = (map.queries.tiles(), map.keys.tiles());
        let map_of = Map { name: String::new(), rows, columns, values: head.weights };
        Some(Row { name: map.name.clone(), maps: vec![map_of] })
    });
    let rows: Vec<Row> = rows.collect();
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

/// Zeros, and `true` for truth values.
fn plain_inputs(model: &Model, sizes: &Bindings) -> Result<Arrays, Error> {
    let graph = model.graph();
    let mut inputs = Arrays::new();
    for port in graph.inputs() {
        let length = |dim: &salient::Dim| dim.eval(sizes).ok().and_then(|n| usize::try_from(n).ok());
        let shape: Option<Vec<usize>> = graph.shape(&port.axes).iter().map(length).collect();
        let Some(shape) = shape else { return Err(Error::Run("a dimension has no length".to_owned())) };
        let array = match port.dtype {
            DType::Bool => Array::from_bool(shape.clone(), vec![true; shape.iter().product()]),
            DType::F32 | DType::F16 | DType::BF16 | DType::I32 | DType::I64 => {
                Array::zeros(port.dtype, shape)
            }
        };
        inputs.insert(&*port.name, array.map_err(|e| Error::Run(e.to_string()))?)?;
    }
    Ok(inputs)
}
