//! Attentions of random form: every spelling of heads, projections, masks, weights and results that a pass looks for, and
//! their neighbours that it must leave alone.

use super::model::{Model, V};
use super::program::random_program;
use salient_ir::{AxisId, DType, Dim, Graph, MapOp, ReduceOp};

/// A random graph: an attention; every second time in turns a program of random operators, the gradient of scores,
/// and a sum of attentions.
pub(super) fn random_graph(seed: u64) -> Graph {
    match seed % 6 {
        2 => random_program(seed, 4 + (seed as usize % 9)),
        4 => Draw::new(seed).score_gradient(),
        5 => Draw::new(seed).sum_of_attentions(),
        _ => Draw::new(seed).attention(),
    }
}

/// How the heads of an attention are laid out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heads {
    /// There is one head.
    One,
    /// They have an axis.
    Own,
    /// Groups of heads, each with keys and values of its own: two axes.
    Groups,
}

struct Draw {
    m: Model,
    rng: fastrand::Rng,
    heads: Heads,
    /// Positions of queries and of keys, and those of the sequence that each is read from.
    i: AxisId,
    j: AxisId,
    t: AxisId,
    s: AxisId,
    /// Features of the sequence, of a key, of a value.
    d: AxisId,
    e: AxisId,
    f: AxisId,
    /// Heads, or groups of them, and the heads of a group.
    h: AxisId,
    r: AxisId,
    /// How many features a head has.
    features: Dim,
    x: V,
    y: V,
}

/// As many heads, or groups, there are, and as many heads in a group.
const HEADS: i64 = 2;

/// As many features a head has where that is known: the square root of it, by which scores are divided, has no digits to round.
const FEATURES: i64 = 4;

impl Draw {
    fn new(seed: u64) -> Draw {
        let m = Model::new();
        let mut rng = fastrand::Rng::with_seed(seed);
        let [i, t] = ["i", "t"].map(|name| m.axis(name, "T"));
        let features = if seed % 8 == 3 { Dim::constant(FEATURES) } else { Dim::symbol("E") };
        let d = m.axis("d", "D");
        let [e, f] = ["e", "f"].map(|name| m.axis_of(name, &features));
        let [h, r] = ["h", "r"].map(|name| m.axis_of(name, &Dim::constant(HEADS)));
        let heads = [Heads::One, Heads::Own, Heads::Own, Heads::Groups][rng.usize(0..4)];
        let x = m.input("x", &[t, d]);
        // Keys are those of the same sequence, or of another one, which may be empty by itself.
        let (j, s, y) = if rng.usize(0..3) > 0 {
            (m.axis("j", "T"), t, x.clone())
        } else {
            let s = m.axis("s", "S");
            (m.axis("j", "S"), s, m.input("y", &[s, d]))
        };
        Draw { m, rng, heads, i, j, t, s, d, e, f, h, r, features, x, y }
    }

    fn one_of(&mut self, count: u8) -> u8 {
        self.rng.u8(0..count)
    }

