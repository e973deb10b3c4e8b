"""The HTML version of a mail, made of its text: one design for all mails, and both versions say the same.

The text is divided into blocks by blank lines:

- lines that start with two spaces are facts, a name and a value separated by two spaces or more;
- a line that ends with a colon, followed by a line that is a URL of ours, is a button;
- everything else is a paragraph.

Names that other people chose must be on one line (`one_line`): they can then not look like a block of ours.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

_FACT = re.compile(r"  (\S.*?)(?: {2,}(.*))?")
# Longer previews are cut off by mail programs.
MAX_PREHEADER = 140


@dataclass(frozen=True, slots=True)
class Paragraph:
    kind: ClassVar[str] = "paragraph"
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Facts:
    kind: ClassVar[str] = "facts"
    rows: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class LinkButton:
    kind: ClassVar[str] = "link"
    label: str
    url: str


Block = Paragraph | Facts | LinkButton


def one_line(text: str) -> str:
    """For names that other people chose: line breaks in one could pose as a paragraph of ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def fact_lines(facts: list[tuple[str, str]]) -> str:
    """Lines of a block of facts, aligned."""
    width = max((len(name) for name, _ in facts), default=0) + 2
    return "".join(f"  {name:<{width}}{one_line(value)}\n" for name, value in facts)


def read_blocks(text: str, base_url: str) -> list[Block]:
    chunks = re.split(r"\n\s*\n", text.strip("\n"))
    return [_read_block(chunk.split("\n"), base_url) for chunk in chunks if chunk.strip()]


def _read_block(lines: list[str], base_url: str) -> Block:
    lines = [line.rstrip() for line in lines]
    rows = [_FACT.fullmatch(line) for line in lines]
    if all(row is not None for row in rows):
        return Facts([(row[1], row[2] or "") for row in rows if row is not None])
    if len(lines) == 2 and lines[0].endswith(":") and _is_ours(lines[1], base_url):
        return LinkButton(lines[0].removesuffix(":"), lines[1])
    return Paragraph(lines)


def _is_ours(line: str, base_url: str) -> bool:
    return line.startswith(f"{base_url}/") and " " not in line


def render_mail(
    text: str, *, title: str, seller_name: str, base_url: str, notice: str | None, closing: str | None
) -> str:
    blocks = read_blocks(text, base_url)
    sentences = [" ".join(block.lines) for block in blocks if isinstance(block, Paragraph)]
    preheader = " ".join(each for each in sentences if not each.endswith(",")) or title
    return _template().render(
        title=title,
        preheader=preheader if len(preheader) <= MAX_PREHEADER else f"{preheader[: MAX_PREHEADER - 1]}…",
        seller_name=seller_name,
        notice=notice,
        blocks=blocks,
        closing=(closing or seller_name).strip("\n").split("\n"),
    )


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("tonne.gateways"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("mail.html")
