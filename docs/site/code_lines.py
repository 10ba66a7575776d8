"""Links from a formula to its line of code.

A page links to a source file and quotes the line in the link's title: `[moments.py](../src/unsc/moments.py "rows.mT")`.
In the project that opens the file; in the site it leads to the very line, wherever it has moved to. A quotation that is
in no line of the file, or in several, fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

ROOT = Path(__file__).parents[2]
LINK = re.compile(r'\]\(\.\./(?P<path>[^)\s"]+\.py) "(?P<quoted>[^"]+)"\)')


def line_of(path: Path, quoted: str) -> int:
    """The number of the only line that holds these words, counted from 1."""
    found = [n for n, line in enumerate(path.read_text().splitlines(), 1) if quoted in line]
    if len(found) != 1:
        raise PluginError(f"{path} has {len(found)} lines with {quoted!r}; a link quotes one line of its file")
    return found[0]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file that is quoted, with an anchor for each of its lines."""
    pages = [ROOT / "docs" / f.src_uri for f in files.documentation_pages()]
    for path in sorted({link["path"] for page in pages for link in LINK.finditer(page.read_text())}):
        formatter = HtmlFormatter(full=True, title=path, linenos="inline", lineanchors="L")
        html = highlight((ROOT / path).read_text(), PythonLexer(), formatter)
        files.append(File.generated(config, f"{path}.html", content=html))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def with_line(link: re.Match[str]) -> str:
        line = line_of(ROOT / link["path"], link["quoted"])
        return f'](../{link["path"]}.html#L-{line} "{link["quoted"]}")'

    return LINK.sub(with_line, markdown)