    fn attention(mut self) -> Graph {
        let shared = self.s == self.t;
        self.x = self.sequence();
        if shared {
            self.y = self.x.clone();
        }
        let queries = self.queries();
        let keys = self.keys();
        let scores = (&queries * &keys).sum(self.e);
        let scores = self.positioned(&queries, scores);
        let scores = self.decayed(scores);
        let scores = self.scaled(scores);
        let scores = self.masked(scores);
        let weights = self.weights(&scores);
        let context = self.context(&weights);
        let result = self.result(context);
        self.m.output("result", &result.axes(), &result);
        if self.one_of(8) == 0 {
            self.m.output("weights", &weights.axes(), &weights);
        }
        if shared && self.one_of(4) == 0 {
            let by_keys = self.summed_by_keys(&weights);
            self.m.output("by_keys", &by_keys.axes(), &by_keys);
        }
        if self.heads == Heads::Own && self.one_of(4) == 0 {
            let by_distance = self.summed_by_distance(&weights);
            self.m.output("by_distance", &by_distance.axes(), &by_distance);
        }
        if self.one_of(6) == 0 {
            let beside = self.beside_a_column(&weights);
            self.m.output("beside", &beside.axes(), &beside);
        }
        if shared && self.one_of(4) == 0 {
            let at_distance = self.at_distance(&weights);
            self.m.output("at_distance", &at_distance.axes(), &at_distance);
        }
        if shared && self.one_of(8) == 0 {
            let turned = self.turned();
            self.m.output("turned", &turned.axes(), &turned);
        }
        if self.one_of(2) == 0 {
            // Further values under the same weights.
            let [first, second] = ["first", "second"].map(|name| self.m.input(name, &[self.j, self.f]));
            let both = [&(&weights * &first).sum(self.j), &(&weights * &second).sum(self.j)];
            self.m.output("first", &both[0].axes(), both[0]);
            self.m.output("second", &both[1].axes(), both[1]);
        }
        if self.one_of(5) == 0 {
            let far = self.far(&weights);
            self.m.output("by_far", &far.axes(), &far);
        }
        if self.one_of(5) == 0 {
            let by_bucket = self.summed_by_bucket(&weights);
            self.m.output("by_bucket_of_distance", &by_bucket.axes(), &by_bucket);
        }
        if self.one_of(6) == 0 {
            let over_image = self.over_image();
            self.m.output("over_image", &over_image.axes(), &over_image);
        }
        self.m.finish()
    }

    /// A softmax of the weights times what depends on a query and a key by their distance alone, or on their positions too, under which
    /// numbers of the keys are summed.
    fn far(&mut self, weights: &V) -> V {
        let (m, query, key) = (self.m.clone(), self.m.iota(self.i), self.m.iota(self.j));
        let away = if self.rng.bool() { &query - &key } else { &(&key - &query) + &m.int(1) };
        let factor = match self.one_of(5) {
            0 => (&away.f32() * &m.input("slope", &[self.h])).exp(),
            1 => {
                let buckets = m.axis_of("bucket", &Dim::constant(3));
                let least = m.map(MapOp::Max, &[&away, &m.int(0)]);
                let bucket = m.map(MapOp::Min, &[&least, &m.int(2)]);
                m.param("by_bucket", &[buckets, self.h]).at_index(buckets, &bucket)
            }
            2 => (&away.f32() * &query.f32()).map(MapOp::Cos),
            3 => m.select(&query.lt(&key), &away.f32().exp(), &m.input("near", &[])),
            _ => &away.f32().map(MapOp::Cos) * &m.num(0.5),
        };
        (&m.softmax(self.j, &(weights * &factor)) * &m.input("far_numbers", &[self.j])).sum(self.j)
    }

    /// Values summed under weights for keys of two axes: the pixels of an image that lies by rows, by columns, or as one sequence.
    fn over_image(&mut self) -> V {
        let (m, i, e, f) = (self.m.clone(), self.i, self.e, self.f);
        let width = Dim::constant(2);
        let (row, column) = (m.axis("row", "S"), m.axis_of("column", &width));
        let pixels = m.axis_of("pixel", &(&Dim::symbol("S") * &width));
        let mut read = |name: &str, feature: AxisId| match self.rng.usize(0..3) {
            0 => m.input(name, &[row, column, feature]),
            1 => m.input(name, &[column, row, feature]),
            _ => {
                let place = &(&m.iota(row) * &m.int(2)) + &m.iota(column);
                m.input(name, &[pixels, feature]).at_index(pixels, &place)
            }
        };
        let (keys, values) = (read("pixel_keys", e), read("pixel_values", f));
        let s = (&m.input("image_queries", &[i, e]) * &keys).sum(e);
        let s = match self.one_of(4) {
            0 => &s + &m.input("by_row", &[i, row]),
            1 => &s * &m.input("by_column", &[column]),
            2 => m.select(&m.iota(row).le(&m.iota(i)), &s, &m.num(f32::NEG_INFINITY)),
            _ => s,
        };
        let (outer, inner) = if self.rng.bool() { (row, column) } else { (column, row) };
        match self.one_of(4) {
            // Weights along one of the axes alone are no weights of all keys.
            0 => (&m.softmax(inner, &s) * &values).sum(inner).sum(outer),
            1 => s.reduce(ReduceOp::Max, inner).reduce(ReduceOp::Max, outer),
            _ => {
                let greatest = s.reduce(ReduceOp::Max, outer).reduce(ReduceOp::Max, inner);
                let w = (&s - &greatest).exp();
                &(&w * &values).sum(inner).sum(outer) / &w.sum(outer).sum(inner)
            }
        }
    }

