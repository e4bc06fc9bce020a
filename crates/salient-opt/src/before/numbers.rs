//! Which values of a graph are known to be numbers, before the rules run over it.

use crate::egraph::normalise::insert;
use crate::facts::{Classes, Known, Property};
use crate::graph::border::Border;
use crate::options::Fp;
use salient_ir::{Graph, NodeId};

/// Which values are known to be numbers, as the rules take them to be.
pub(crate) fn numbers(g: &Graph, border: &Border) -> Vec<bool> {
    let (unsure, computed) = (border.unsure.clone(), border.computed.clone());
    let mut classes = Classes::new(Known { unsure, computed, ..Known::of(g) });
    let ids = insert(g, &mut classes, Fp::Default, &[]);
    classes.rebuild();
    let is_number = |id: NodeId| {
        let facts = &classes[ids[id.index()]].data;
        let number = facts.has(Property::Finite) & facts.has(Property::Unmasked);
        classes.analysis.is_shown(number, facts.axes.as_slice())
    };
    g.ids().map(is_number).collect()
}
