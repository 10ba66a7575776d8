"""Two pictures of the code, drawn from the code whenever the site is built: no arrow in them was drawn by hand.

`flow.svg` has the things that a request becomes. An arrow from A to B is a function that takes an A and gives a B, or a
field of B that holds an A; both are read from annotations. An arrow is left out where others lead the same way.
`rooms.svg` has the parts of the package, and which imports which. Only what is worth showing is chosen here (`THINGS`);
a name that is gone fails the build.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

SOURCE = Path(__file__).parents[2] / "src" / "unsc"
THINGS = (
    "Source", "Options", "Request", "Reference", "Samples", "Layer", "Watch", "Aims", "Task", "Moment",
    "RetainedCurvature", "NullSpace", "Step", "Outcome", "RunMetrics", "Forgotten",
)  # fmt: skip
ROOMS = {"methods", "evaluation", "release", "compare", "report", "bench", "cli"}
"""Packages around the core."""
WIDTH, HEIGHT, ACROSS, DOWN = 150, 30, 190, 84
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#222}.note{font-size:10px;fill:#555}"
    ".box{fill:#eef2fb;stroke:#3f51b5}.arrow{fill:none;stroke:#7986cb;marker-end:url(#tip)}"
    ".field{stroke:#9e9e9e;stroke-dasharray:3 3}"
)


@dataclass(frozen=True, order=True)
class Arrow:
    """Where one thing becomes another, or a part of it."""

    start: str
    end: str
    by: str
    """The function, as `module.function`; empty for a field."""


@cache
def trees() -> dict[str, ast.Module]:
    """Every module of the package by its dotted name without `unsc.`."""
    paths = {path.relative_to(SOURCE).with_suffix("").as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name.replace("/", "."): ast.parse(path.read_text()) for name, path in paths.items()}


@cache
def kinds() -> dict[str, str]:
    """Things by the names that annotations have for them: their own, and those of their subclasses."""
    classes = [node for tree in trees().values() for node in tree.body if isinstance(node, ast.ClassDef)]
    inherited = {c.name: b.id for c in classes for b in c.bases if isinstance(b, ast.Name) and b.id in THINGS}
    return inherited | {name: name for name in THINGS}


def named(annotation: ast.expr | None) -> set[str]:
    """The things that an annotation names."""
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)} if annotation else set()
    return {kinds()[name] for name in names & kinds().keys()}


@cache
def arrows() -> list[Arrow]:
    """Those between things, from the modules of the core."""
    found: set[Arrow] = set()
    for module, tree in trees().items():
        if module.split(".")[0] in rooms() or module == "deprecated":
            continue
        found |= set(_by_functions(module, tree.body, None))
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found |= set(_by_functions(module, node.body, node.name))
                if node.name in THINGS:
                    fields = [part.annotation for part in node.body if isinstance(part, ast.AnnAssign)]
                    found |= {Arrow(one, node.name, "") for f in fields for one in named(f) if one != node.name}
    return sorted(found)


def _by_functions(module: str, body: Iterable[ast.stmt], owner: str | None) -> Iterator[Arrow]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            taken = {owner} & {*THINGS}
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                taken |= named(argument.annotation)
            given = named(node.returns) - taken
            called = f"{owner}.{node.name}" if owner else node.name
            yield from (Arrow(str(a), b, f"{module}.{called}") for a in taken - given for b in given)


@cache
def rooms() -> tuple[str, ...]:
    """The packages that lie around the core, those that are imported most first."""
    reached = _imports_between_rooms()
    return tuple(sorted(reached, key=lambda room: (len(_all_below(room, reached)), room)))


def _imports_between_rooms() -> dict[str, set[str]]:
    parsed = trees()
    outside = ROOMS & {name.split(".")[0] for name in parsed}
    reached: dict[str, set[str]] = {room: set() for room in outside}
    for module, tree in parsed.items():
        room = module.split(".")[0]
        for node in ast.walk(tree):
            if room in outside and isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unsc."):
                other = (node.module or "").split(".")[1]
                reached[room] |= {other} & outside - {room}
    return reached


def _all_below(room: str, reached: dict[str, set[str]]) -> set[str]:
    return reached[room].union(*(_all_below(other, reached) for other in reached[room]))


def ranks(found: Iterable[Arrow]) -> dict[str, int]:
    """How many arrows the longest way to each thing has; arrows of a circle count once."""
    rank = dict.fromkeys(THINGS, 0)
    for _ in THINGS:
        for arrow in found:
            if not _leads(arrow.end, arrow.start, found):
                rank[arrow.end] = max(rank[arrow.end], rank[arrow.start] + 1)
    return rank


def _leads(start: str, end: str, found: Iterable[Arrow]) -> bool:
    """Whether arrows lead from one thing to another."""
    seen, waiting = {start}, [start]
    while waiting:
        here = waiting.pop()
        new = {a.end for a in found if a.start == here} - seen
        seen |= new
        waiting += new
    return end in seen


def direct(found: Iterable[Arrow]) -> list[Arrow]:
    """One arrow between two things, and none where a detour leads from the one to the other."""
    once = {(a.start, a.end): a for a in sorted(found, reverse=True)}
    rest = {pair: [a for a in once.values() if (a.start, a.end) != pair] for pair in once}
    return [arrow for pair, arrow in sorted(once.items()) if not _leads(*pair, rest[pair])]


def flow() -> str:
    """The picture of things."""
    found = arrows()
    alone = set(THINGS) - {name for a in found for name in (a.start, a.end)}
    if alone:
        raise PluginError(f"{sorted(alone)} of docs/site/architecture.py are in no annotation of the core")
    rank = ranks(found)
    rows = [[name for name in THINGS if rank[name] == r] for r in range(max(rank.values()) + 1)]
    wide = max(map(len, rows)) * ACROSS
    places = {
        name: (wide * (i + 0.5) / len(row) - WIDTH / 2, 20 + DOWN * r)
        for r, row in enumerate(rows)
        for i, name in enumerate(row)
    }
    parts = [_path(places[a.start], places[a.end], a) for a in direct(found)]
    parts += [_box(name, *place) for name, place in places.items()]
    return _svg(wide, 40 + DOWN * len(rows) - (DOWN - HEIGHT), parts)


def rooms_picture() -> str:
    """The picture of rooms: the core on the left, each further one right of all that it imports."""
    reached = _imports_between_rooms()
    order = ("core", *rooms())
    places = {room: (10.0 + i * (WIDTH - 30), 120.0) for i, room in enumerate(order)}
    parts = []
    for room in order[1:]:
        for other in sorted(reached[room] | {"core"}):
            (x1, y), (x2, _) = places[room], places[other]
            middle, top = (x1 + x2) / 2 + 50, y - 14 * abs(order.index(room) - order.index(other)) - 10
            parts.append(f'<path class="arrow" d="M{x1 + 50} {y} Q{middle} {top} {x2 + 50} {y}"/>')
    parts += [_box(room, *place, width=100) for room, place in places.items()]
    return _svg(20 + len(order) * (WIDTH - 30), 170, parts)


def _box(name: str, x: float, y: float, width: int = WIDTH) -> str:
    box = f'<rect class="box" x="{x:.0f}" y="{y:.0f}" width="{width}" height="{HEIGHT}" rx="6"/>'
    return f'{box}<text x="{x + width / 2:.0f}" y="{y + 19:.0f}" text-anchor="middle">{escape(name)}</text>'


def _path(start: tuple[float, float], end: tuple[float, float], arrow: Arrow) -> str:
    """A curve from the bottom of a box to the top of another, and the function's own name beside it."""
    x1, y1, x2, y2 = start[0] + WIDTH / 2, start[1] + HEIGHT, end[0] + WIDTH / 2, end[1]
    half, kind = (y2 - y1) / 2, "" if arrow.by else " field"
    curve = f"M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + half:.0f} {x2:.0f} {y2 - half:.0f} {x2:.0f} {y2:.0f}"
    label = escape(arrow.by.rpartition(".")[2] or "part of")
    near = 0.5 if y2 - y1 < DOWN else 0.1  # the middle of a long one may lie on a box
    x, y = x1 + near * (x2 - x1) + 4, y1 + (half if near == 0.5 else 22) + 3
    text = f'<text class="note" x="{x:.0f}" y="{y:.0f}">{label}</text>'
    return f'<path class="arrow{kind}" d="{curve}"/>{text}'


def _svg(width: float, height: float, parts: Iterable[str]) -> str:
    shape = 'viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    tip = f'<marker id="tip" {shape}><path d="M0 0L8 4L0 8z" fill="#7986cb"/></marker>'
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}"'
    back = '<rect width="100%" height="100%" fill="white" rx="8"/>'
    inside = f"<style>{STYLE}</style><defs>{tip}</defs>{back}{''.join(parts)}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{inside}</svg>'


def table() -> str:
    """The arrows that are functions, as the rows of a Markdown table."""
    rows = [f"| {a.start} | {a.end} | `{a.by}` |" for a in arrows() if a.by]
    return "\n".join(["| from | to | by |", "|---|---|---|", *rows])


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, content in {"flow.svg": flow(), "rooms.svg": rooms_picture()}.items():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: object, config: MkDocsConfig, files: Files) -> str:
    return markdown.replace("<!-- arrows -->", table())