    /// Queries and keys that are turned by their positions: the angles differ in names, and some in the order of their factors.
    fn turned(&mut self) -> V {
        let (m, e) = (self.m.clone(), self.e);
        let op = if self.rng.bool() { MapOp::Sin } else { MapOp::Cos };
        let frequency = m.input("frequency", &[e]);
        let mut turned = |name: &str, row: AxisId, by: MapOp| {
            let position = m.iota(row).f32();
            let angle = if self.rng.bool() { &position * &frequency } else { &frequency * &position };
            &m.input(name, &[row, e]) * &angle.map(by)
        };
        let queries = turned("turned_queries", self.i, op);
        let of_keys = if self.heads == Heads::Own { MapOp::Cos } else { op };
        let keys = turned("turned_keys", self.j, of_keys);
        (&queries * &keys).sum(e)
    }

    /// The weights times what lies at the distance of the key from the query, summed over the keys; or the weights at each distance
    /// times values of the query, summed over the queries.
    fn at_distance(&mut self, weights: &V) -> V {
        let (m, i, j, f) = (self.m.clone(), self.i, self.j, self.f);
        let g = m.axis("g", "T");
        let (query, key, distance, zero) = (m.iota(i), m.iota(j), m.iota(g), m.num(0.0));
        let table = m.input("far_values", &[g, f]);
        match self.one_of(7) {
            // Without a guard an index leaves its axis.
            5 => (weights * &table.at_index(g, &(&query - &key))).sum(j),
            6 => {
                let read = weights.at_index(j, &(&query - &distance));
                (&read * &m.input("of_query", &[i, f])).sum(i)
            }
            0 => {
                let read = table.at_index(g, &(&query - &key));
                m.select(&key.le(&query), &(weights * &read), &zero).sum(j)
            }
            1 => {
                let last = &m.extent(&Dim::symbol("T")) - &m.int(1);
                let read = table.at_index(g, &(&(&last - &query) + &key));
                &m.select(&key.le(&query), &(&read * weights), &zero).sum(j) * &m.num(0.5)
            }
            2 if self.heads == Heads::Own => {
                let values = m.input("by_head_and_query", &[self.h, i, f]);
                let products = (weights * &values).sum(self.h).at_index(j, &(&query - &distance));
                m.select(&distance.le(&query), &products, &zero).sum(i)
            }
            _ => {
                let read = weights.at_index(j, &(&query - &distance));
                let values = m.input("of_query", &[i, f]);
                m.select(&distance.le(&query), &(&read * &values), &zero).sum(i)
            }
        }
    }

    /// A softmax over the weights and a column beside them, of which the parts are read: as values are summed under it, or as its
    /// gradient is.
    fn beside_a_column(&mut self, weights: &V) -> V {
        let (m, j) = (self.m.clone(), self.j);
        let keys = Dim::symbol(if self.s == self.t { "T" } else { "S" });
        let (c, u) = (m.axis_of("beside", &(&keys + &Dim::constant(1))), m.axis("u", "1"));
        let (column, value) = (m.input("column", &[]), m.input("further", &[j]));
        let comes_first = self.rng.bool();
        let parts = if comes_first { [(u, &column), (j, weights)] } else { [(j, weights), (u, &column)] };
        let joined = m.concat(c, &parts);
        let w = if self.rng.bool() { m.softmax(c, &joined) } else { m.exp_over_sum(c, &joined) };
        let (of_scores, of_column) = match comes_first {
            true => (&m.iota(j) + &m.int(1), m.int(0)),
            false => (m.iota(j), m.extent(&keys)),
        };
        let read = w.at_index(c, &of_scores);
        match self.one_of(4) {
            0 => (&read * &value).sum(j),
            1 => &(&read * &value).sum(j) + &w.at_index(c, &of_column),
            2 if !comes_first => {
                let at = m.iota(c);
                let flows = m.select(&at.lt(&m.extent(&keys)), &value.at_index(j, &at), &m.num(0.0));
                let all = &w * &(&flows - &(&w * &flows).sum(c));
                &(&all.at_index(c, &of_scores) * &value).sum(j) + &all.at_index(c, &of_column)
            }
            _ => &read * &w.reduce(ReduceOp::Max, c),
        }
    }

