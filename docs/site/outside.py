"""The project's own pages outside `docs/`, and the files that pages link to, are part of the site.

Pages link to each other, to sources and to results as they lie in the project, so that the links work there too. In
the site everything of `docs/` is at the top, the README is the start page, and the rest keeps its path.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PAGES = {"index.md": "README.md"} | {
    name: name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "results/README.md")
}
"""Pages of the site that lie outside `docs/`, by their name in the site."""
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, and every file that a page links to."""
    sources = {f.src_uri: f"docs/{f.src_uri}" for f in files.documentation_pages()} | PAGES
    for name, source in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for source in sources.values():
        for link in LINK.findall((ROOT / source).read_text()):
            target = _target(source, link)
            name = _in_site(target)
            if name not in files.src_uris and (ROOT / target).is_file():
                files.append(File.generated(config, name, abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links as they are in the site."""
    name = page.file.src_uri
    source = PAGES.get(name, f"docs/{name}")
    up = "../" * name.count("/")

    def rewritten(match: re.Match[str]) -> str:
        return f"]({up}{_in_site(_target(source, match.group(1)))}"

    return LINK.sub(rewritten, markdown)


def _target(source: str, link: str) -> str:
    """What a link means, as a path in the project."""
    return normpath(f"{Path(source).parent.as_posix()}/{link}")


def _in_site(target: str) -> str:
    return "index.md" if target == "README.md" else target.removeprefix("docs/")
