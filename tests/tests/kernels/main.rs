//! Every kind of kernel, compiled, against the oracle: odd sizes, hostile data, any number of threads.

mod attention;
mod harness;
mod products;
mod rows;

use attention::causal;
use harness::{Case, Model, long_in_turn};
use products::product_with_bias;
use salient_ir::{Direction, FusedOp, Op, ReduceOp};

#[test]
fn every_kernel_at_one_long_dimension() {
    for dims in long_in_turn(&["T", "D", "O"]) {
        Case::new(product_with_bias(), &dims, 1).check();
    }
    for dims in long_in_turn(&["H", "Q", "K", "E", "F"]) {
        Case::new(causal(3, FusedOp::Attend), &dims, 2).check();
    }
    for dims in long_in_turn(&["T", "D"]) {
        let mut m = Model::new();
        let (t, d) = (m.axis("t", "T"), m.axis("d", "D"));
        let x = m.input("x", &[t, d]);
        let [running, reverse] =
            Direction::ALL.map(|direction| m.b.add(Op::CumSum(direction, d), &[x]).unwrap());
        let shares = m.b.add(Op::Fused(FusedOp::Softmax, d), &[x]).unwrap();
        let sum = m.b.reduce(ReduceOp::Sum, t, x).unwrap();
        m.b.output("running", &[t, d], running).unwrap();
        m.b.output("reverse", &[t, d], reverse).unwrap();
        m.b.output("shares", &[t, d], shares).unwrap();
        Case::new(m.done("sum", &[d], sum), &dims, 3).check();
    }
}