    /// The weights of all heads, times what depends on the distance alone, summed over the keys or over all pairs.
    fn summed_by_distance(&mut self, weights: &V) -> V {
        let (m, i, j) = (self.m.clone(), self.i, self.j);
        let (distance, all) = ((&m.iota(i) - &m.iota(j)).f32(), weights.sum(self.h));
        let product = match self.one_of(5) {
            0 => &(&all * &distance) / &m.sqrt_of(self.e),
            1 => m.select(&m.iota(j).le(&m.iota(i)), &(&distance * &all), &m.num(0.0)),
            2 => &all * &m.input("shared_bias", &[i, j]),
            // What has more axes, or none that has a number without keys, stays outside.
            3 => &all * &m.input("wide_bias", &[i, j, self.f]),
            _ => &all * &weights.reduce(ReduceOp::Max, j).sum(self.h),
        };
        let by_query = product.sum(j);
        if self.one_of(2) == 0 { by_query.sum(i) } else { by_query }
    }

    /// The weights that a condition of the distance picks for each of some buckets, summed over all pairs, and over the heads now and then.
    fn summed_by_bucket(&mut self, weights: &V) -> V {
        let (m, query, key) = (self.m.clone(), self.m.iota(self.i), self.m.iota(self.j));
        let distance = if self.rng.bool() { &query - &key } else { &(&key - &query) + &m.int(1) };
        let buckets = m.axis_of("bucket_of_distance", &Dim::constant(3));
        let bucket = match self.one_of(3) {
            0 => m.map(MapOp::Min, &[&distance.map(MapOp::Abs), &m.int(2)]),
            1 => m.map(MapOp::Min, &[&m.map(MapOp::Max, &[&distance, &m.int(0)]), &m.int(2)]),
            _ => m.select(&query.lt(&key), &m.int(0), &m.int(2)),
        };
        let is_one = bucket.eq(&m.iota(buckets));
        let squares = weights * weights;
        let all = if self.one_of(3) == 0 && self.heads == Heads::Own { squares.sum(self.h) } else { squares };
        m.select(&is_one, &all, &m.num(0.0)).sum(self.j).sum(self.i)
    }

    /// Values summed over the queries for each key, which has the name of a query; with a factor of its own now and then.
    fn summed_by_keys(&mut self, weights: &V) -> V {
        let m = self.m.clone();
        let swapped = weights.at(&[(self.i, self.j), (self.j, self.i)]);
        let values = m.input("by_query", &[self.j, self.f]);
        let sum = (&swapped * &values).sum(self.j);
        if self.rng.bool() { &sum * &m.num(0.5) } else { sum }
    }

    /// Values summed under two softmaxes, one of them subtracted or added, or two such sums.
    fn sum_of_attentions(mut self) -> Graph {
        let (m, j) = (self.m.clone(), self.j);
        let mut weights = |number: u8| {
            // Both of one sequence, or each of its own.
            let read = |from: AxisId, name: &str, along: AxisId| {
                let x = m.input(&format!("{name}.{number}"), &[from, self.e]).at(&[(from, along)]);
                &x / &((&x * &x).sum(self.e) + m.num(0.5))
            };
            let is_one = number == 1 && self.s == self.t;
            let q = read(self.t, "q", self.i);
            let k = read(self.s, if is_one { "q" } else { "k" }, j);
            let s = (&q * &k).sum(self.e);
            let s = if self.rng.bool() { m.select(&self.mask(), &s, &m.num(f32::NEG_INFINITY)) } else { s };
            m.softmax(j, &s)
        };
        let (one, two) = (weights(1), weights(2));
        let (v, by) = (m.input("v", &[j, self.f]), m.input("lambda", &[self.i]));
        let result = match self.one_of(4) {
            0 => (&(&one + &(&two * &by)) * &v).sum(j),
            1 => &(&one * &v).sum(j) - &(&(&two * &v).sum(j) / &m.num(4.0)),
            2 => &(&(&one - &(&two * &by)) * &v).sum(j) + &m.input("residual", &[self.i, self.f]),
            _ => (&(&one - &(&two * &by)) * &v).sum(j),
        };
        m.output("result", &result.axes(), &result);
        m.finish()
    }

