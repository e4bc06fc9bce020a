use super::*;
use salient_ir::{Builder, Const, DType, ReduceOp};

/// A graph over `x: f32[t: T, e: E]` and its nodes by name.
struct Program {
    b: Builder,
    x: NodeId,
    t: AxisId,
    e: AxisId,
}

impl Program {
    fn new() -> Program {
        let mut b = Builder::new("m");
        let (t, e) = (b.axis_id("t", &Dim::symbol("T")), b.axis_id("e", &Dim::symbol("E")));
        let x = b.input("x", &[t, e], DType::F32, None);
        Program { b, x, t, e }
    }

    fn int(&mut self, n: i64) -> NodeId {
        self.b.constant(Const::I64(n))
    }

    fn map(&mut self, op: MapOp, args: &[NodeId]) -> NodeId {
        self.b.map(op, args).unwrap()
    }

    /// `x[t - 1, e]`.
    fn before(&mut self) -> NodeId {
        let (place, one) = (self.b.iota(self.t), self.int(1));
        let index = self.map(MapOp::Sub, &[place, one]);
        self.b.at(self.x, self.t, index).unwrap()
    }

    /// `if t > least then value else 0`.
    fn after(&mut self, least: i64, value: NodeId) -> NodeId {
        let (place, least) = (self.b.iota(self.t), self.int(least));
        let condition = self.map(MapOp::Lt, &[least, place]);
        let zero = self.b.constant(Const::f32(0.0));
        self.map(MapOp::Select, &[condition, value, zero])
    }

    fn sum(&mut self, value: NodeId) -> NodeId {
        self.b.reduce(ReduceOp::Sum, self.e, value).unwrap()
    }

    fn finish(mut self, axes: &[AxisId], node: NodeId) -> Graph {
        self.b.output("y", axes, node).unwrap();
        self.b.finish()
    }
}

/// Of the nodes of one operator the facts that tests ask for.
fn facts_of(g: &Graph, known: &Defined, is_one: impl Fn(&Op) -> bool) -> Vec<(bool, bool)> {
    let found = g.ids().filter(|id| is_one(g.op(*id)));
    found.map(|id| (known.may_report(id), known.is_demanded(id))).collect()
}

#[test]
fn a_guard_that_implies_the_index_discharges_it() {
    let mut p = Program::new();
    let before = p.before();
    let sum = p.sum(before);
    let y = p.after(0, sum);
    let t = p.t;
    let g = p.finish(&[t], y);
    let (checked, known) = defined(&g);
    assert!(matches!(checked, Cow::Borrowed(_)), "nothing is checked when it runs");
    assert_eq!(facts_of(&g, &known, |op| matches!(op, Op::Reduce(..))), [(true, false)]);
    let choice = facts_of(&g, &known, |op| *op == Op::Map(MapOp::Select));
    assert_eq!(choice, [(false, true)]);
}

#[test]
fn a_guard_that_does_not_imply_the_index_leaves_a_check() {
    let mut p = Program::new();
    let before = p.before();
    let sum = p.sum(before);
    let y = p.after(-1, sum);
    let t = p.t;
    let g = p.finish(&[t], y);
    let (checked, _) = defined(&g);
    assert!(matches!(checked, Cow::Owned(_)));
    let choices = checked.ids().filter(|id| *checked.op(*id) == Op::Map(MapOp::Select)).count();
    assert_eq!(choices, 2, "the guard of the source and that of the check");
    assert_eq!(salient_ir::verify::verify(&checked), Vec::<String>::new());
}

#[test]
fn what_is_demanded_reports_itself() {
    let mut p = Program::new();
    let before = p.before();
    let y = p.sum(before);
    let t = p.t;
    let g = p.finish(&[t], y);
    let (checked, known) = defined(&g);
    assert!(matches!(checked, Cow::Borrowed(_)));
    assert_eq!(facts_of(&g, &known, |op| matches!(op, Op::Reduce(..))), [(false, true)]);
    assert_eq!(facts_of(&g, &known, |op| matches!(op, Op::At(_))), [(true, true)]);
}

