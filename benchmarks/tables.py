"""Write the tables of `benchmarks/README.md` anew from the rows in `benchmarks/results/`.

python -m benchmarks.tables
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_PAIR = ("retain_test_acc", "forget_test_acc")


def by_class(rows: list[dict[str, Any]]) -> str:
    """A line for each class: retain / forget test accuracy by method, and what ours took."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    found = {(row["forget"], row["method"]): row for row in rows}
    classes = list(dict.fromkeys(row["forget"] for row in rows))
    lines = [f"| forgotten class | {' | '.join(methods)} | unsc: passes | retained KL | seconds |"]
    lines.append("|" + "---|" * (len(methods) + 4))
    for k in classes:
        pairs = [" / ".join(f"{found[k, m][c]:.2f}" for c in _PAIR) for m in methods]
        ours = found[k, "unsc"]
        took = f"{ours['passes']:.2f} | {ours['retained_kl']:.4f} | {ours['seconds']:.1f}"
        lines.append(f"| {k} | {' | '.join(pairs)} | {took} |")
    if len(classes) > 1:
        columns = [[[found[k, m][c] for k in classes] for c in _PAIR] for m in methods]
        pairs = [" / ".join(_spread(values) for values in pair) for pair in columns]
        ours = [[found[k, "unsc"][c] for k in classes] for c in ("passes", "retained_kl", "seconds")]
        lines.append(f"| mean ± sd, n = {len(classes)} | {' | '.join(pairs)} | {' | '.join(map(_spread, ours))} |")
    return "\n".join(lines)


def by_count(rows: list[dict[str, Any]]) -> str:
    """A line for each number of records and method."""
    headings = "records", "method", "test accuracy", "accuracy on the records", "retained KL", "stopped"
    lines = [f"| {' | '.join(headings)} |", "|" + "---|" * len(headings)]
    for count, method in dict.fromkeys((row["records"], row["method"]) for row in rows):
        own = [row for row in rows if (row["records"], row["method"]) == (count, method)]
        cells = [_spread([row[c] for row in own]) for c in ("test_acc", "records_acc")]
        kl = _spread([row["retained_kl"] for row in own]) if "retained_kl" in own[0] else ""
        stopped = ", ".join(sorted({row["stopped"] for row in own if "stopped" in row}))
        lines.append(f"| {count} | {method} | {' | '.join(cells)} | {kl} | {stopped} |")
    return "\n".join(lines)


def _spread(values: list[float]) -> str:
    digits = 4 if max(values) < 1 and any(values) else 2
    return f"{statistics.mean(values):.{digits}f} ± {statistics.stdev(values):.{digits}f}"


def main() -> None:
    readme = _HERE / "README.md"
    text = readme.read_text()
    for path in sorted((_HERE / "results").glob("*.json")):
        rows = json.loads(path.read_text())["rows"]
        table = by_count(rows) if path.stem == "records" else by_class(rows)
        begin, end = f"<!-- {path.stem} -->", f"<!-- end {path.stem} -->"
        text = re.sub(f"{begin}.*?{end}", lambda _, t=table, b=begin, e=end: f"{b}\n{t}\n{e}", text, flags=re.DOTALL)
    readme.write_text(text)


if __name__ == "__main__":
    main()
