"""The page: all parts in one file that asks no other address for anything."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path

from unsc.errors import listing
from unsc.report.comparison import ComparisonRun
from unsc.report.figure import Figure
from unsc.report.figures import accuracy, course, destinations, latent, layers, membership, methods
from unsc.report.html import paragraph, table
from unsc.report.parts import gate, networks, origin, receipt, together, verdict
from unsc.report.parts import methods as method_table
from unsc.report.read import Run, read_runs, reading
from unsc.report.request import RequestRun
from unsc.report.rows import RowsRun
from unsc.storage.files import write_whole, writing
from unsc.storage.versions import versions

FIGURES = {
    "accuracy": accuracy,
    "destinations": destinations,
    "membership": membership,
    "layers": layers,
    "course": course,
    "latent": latent,
}
"""Those of a request, in the order of the page."""
NAME = "report.html"


def write_report(folders: Sequence[Path], out: Path) -> Path:
    """Write the report on the runs in these folders to the file `out`, whole or not at all."""
    page = render(read_runs(folders))
    with writing(out):
        write_whole(out, lambda path: path.write_text(page, encoding="utf-8"))
    return out


def render(runs: Sequence[Run]) -> str:
    """The whole file."""
    page = _Page()
    if both := together.part(runs):
        page.section("All runs", both)
    for run in runs:
        first = len(page.links)
        with reading(run.name):
            _add(page, run, f"{run.name}: " if len(runs) > 1 else "")
        if len(runs) > 1:  # the menu leads to runs, not to all of their parts
            page.links[first:] = [(run.name, page.links[first][1])]
    title = f"Report on {listing((run.name for run in runs), limit=3)}"
    return _TEMPLATE.format(
        title=escape(title),
        style=_asset("report.css"),
        nav="".join(f'<li><a href="#{id_}">{escape(name)}</a></li>' for name, id_ in page.links),
        body="".join(page.parts),
        version=escape(versions()["unsc"]),
        data=_as_script(page.figures),
        library=_asset("echarts.min.js"),
        script=_asset("report.js"),
    )


@dataclass
class _Page:
    """What the page holds so far."""

    parts: list[str] = field(default_factory=list)
    figures: list[Mapping[str, object]] = field(default_factory=list)
    links: list[tuple[str, str]] = field(default_factory=list)
    """What the menu shows, and the part that it leads to."""

    def section(self, title: str, inside: str, *, kind: str = "") -> None:
        """A part under a heading that the menu links to."""
        id_ = f"part-{len(self.parts) + 1}"
        self.links.append((title, id_))
        self.parts.append(f'<section id="{id_}" class="{kind}"><h2>{escape(title)}</h2>{inside}</section>')

    def figure(self, figure: Figure, *, level: int = 2) -> str:
        """The frame of a figure; the page's script draws it."""
        id_ = f"figure-{len(self.figures) + 1}"
        self.figures.append({"id": id_, **asdict(figure)})
        choice = ""
        if len(figure.views) > 1:
            options = "".join(f"<option>{escape(name)}</option>" for name in figure.views)
            choice = f'<label class="choice">Metric <select>{options}</select></label>'
        title = escape(figure.title)
        saves = "".join(
            f'<button type="button" data-save="{kind}" aria-label="Save {title} as {name}">{name}</button>'
            for kind, name in (("svg", "SVG"), ("png", "PNG"), ("csv", "CSV"))
        )
        return (
            f'<figure id="{id_}" aria-labelledby="{id_}-title"><div class="bar">'
            f'<h{level} id="{id_}-title">{title}</h{level}>{choice}'
            f'<div class="save" role="group" aria-label="Save">{saves}</div></div>'
            f'<div class="chips" role="group" aria-label="Show or hide"></div><div class="charts"></div>'
            f"<figcaption>{escape(figure.caption)}</figcaption>"
            f'<details class="numbers"><summary>Numbers</summary></details></figure>'
        )


def _add(page: _Page, run: Run, prefix: str) -> None:
    """The parts of a run, with a prefix to their headings that tells it from others."""
    if isinstance(run, ComparisonRun):
        head = f'<p class="verdict">{escape(method_table.sentence(run))}</p>{paragraph(run.about + ".", "promise")}'
        page.section(f"{prefix}Comparison", head, kind="hero")
        page.section(f"{prefix}Methods", method_table.part(run))
        page.section(f"{prefix}Metrics", page.figure(methods.figure(run), level=3))
    elif isinstance(run, RowsRun):
        page.section(run.name, paragraph(run.about, "note") + table(run.name, run.head, run.rows))
    else:
        _add_request(page, run, prefix)


def _add_request(page: _Page, run: RequestRun, prefix: str) -> None:
    page.section(f"{prefix}Verdict", verdict.part(run), kind="hero")
    page.section(f"{prefix}Gates", gate.part(run))
    absent = []
    if side_by_side := networks.part(run):
        page.section(f"{prefix}Networks", side_by_side)
    else:
        absent.append("networks")
    drawn = []
    for name, module in FIGURES.items():
        figure = module.figure(run)
        if figure is None:
            absent.append(name)
        else:
            drawn.append(page.figure(figure, level=3))
    if drawn:
        page.section(f"{prefix}Figures", "".join(drawn), kind="figures")
    page.section(f"{prefix}Receipt", receipt.part(run))
    page.section(f"{prefix}Not claimed", receipt.not_claimed(run))
    if said := origin.left_out(run, absent):
        page.section(f"{prefix}Left out", said)
    page.section(f"{prefix}How it was made", origin.made(run))


def _asset(name: str) -> str:
    return (files("unsc.report") / "assets" / name).read_text(encoding="utf-8")


def _as_script(content: object) -> str:
    """JSON inside of a script element: no value can end it."""
    return json.dumps(_finite(content), separators=(",", ":")).replace("<", "\\u003c")


def _finite(content: object) -> object:
    """JSON of browsers has no NaN: such a number is not there."""
    if isinstance(content, Mapping):
        return {name: _finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; \
script-src 'unsafe-inline'; img-src data: blob:">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top"><div class="wrap"><span class="brand">unsc</span>
<nav aria-label="Parts of this report"><ul>{nav}</ul></nav>
<button type="button" id="theme">Theme: system</button></div></header>
<main id="main" class="wrap"><h1>{title}</h1>
<noscript><p>Figures and sorting need JavaScript, which is in this file; nothing is fetched.</p></noscript>
{body}</main>
<footer class="wrap"><p>Made by unsc {version} from the files of the run alone. Charts: Apache ECharts. This file asks \
no other address for anything.</p></footer>
<p id="told" class="hidden" role="status"></p>
<script type="application/json" id="figures">{data}</script>
<script>{library}</script>
<script>{script}</script>
</body>
</html>
"""