#[test]
fn one_position_of_a_sum_demands_no_other() {
    let mut p = Program::new();
    let sum = p.sum(p.x);
    let (t, last) = (p.t, p.b.extent_of(&Dim::symbol("T")));
    let one = p.int(1);
    let last = p.map(MapOp::Sub, &[last, one]);
    let y = p.b.at(sum, t, last).unwrap();
    let g = p.finish(&[], y);
    assert_eq!(facts_of(&g, &defined(&g).1, |op| matches!(op, Op::Reduce(..))), [(false, false)]);
}

/// A table that is read at a bucket of a distance: so many thresholds that it exceeds, and what is small of it.
#[test]
fn an_index_that_is_chosen_from_few_numbers_lies_between_them() {
    // `min(abs(t - 7), 4) + (if 8 <= abs(t - 7) then 1 else 0)` lies in `0 .. 6`, and not in `0 .. 5`.
    let is_proved = |extent: i64| {
        let mut p = Program::new();
        let n = p.b.axis_id("n", &Dim::constant(extent));
        let table = p.b.input("table", &[n], DType::F32, None);
        let (place, seven, four, eight) = (p.b.iota(p.t), p.int(7), p.int(4), p.int(8));
        let away = p.map(MapOp::Sub, &[place, seven]);
        let distance = p.map(MapOp::Abs, &[away]);
        let small = p.map(MapOp::Min, &[distance, four]);
        let (is_far, one, zero) = (p.map(MapOp::Le, &[eight, distance]), p.int(1), p.int(0));
        let far = p.map(MapOp::Select, &[is_far, one, zero]);
        let bucket = p.map(MapOp::Add, &[small, far]);
        let y = p.b.at(table, n, bucket).unwrap();
        let t = p.t;
        let g = p.finish(&[t], y);
        let (_, known) = defined(&g);
        facts_of(&g, &known, |op| matches!(op, Op::At(_))) == [(false, true)]
    };
    assert!(is_proved(6));
    assert!(!is_proved(5));
}

/// `table[abs(t - s)]`, of as many positions as there are rows and keys, or one less.
#[test]
fn a_distance_without_its_sign_lies_inside() {
    let is_proved = |less: i64| {
        let mut p = Program::new();
        let s = p.b.axis_id("s", &Dim::symbol("T"));
        let n = p.b.axis_id("n", &(&Dim::symbol("T") - &Dim::constant(less)));
        let table = p.b.input("table", &[n], DType::F32, None);
        let (row, key) = (p.b.iota(p.t), p.b.iota(s));
        let between = p.map(MapOp::Sub, &[row, key]);
        let distance = p.map(MapOp::Abs, &[between]);
        let y = p.b.at(table, n, distance).unwrap();
        let t = p.t;
        let g = p.finish(&[t, s], y);
        let (_, known) = defined(&g);
        facts_of(&g, &known, |op| matches!(op, Op::At(_))) == [(false, true)]
    };
    assert!(is_proved(0));
    assert!(!is_proved(1));
}

/// `if n <= 127 then y[n / 32, n % 32] else 0` over n < 384, where y is 4 by 32.
#[test]
fn a_guard_on_a_number_bounds_its_quotient() {
    let guarded = |most: i64| {
        let mut b = Builder::new("m");
        let [n, h, e] =
            [("n", 384), ("h", 4), ("e", 32)].map(|(name, of)| b.axis_id(name, &Dim::constant(of)));
        let y = b.input("y", &[h, e], DType::F32, None);
        let [by, most] = [32, most].map(|n| b.constant(Const::I64(n)));
        let place = b.iota(n);
        let [head, width] = [MapOp::IntDiv, MapOp::Mod].map(|op| b.map(op, &[place, by]).unwrap());
        let read = b.at_all(y, &[(h, head), (e, width)]).unwrap();
        let is_inside = b.map(MapOp::Le, &[place, most]).unwrap();
        let zero = b.constant(Const::f32(0.0));
        let value = b.map(MapOp::Select, &[is_inside, read, zero]).unwrap();
        b.output("y", &[n], value).unwrap();
        let g = b.finish();
        let choice = g.ids().find(|id| *g.op(*id) == Op::Map(MapOp::Select)).unwrap();
        known(&g).is_guarded(choice, 1)
    };
    assert!(guarded(127));
    assert!(!guarded(128));
}