    /// The gradient of scores without its weights: that of the result times each value, less that times the result.
    fn score_gradient(mut self) -> Graph {
        let (m, j, f) = (self.m.clone(), self.j, self.f);
        let scores = (&self.queries() * &self.keys()).sum(self.e);
        let scores = self.masked(scores);
        let weights = if self.one_of(4) > 0 { m.softmax(j, &scores) } else { self.weights(&scores) };
        let (v, d_result) = (m.input("v", &[j, f]), m.input("d_result", &[self.i, f]));
        let result = (&weights * &v).sum(j);
        let (d_weights, delta) = ((&d_result * &v).sum(f), (&d_result * &result).sum(f));
        let gradient = (&(&d_weights - &delta) * &m.num(0.5)).exp();
        m.output("gradient", &gradient.axes(), &gradient);
        if self.one_of(4) == 0 {
            m.output("result", &result.axes(), &result);
        }
        m.finish()
    }

    /// What queries and keys are made of: the input, a table read by its tokens, either one normalised.
    fn sequence(&mut self) -> V {
        let m = self.m.clone();
        let x = match self.one_of(4) {
            0 => {
                let v = m.axis("v", "V");
                let (table, slot) = (m.param("table", &[v, self.d]), m.typed("slot", &[self.t], DType::I64));
                let read = table.at_index(v, &slot);
                let inside = slot.lt(&m.extent(&Dim::symbol("V")));
                if self.rng.bool() { m.select(&inside, &read, &m.num(0.0)) } else { read }
            }
            _ => self.x.clone(),
        };
        match self.one_of(3) {
            0 => {
                let square = (&x * &x).sum(self.d) + m.num(0.5);
                x / square.map(MapOp::Sqrt)
            }
            _ => x,
        }
    }

    /// The value of an index inside of an axis that holds the heads one after the other.
    fn merged(&self, outer: AxisId, inner: AxisId) -> V {
        let m = &self.m;
        &(&m.iota(outer) * &m.extent(&self.features)) + &m.iota(inner)
    }

    /// The axis of heads one after the other, `2 E` long.
    fn all_heads(&self) -> AxisId {
        self.m.axis_of("c", &(&Dim::constant(HEADS) * &self.features))
    }

    /// The sequence at `along`, projected to heads and `feature`, in one of the ways that sources spell it.
    fn projected(&mut self, name: &str, along: AxisId, feature: AxisId) -> V {
        let (m, d, h) = (self.m.clone(), self.d, self.h);
        let from_keys = along == self.j;
        let x = if from_keys { self.y.at(&[(self.s, along)]) } else { self.x.at(&[(self.t, along)]) };
        if self.heads == Heads::One {
            return (&x * &m.param(name, &[d, feature])).sum(d);
        }
        let c = self.all_heads();
        match self.one_of(4) {
            0 => (&x * &m.param(name, &[d, h, feature])).sum(d),
            1 => {
                let whole = (&x * &m.param(name, &[d, c])).sum(d);
                whole.at_index(c, &self.merged(h, feature))
            }
            2 => {
                let head = |n: i64| (&x * &m.param(&format!("{name}.{n}"), &[d, feature])).sum(d);
                let whole = m.concat(c, &[(feature, &head(0)), (feature, &head(1))]);
                whole.at_index(c, &self.merged(h, feature))
            }
            _ => m.input(name, &[along, h, feature]),
        }
    }

    fn queries(&mut self) -> V {
        if self.heads == Heads::Groups {
            let m = self.m.clone();
            let weight = m.param("q", &[self.d, self.h, self.r, self.e]);
            return (&self.x.at(&[(self.t, self.i)]) * &weight).sum(self.d);
        }
        self.projected("q", self.i, self.e)
    }

