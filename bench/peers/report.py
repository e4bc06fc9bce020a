"""JSON lines of the comparisons to tables in Markdown: report.py [--brief] FILE…

`--brief` keeps what docs/benchmarks.md shows of each case: our time, our share of the peak and the best other, by threads.

A cell reads `median [minimum] ratio share`: milliseconds; the median over ours (above 1, we are faster); the share of the
peak of fused multiply-add that was measured in the same run. The last line of a contestant counts.
"""

import json
import sys

TITLES = {"P": "Products with the parameters of linear layers", "A": "Attention alone", "B": "Variants at (1, 12, 1024, 64)", "C": "Layers", "D": "Published models", "E": "A token at a time", "F": "Families of spellings at (1, 4, 512, 64)", "G": "The functions of attention-gym at (1, 8, 1024, 64)", "T": "A step of training", "W": "Gradients of attention"}
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


def contest(here, case):
    """Our row of a case, and the fastest right one of the others; None where there is none."""
    ours = here.get((case, OURS), {})
    good = [r for (c, p), r in here.items() if c == case and p != OURS and "median_ms" in r and not r.get("wrong") and not r.get("beside")]
    return ours if "median_ms" in ours else None, min(good, key=lambda r: r["median_ms"], default=None)


def brief(rows, group, threads):
    here = {t: {(r["case"], r["peer"]): r for r in rows if r["group"] == group and r["threads"] == t} for t in threads}
    cases = dict.fromkeys(c for t in threads for c, _ in here[t])
    if not cases:
        return
    columns = [f"{title}, {t} thread{'s' if t > 1 else ''}" for t in threads for title in ("ours, ms (share of the peak)", "best other over ours")]
    print(f"\n## {group}. {TITLES[group]}\n\n| case | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for case in cases:
        cells = []
        for t in threads:
            ours, best = contest(here[t], case)
            share = f" ({ours['of_peak']:.2f})" if ours and "of_peak" in ours else ""
            cells.append(f"{number(ours['median_ms'])}{share}" if ours else "–")
            cells.append(f"{best['median_ms'] / ours['median_ms']:.2f} {best['peer']}" if ours and best else "–")
        print(f"| {case} | " + " | ".join(cells) + " |")


def table(rows, group, threads):
    here = {(r["case"], r["peer"]): r for r in rows if r["group"] == group and r["threads"] == threads}
    if not here:
        return
    cases, peers = dict.fromkeys(c for c, _ in here), dict.fromkeys(p for _, p in here if p != OURS)
    print(f"\n## {group}. {TITLES[group]}, {threads} thread{'s' if threads > 1 else ''}\n")
    print(f"| case | {OURS} | best peer over ours | " + " | ".join(peers) + " |\n|---|---|---|" + "---|" * len(peers))
    for case in cases:
        ours, best = contest(here, case)
        ratio = f"**{best['median_ms'] / ours['median_ms']:.2f}** {best['peer']}" if best and ours else "–"
        print(f"| {case} | {cell(ours, ours)} | {ratio} | " + " | ".join(cell(here.get((case, p)), ours) for p in peers) + " |")


names = sys.argv[1:]
short = "--brief" in names
lines = [json.loads(line) for name in names if name != "--brief" for line in open(name)]
measured = sorted({r["threads"] for r in lines})
for group in TITLES:
    if short:
        brief(lines, group, measured)
    else:
        for threads in measured:
            table(lines, group, threads)
