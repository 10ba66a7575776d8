"""The report in a real browser: nothing is fetched, nothing fails, everything is seen, and it can be worked with."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from xml.etree import ElementTree

import pytest

from unsc.report.page import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")

CHROMIUM = os.environ.get("UNSC_CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium: apt-get install chromium, or set UNSC_CHROMIUM"),
    # playwright's loop stays open between tests
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SIZES = {"phone": (390, 844), "desktop": (1280, 900)}
RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


@dataclass
class Opened:
    """A page, and all that it said and asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


Visit: TypeAlias = Callable[..., Opened]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Opens a file at a size and in a theme."""
    contexts = []

    def opened(path: Path, *, size: str = "desktop", theme: str = "light") -> Opened:
        width, height = SIZES[size]
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.on("console", lambda message: found.said.append(message.text))
        found.page.on("pageerror", lambda error: found.said.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.goto(path.as_uri())
        return found

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def one(request_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_report([request_run], tmp_path_factory.mktemp("one") / "report.html")


@pytest.fixture(scope="module")
def several(
    request_run: Path, store_runs: tuple[Path, Path], paper_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folders = [request_run, RESULTS / "compare-digits-attacks", *store_runs, paper_run, RESULTS / "steps"]
    return write_report(folders, tmp_path_factory.mktemp("several") / "report.html")


@pytest.mark.parametrize(
    ("which", "size", "theme"),
    [
        ("one", "phone", "light"),
        ("one", "phone", "dark"),
        ("one", "desktop", "light"),
        ("one", "desktop", "dark"),
        ("several", "phone", "dark"),
        ("several", "desktop", "light"),
    ],
)
def test_every_figure_is_seen_and_nothing_is_fetched(
    visit: Visit, which: str, size: str, theme: str, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(which)
    opened = visit(path, size=size, theme=theme)
    page, width = opened.page, SIZES[size][0]
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the screen"
    charts = page.locator(".chart").all()
    figures = json.loads(page.locator("#figures").text_content() or "")
    assert len(charts) == sum(len(next(iter(f["views"].values()))["charts"]) for f in figures) > 0
    for chart in charts:
        chart.scroll_into_view_if_needed()
        box = chart.locator("svg").bounding_box()
        assert box is not None and box["width"] > 200 and box["height"] > 80
        assert box["x"] >= 0 and box["x"] + box["width"] <= width + 1
        assert chart.locator("svg path").count() > 1
    assert opened.said == []
    assert opened.asked == [path.as_uri()]


@pytest.mark.parametrize(("which", "theme"), [("one", "light"), ("one", "dark"), ("several", "dark")])
def test_no_serious_fault_of_access(visit: Visit, which: str, theme: str, request: pytest.FixtureRequest) -> None:
    """With the numbers of one figure opened: those of the others are made in the same way."""
    page = visit(request.getfixturevalue(which), theme=theme).page
    figure = page.locator("figure").first
    figure.get_by_text("Numbers").click()
    figure.locator("details table").wait_for()
    found = axe.Axe().run(page).response["violations"]
    serious = [
        (one["id"], [n["target"] for n in one["nodes"]][:3])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_a_table_is_sorted_by_number_both_ways_by_keyboard(visit: Visit, several: Path) -> None:
    page = visit(several).page
    table = page.locator("section", has=page.get_by_role("heading", name="All runs", exact=True)).locator("table")
    head = table.get_by_role("button", name="retained accuracy (%)")

    def values() -> list[float]:
        keys = table.locator("tbody tr td:nth-child(3)").evaluate_all("cells => cells.map(c => c.dataset.key)")
        known = [float(key) for key in keys if key]
        assert all(not key for key in keys[len(known) :]), "what is not known comes last"
        return known

    before = table.locator("tbody tr").count()
    head.focus()
    page.keyboard.press("Enter")
    assert values() == sorted(values())
    assert table.locator("th[aria-sort=ascending]").count() == 1
    page.keyboard.press("Enter")
    assert values() == sorted(values(), reverse=True)
    assert table.locator("tbody tr").count() == before
    assert table.locator(".badge.control").count() >= 4


def test_a_toggle_hides_a_network_and_brings_it_back(visit: Visit, one: Path) -> None:
    page = visit(one).page
    figure = page.locator("figure", has=page.get_by_role("heading", name="Accuracy by class"))
    drawing = figure.locator(".chart svg")
    whole = drawing.inner_html()
    toggle = figure.get_by_role("button", name="Retrained")
    assert toggle.get_attribute("aria-pressed") == "true"
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    assert drawing.locator("path").count() < whole.count("<path")
    toggle.click()
    assert drawing.locator("path").count() == whole.count("<path")


def test_a_metric_is_chosen(visit: Visit, several: Path) -> None:
    page = visit(several).page
    figure = page.locator("figure", has=page.locator("select"))
    before = figure.locator("h4").text_content()
    figure.locator("select").select_option(index=1)
    assert figure.locator("h4").text_content() != before
    assert figure.locator(".chart svg path").count() > 5


def test_hovering_tells_a_value(visit: Visit, one: Path) -> None:
    page = visit(one).page
    chart = page.locator("figure", has=page.get_by_role("heading", name="Accuracy by class")).locator(".chart")
    chart.hover()
    page.get_by_text("Result <b>").last.wait_for()
    assert "%" in (chart.text_content() or "")


def test_the_theme_changes_by_its_button(visit: Visit, one: Path) -> None:
    page = visit(one).page
    colours = set()
    for name in ("light", "dark", "system"):
        page.locator("#theme").click()
        assert page.locator("#theme").text_content() == f"Theme: {name}"
        colours.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert len(colours) == 2


@pytest.mark.parametrize("kind", ["svg", "png", "csv"])
def test_every_figure_can_be_kept(visit: Visit, one: Path, kind: str, tmp_path: Path) -> None:
    """As a picture with its title, and as the numbers that the page holds."""
    page = visit(one).page
    figures = json.loads(page.locator("#figures").text_content() or "")
    for figure in figures:
        with page.expect_download() as waiting:
            page.locator(f"#{figure['id']} [data-save={kind}]").click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        if kind == "svg":
            assert figure["title"] in "".join(ElementTree.parse(path).getroot().itertext())
        elif kind == "png":
            assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
        else:
            rows = list(csv.reader(io.StringIO(path.read_text())))
            view = next(iter(figure["views"].values()))
            assert rows[0] == view["columns"] and len(rows) == 1 + len(view["rows"])


def test_the_numbers_are_in_a_table(visit: Visit, one: Path) -> None:
    page = visit(one).page
    figure = page.locator("figure", has=page.get_by_role("heading", name="Where forgotten samples went"))
    figure.get_by_text("Numbers").click()
    figure.locator("table tbody tr").nth(2).wait_for()  # the page fills it when it hears that it was opened


def test_it_prints(visit: Visit, one: Path) -> None:
    """In light colours, whatever the theme, and with every figure."""
    page = visit(one, theme="dark").page
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    for drawing in page.locator(".chart svg").all():
        box = drawing.bounding_box()
        assert box is not None and box["width"] > 150 and box["height"] > 60
        assert drawing.get_attribute("viewBox"), "it is scaled, not cut"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.pdf(format="A4").startswith(b"%PDF")