    fn keys(&mut self) -> V {
        // Queries and keys of one parameter differ in the names of their axes alone.
        let name = if self.one_of(6) == 0 && self.heads == Heads::One { "q" } else { "k" };
        if name == "q" {
            let weight = self.m.input("shared", &[self.d, self.e]);
            return (&self.y.at(&[(self.s, self.j)]) * &weight).sum(self.d);
        }
        self.projected(name, self.j, self.e)
    }

    /// With what lies at a distance from the query added, in one of the ways that sources spell it.
    fn positioned(&mut self, queries: &V, s: V) -> V {
        let m = self.m.clone();
        let kind = self.one_of(12);
        if kind > 3 {
            return s;
        }
        let distance = m.axis("g", "T");
        let table = m.input("far", &[distance, self.e]);
        let (i, j, zero) = (m.iota(self.i), m.iota(self.j), m.extent(&Dim::constant(0)));
        let (past, away) = (j.le(&i), &i - &j);
        let clamped = m.map(MapOp::Max, &[&away, &zero]);
        let pairs = |at: &V| (queries * &table.at_index(distance, at)).sum(self.e);
        let position = match kind {
            0 => m.select(&past, &pairs(&away), &m.num(0.0)),
            1 => m.select(&past, &pairs(&clamped), &m.num(0.0)),
            2 => {
                let by_distance = (queries * &table).sum(self.e);
                m.select(&past, &by_distance.at_index(distance, &clamped), &m.num(0.0))
            }
            _ => {
                let both = &table.at_index(distance, &clamped) + &m.input("near", &[self.j, self.e]);
                m.select(&past, &(queries * &both).sum(self.e), &m.num(0.0))
            }
        };
        &s + &position
    }

    /// With the gates added that lie behind each key, or between key and query: a sum for each of them, a product with a
    /// triangle, or a running sum from the end on; or with the product of their exponentials.
    fn decayed(&mut self, s: V) -> V {
        let is_square = self.s == self.t;
        if self.one_of(4) > 1 {
            return s;
        }
        let (m, i, j) = (self.m.clone(), self.i, self.j);
        let l = m.axis("l", if is_square { "T" } else { "S" });
        let (query, key, other, zero) = (m.iota(i), m.iota(j), m.iota(l), m.num(0.0));
        let gates = m.input("gates", &[l]).map(MapOp::Tanh);
        // Of other keys than queries some have no sum.
        let decay = match if is_square { self.one_of(12) } else { 6 + self.one_of(6) } {
            0 => m.select(&key.lt(&other), &gates, &zero).sum(l),
            1 => (&gates * &key.le(&other).f32()).sum(l),
            2 => m.select(&key.lt(&other).and(&other.le(&query)), &gates, &zero).sum(l),
            3 => (&other.lt(&query).f32() * &gates).sum(l),
            4 => {
                let last = &m.extent(&Dim::symbol("T")) - &m.int(1);
                let run = gates.at_index(l, &(&last - &key)).cumsum(j);
                run.at_index(j, &(&last - &other)).at(&[(l, j)])
            }
            5 => {
                let factors = m.select(&key.lt(&other), &gates.exp(), &m.num(1.0));
                factors.reduce(ReduceOp::Prod, l)
            }
            6..9 => &gates.sum(l) - &gates.cumsum(l).at(&[(l, j)]),
            _ => &gates.sum(l).exp() / &gates.cumsum(l).at(&[(l, j)]).exp(),
        };
        &s + &decay
    }

    fn scaled(&mut self, s: V) -> V {
        let m = self.m.clone();
        let s = match self.one_of(5) {
            0 => &s * &m.num(0.5),
            1 => &s / &m.sqrt_of(self.e),
            2 => &s * &m.param("scale", &[]),
            3 => &(&s * &m.num(0.25)).map(MapOp::Tanh) * &m.num(4.0),
            _ => s,
        };
        match self.one_of(4) {
            0 => &s + &m.input("bias", &[self.i, self.j]),
            // Of a product of three, summed over two axes.
            1 => {
                let (c, d) = (m.axis("c", "D"), self.d);
                let mix = m.param("mixing", &[c, d]);
                let (far, near) = (m.input("mixed_rows", &[self.i, c]), m.input("mixed_keys", &[self.j, d]));
                let all = &(&far * &mix) * &near;
                &s + &if self.rng.bool() { all.sum(c).sum(d) } else { all.sum(d).sum(c) }
            }
            _ => s,
        }
    }

