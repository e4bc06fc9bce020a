"""JSON lines of the comparisons to tables in Markdown: report.py FILE…

A cell reads `median [minimum] ratio share`: milliseconds; the median over ours (above 1, we are faster); the share of the
peak of fused multiply-add that was measured in the same run. The last line of a contestant counts.
"""

import json
import sys

TITLES = {"A": "Attention alone", "B": "Variants at (1, 12, 1024, 64)", "C": "Layers", "D": "Published models"}
OURS = "salient"


def number(x):
    return f"{x:.3f}" if x < 1 else f"{x:.2f}" if x < 10 else f"{x:.1f}"


def cell(row, ours):
    if row is None or "error" in row:
        return "–"
    ratio = f" {row['median_ms'] / ours['median_ms']:.2f}×" if ours and row is not ours else ""
    share = f" {100 * row['of_peak']:.0f} %" if "of_peak" in row else ""
    wrong = " wrong" if row.get("wrong") else ""
    return f"{number(row['median_ms'])} [{number(row['min_ms'])}]{ratio}{share}{wrong}"


def table(rows, group, threads):
    here = {(r["case"], r["peer"]): r for r in rows if r["group"] == group and r["threads"] == threads}
    if not here:
        return
    cases, peers = dict.fromkeys(c for c, _ in here), dict.fromkeys(p for _, p in here if p != OURS)
    print(f"\n## {group}. {TITLES[group]}, {threads} thread{'s' if threads > 1 else ''}\n")
    print(f"| case | {OURS} | best peer over ours | " + " | ".join(peers) + " |\n|---|---|---|" + "---|" * len(peers))
    for case in cases:
        ours = here.get((case, OURS))
        ours = ours if ours and "median_ms" in ours else None
        good = [r for p in peers if "median_ms" in (r := here.get((case, p), {})) and not r.get("wrong")]
        best = min(good, key=lambda r: r["median_ms"], default=None)
        ratio = f"**{best['median_ms'] / ours['median_ms']:.2f}** {best['peer']}" if best and ours else "–"
        print(f"| {case} | {cell(ours, ours)} | {ratio} | " + " | ".join(cell(here.get((case, p)), ours) for p in peers) + " |")


lines = [json.loads(line) for name in sys.argv[1:] for line in open(name)]
for group in TITLES:
    for threads in sorted({r["threads"] for r in lines}):
        table(lines, group, threads)
