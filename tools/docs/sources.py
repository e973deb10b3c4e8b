"""Copies the pages, and makes links between them work on the site.

In the repository, pages link to each other and to other files by relative paths, so that they can be read there. On the
site, `../SECURITY.md` is a page too, and a link to any other file leads to a copy of that file.
"""

import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html import escape
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
# Pages outside of `docs`, and their names on the site.
ROOT_PAGES = {
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "clients/python/README.md": "client-python.md",
    "clients/typescript/README.md": "client-typescript.md",
}
# Linked from pages, but neither pages nor files that a reader of the site needs.
_README = "README.md"
FILES = "files"
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]\n]*(?:`[^`\n]*`[^\]\n]*)*)\]\((?P<target>[^)\s]+)\)")
_PICTURE = re.compile(r"^!\[(?P<text>[^\]]+)\]\((?P<target>[\w./-]+\.svg)\)$", re.MULTILINE)
_FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_STYLE = re.compile(r"\s*<style>.*?</style>", re.DOTALL)


class LinkBroken(Exception):
    """A page links to a file that does not exist."""


def stage(folder: Path) -> None:
    """Write all pages and the files they link to. Folders get a page that lists their files."""
    linked: set[Path] = set()
    for source, name in _pages():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        target.write_text(_site_text(text, source, PurePosixPath(name), linked), encoding="utf-8")
    for path in DOCS.rglob("*"):
        if path.is_file() and path.suffix in {".css", ".js", ".json", ".png", ".svg"}:
            copy = folder / path.relative_to(DOCS)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    for path in sorted(linked):
        _copy_linked(path, folder / FILES)


def _pages() -> list[tuple[Path, str]]:
    own = [(path, path.relative_to(DOCS).as_posix()) for path in sorted(DOCS.rglob("*.md"))]
    return [*own, *((ROOT / source, name) for source, name in ROOT_PAGES.items())]


def _site_text(text: str, source: Path, page: PurePosixPath, linked: set[Path]) -> str:
    def replace_link(match: re.Match[str]) -> str:
        target = _site_target(match["target"], source, page, linked)
        return f"[{match['text']}]({target})"

    def replace_picture(match: re.Match[str]) -> str:
        return _inline_picture((source.parent / match["target"]).resolve(), match["text"])

    return _outside_code(_outside_code(text, _PICTURE, replace_picture), _LINK, replace_link)


def _outside_code(text: str, pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]) -> str:
    """Replace matches, but not in code blocks."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [pattern.sub(replace, text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, pattern.sub(replace, text[end:])])


def _site_target(target: str, source: Path, page: PurePosixPath, linked: set[Path]) -> str:
    address, hash_sign, anchor = target.partition("#")
    if not address or "://" in address or address.startswith(("mailto:", "/")):
        return target
    path = (source.parent / address).resolve()
    if not path.exists():
        raise LinkBroken(f"{source.relative_to(ROOT)} links to {target}, which does not exist.")
    if path.is_relative_to(DOCS):
        on_site = path.relative_to(DOCS).as_posix()
    else:
        relative = path.relative_to(ROOT).as_posix()
        if relative == _README:
            on_site = "index.md"
        elif relative in ROOT_PAGES:
            on_site = ROOT_PAGES[relative]
        else:
            linked.add(path)
            on_site = f"{FILES}/{relative}.md" if path.is_dir() else f"{FILES}/{_plain_name(relative)}"
    depth = len(page.parts) - 1
    common = 0
    while common < depth and PurePosixPath(on_site).parts[: common + 1] == page.parts[: common + 1]:
        common += 1
    climbed = "../" * (depth - common)
    return f"{climbed}{'/'.join(PurePosixPath(on_site).parts[common:])}{hash_sign}{anchor}"


def _plain_name(name: str) -> str:
    """Other pages of the repository are shown as text: their links would lead nowhere on the site."""
    return f"{name}.txt" if name.endswith(".md") else name


def _copy_linked(path: Path, folder: Path) -> None:
    relative = path.relative_to(ROOT)
    target = folder / relative
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file():
        shutil.copyfile(path, target.with_name(_plain_name(target.name)))
        return
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and "__pycache__" not in file.parts]
    lines = [f"# `{relative.as_posix()}`", "", "The files of this folder of the repository:", ""]
    for file in files:
        copy = folder / file.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy = copy.with_name(_plain_name(copy.name))
        shutil.copyfile(file, copy)
        lines.append(f"- [`{file.relative_to(path).as_posix()}`]({copy.relative_to(target.parent).as_posix()})")
    target.with_name(f"{target.name}.md").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _inline_picture(path: Path, text: str) -> str:
    """The drawing itself instead of an image, so that it follows the choice of light or dark colours.

    Its own style sheet is for readers of the file; the content security policy forbids it on the site, which has the
    same classes in `site.css`.
    """
    drawing = path.read_text(encoding="utf-8")
    ET.fromstring(drawing)  # noqa: S314 - our own file; a drawing that is not well-formed would break the page
    drawing = _STYLE.sub("", drawing)
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(text)}" ', 1)
    # A blank line would end the block of HTML.
    lines = [line.strip() for line in drawing.splitlines() if line.strip()]
    return '<figure class="picture">' + "".join(lines) + "</figure>"