    /// Which keys a query attends to: by position, or by data.
    fn mask(&mut self) -> V {
        let m = self.m.clone();
        match self.one_of(4) {
            0 => m.typed("keep", &[self.i, self.j], DType::Bool),
            1 => m.typed("pad", &[self.j], DType::Bool),
            _ => m.iota(self.j).le(&m.iota(self.i)),
        }
    }

    fn masked(&mut self, s: V) -> V {
        let (m, low) = (self.m.clone(), self.m.num(f32::NEG_INFINITY));
        match self.one_of(6) {
            0 | 1 => m.select(&self.mask(), &s, &low),
            2 => &s + &m.select(&self.mask(), &m.num(0.0), &low),
            3 => m.select(&self.mask(), &s, &m.num(-1e4)),
            _ => s,
        }
    }

    fn weights(&mut self, s: &V) -> V {
        let (m, j) = (self.m.clone(), self.j);
        let positive = |s: &V| m.map(MapOp::Max, &[s, &m.num(0.0)]);
        match self.one_of(17) {
            // With a further score that has no value, relative to the greatest of all.
            16 | 17 => {
                let sink = if self.rng.bool() { m.num(0.0) } else { m.input("sink", &[self.i]) };
                let shift = m.map(MapOp::Max, &[&s.reduce(ReduceOp::Max, j), &sink]);
                let (e, beside) = ((s - &shift).exp(), (&sink - &shift).exp());
                &e / &(&e.sum(j) + &beside)
            }
            0..3 => m.softmax(j, s),
            3 => m.exp_over_sum(j, s),
            4 => m.shifted_exp_over_sum(j, s),
            5 => positive(s),
            6 => m.select(&self.mask(), &positive(s), &m.num(0.0)),
            7 => {
                let w = &positive(s) + &m.num(0.5);
                &w / &w.sum(j)
            }
            8 => s.exp(),
            9 => s / &s.sum(j),
            10 => {
                let w = &m.softmax(j, s) * &self.mask().f32();
                &w / &(&w.sum(j) + &m.num(0.125))
            }
            // Zero without the mask, which stands inside.
            11 | 12 => {
                let kept = m.select(&self.mask(), &positive(s), &m.num(0.0));
                m.map(MapOp::Max, &[&(&kept - &m.num(0.25)), &m.num(0.0)])
            }
            // What is left of a stick behind each key, broken from the nearest key on.
            13 | 14 if self.s == self.t => {
                let before = m.iota(j).lt(&m.iota(self.i));
                let part = m.select(&before, &positive(s), &m.num(0.0));
                let run = part.cumsum(j);
                let last = &m.extent(&Dim::symbol("T")) - &m.extent(&Dim::constant(1));
                let end = if self.rng.bool() { m.iota(self.i) } else { last };
                &run.at_index(j, &end) - &run
            }
            _ => s.clone(),
        }
    }

    fn values(&mut self) -> V {
        self.projected("v", self.j, self.f)
    }

    /// What is made of the weights: values summed under them, or sums of the weights alone.
    fn context(&mut self, w: &V) -> V {
        let (m, i, j) = (self.m.clone(), self.i, self.j);
        match self.one_of(18) {
            0..4 => w.sum(i),
            12 => (w * w).sum(j),
            4 | 13 => {
                // Values of every pair, or numbers of every pair or of every key.
                let u = match self.one_of(3) {
                    0 => m.input("u", &[i, j, self.f]),
                    1 => m.input("u", &[i, j]),
                    _ => m.input("u", &[j]),
                };
                (w * &u).sum(j)
            }
            5 => {
                let (gain, v) = (m.input("gain", &[j]), self.values());
                (&(w * &gain) * &v).sum(j)
            }
            6 | 7 if self.heads == Heads::Own => {
                // The heads of the values are one axis with their features.
                let c = self.all_heads();
                let head = &m.map(MapOp::IntDiv, &[&m.iota(c), &m.extent(&self.features)]);
                let v = m.input("v", &[j, c]);
                (&w.at_index(self.h, head) * &v).sum(j)
            }
            // Factors that have no value, or none that is finite, where there are no keys.
            8 => {
                let v = self.values();
                (&(w * &v) * &w.reduce(ReduceOp::Max, j)).sum(j)
            }
            9 => {
                let v = self.values();
                (&(w * &v) / &(w * w).sum(j)).sum(j)
            }
            10 | 11 => self.with_a_column_of_ones(w),
            // Of several kinds, each with features of its own.
            14..17 => (w * &m.input("v", &[self.d, j, self.f])).sum(j),
            _ => {
                let v = self.values();
                (w * &v).sum(j)
            }
        }
    }

