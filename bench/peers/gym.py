"""Group G: the functions that attention-gym publishes, at (B, H, T, E) = (1, 8, 1024, 64) in f32.

Further flags: --length T, --heads H, --width E. Beside the environment of the other groups, `pip install --no-deps attn_gym`.
FlexAttention runs compiled, with its own size of blocks and with one of 32, which skips more of what a mask hides; block masks are made
outside of the clock. `torch_compiled` is the same on whole arrays by torch.compile.
"""

import argparse
import os
import sys

from common import HERE, Salient, compare, listed, torch_arrays, torch_call

sys.path.insert(0, os.path.join(HERE, "gym"))
import cases  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--length", type=int, default=1024)
parser.add_argument("--heads", type=int, default=8)
parser.add_argument("--width", type=int, default=64)
sizes, _ = parser.parse_known_args()
SHAPE = (1, sizes.heads, sizes.width)


def run(case):
    arrays = {**case.qkv(SHAPE), **case.arrays}
    # What a mask hides is credited to nobody.
    flops = 4 * float(cases.seen(case, SHAPE).sum()) * sizes.width

    def flex(**how):
        torch_arrays()  # sets the threads
        return torch_call(cases.attend(case, arrays, compiled=True, **how))

    def torch_flex():
        return flex()

    def torch_flex_32():
        if case.mask is None or case.blocks is not None:
            raise NotImplementedError("it has no mask, or brings its own blocks")
        return flex(block=32)

    def torch_compiled():
        torch_arrays()
        return torch_call(cases.written_out(case, arrays))

    def salient():
        return Salient(str(case.program), case.name, arrays, sets=case.sizes.items())

    makers = {make.__name__: make for make in (torch_compiled, torch_flex, torch_flex_32, salient)}
    compare("G", case.name, makers, flops)


for case in cases.cases(SHAPE, sizes.length).values():
    if listed(case.name):
        run(case)