    /// Values summed beside a column of ones, which holds the sum of the weights, and divided by that.
    fn with_a_column_of_ones(&mut self, w: &V) -> V {
        let (m, f, v) = (self.m.clone(), self.f, self.values());
        let (width, one) = (self.features.clone(), m.num(1.0));
        let (c, u) = (m.axis_of("wide", &(&width + &Dim::constant(1))), m.axis("u", "1"));
        let (at, end, next) = (m.iota(c), m.extent(&width), m.int(1));
        let (wide, of_values, of_ones) = match self.one_of(3) {
            0 => (m.concat(c, &[(f, &v), (u, &one)]), m.iota(f), end),
            1 => (m.concat(c, &[(u, &one), (f, &v)]), &m.iota(f) + &next, m.int(0)),
            _ => (m.select(&at.lt(&end), &v.at_index(f, &at), &one), m.iota(f), end),
        };
        let both = (w * &wide).sum(self.j);
        both.at_index(c, &of_values) / both.at_index(c, &of_ones)
    }

    /// What is made of the context: its heads joined or summed, factors multiplied in.
    fn result(&mut self, context: V) -> V {
        let (m, has) = (self.m.clone(), context.axes());
        let context = match self.one_of(3) {
            0 => {
                let (gain, rate) = (m.input("g", &has[..1]), m.input("rate", &has[..1]));
                let rate = &(&rate * &rate) + &m.num(0.5);
                match self.one_of(3) {
                    0 => &(&(&m.num(0.75) * &gain) * &context) / &rate,
                    1 => &(&context / &rate) * &(&gain * &m.num(0.75)),
                    _ => &(&gain / &rate) * &(&m.num(0.75) * &context),
                }
            }
            _ => context,
        };
        let heads: Vec<AxisId> = [self.h, self.r, self.f].into_iter().filter(|a| has.contains(a)).collect();
        match self.one_of(4) {
            // The heads of all groups are one axis.
            0 | 1 if self.heads == Heads::Groups && has.contains(&self.h) && has.contains(&self.r) => {
                let all = m.axis_of("all", &Dim::constant(HEADS * HEADS));
                let part = |op| m.map(op, &[&m.iota(all), &m.int(HEADS)]);
                let read = context.at_index(self.r, &part(MapOp::Mod));
                read.at_index(self.h, &part(MapOp::IntDiv))
            }
            0 | 1 if heads.len() > 1 => {
                let mut axes = heads.clone();
                axes.push(self.d);
                let product = &context * &m.param("o", &axes);
                heads.into_iter().fold(product, |sum, axis| sum.reduce(ReduceOp::Sum, axis))
            }
            2 if self.heads == Heads::Own && heads.len() > 1 => self.with_one_axis_of_heads(&context),
            _ => context,
        }
    }

    /// The context with its heads and features in one axis, and numbers of each head, each feature or both after that.
    fn with_one_axis_of_heads(&mut self, context: &V) -> V {
        let (m, c) = (self.m.clone(), self.all_heads());
        let part = |op| m.map(op, &[&m.iota(c), &m.extent(&self.features)]);
        let of_head = |x: &V| x.at_index(self.h, &part(MapOp::IntDiv));
        let of_feature = |x: &V| x.at_index(self.f, &part(MapOp::Mod));
        let merged = of_head(&of_feature(context));
        match self.rng.bool() {
            true => &merged * &of_head(&m.input("by_head", &[self.h])),
            false => &(&merged + &of_feature(&m.input("by_feature", &[self.f]))) * &m.input("by_place", &[c]),
        }
    }
}
