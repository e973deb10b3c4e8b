"""The HTML version of a mail, made of its text: one design for all mails, and both versions say the same.

The text is divided into blocks by blank lines:

- lines that start with two spaces are facts, a name and a value separated by two spaces or more;
- facts with a line of dashes among them are amounts, and those after the dashes are their sums;
- a line that ends with a colon, followed by a line that is a URL of ours, is a button;
- everything else is a paragraph.

Names that other people chose must be on one line (`one_line`): they can then not look like a block of ours.
"""

import re
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

if TYPE_CHECKING:
    from jinja2 import Template

_FACT = re.compile(r"  (\S.*?)(?: {2,}(.*))?")
_RULE = re.compile(r"  -{3,}")
# Longer previews are cut off by mail programs.
MAX_PREHEADER = 140


class Paragraph(Struct, frozen=True):
    kind: ClassVar[str] = "paragraph"
    lines: list[str]


class Facts(Struct, frozen=True):
    kind: ClassVar[str] = "facts"
    rows: list[tuple[str, str]]


class Sums(Struct, frozen=True):
    kind: ClassVar[str] = "sums"
    rows: list[tuple[str, str]]
    totals: list[tuple[str, str]]


class LinkButton(Struct, frozen=True):
    kind: ClassVar[str] = "link"
    label: str
    url: str


Block = Paragraph | Facts | Sums | LinkButton


def one_line(text: str) -> str:
    """For names that other people chose: line breaks in one could pose as a paragraph of ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def fact_lines(facts: list[tuple[str, str]]) -> str:
    """Lines of a block of facts, aligned."""
    width = max((len(name) for name, _ in facts), default=0) + 2
    return "".join(f"  {name:<{width}}{one_line(value)}\n" for name, value in facts)


def sum_lines(rows: list[tuple[str, str]], totals: list[tuple[str, str]]) -> str:
    """Lines of a block of amounts, aligned at the right, with their sums below a rule."""
    shown = [(one_line(name), one_line(value)) for name, value in [*rows, *totals]]
    width = max(len(name) for name, _ in shown) + 2 + max(len(value) for _, value in shown)
    lines = [f"  {name}{value:>{width - len(name)}}\n" for name, value in shown]
    lines.insert(len(rows), f"  {'-' * width}\n")
    return "".join(lines)


def button_lines(label: str, url: str | None) -> str:
    """Lines of a button. Empty without a URL."""
    return "" if url is None else f"{label}:\n{url}\n"


def join_blocks(blocks: list[str]) -> str:
    """The text of a mail. Empty blocks are left out."""
    return "\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n"


def read_blocks(text: str, base_url: str) -> list[Block]:
    chunks = re.split(r"\n\s*\n", text.strip("\n"))
    return [_read_block(chunk.split("\n"), base_url) for chunk in chunks if chunk.strip()]


def _read_block(lines: list[str], base_url: str) -> Block:
    lines = [line.rstrip() for line in lines]
    if all(_FACT.fullmatch(line) for line in lines):
        rules = [index for index, line in enumerate(lines) if _RULE.fullmatch(line)]
        if rules:
            return Sums(_read_facts(lines[: rules[0]]), _read_facts(lines[rules[0] + 1 :]))
        return Facts(_read_facts(lines))
    if len(lines) == 2 and lines[0].endswith(":") and _is_ours(lines[1], base_url):
        return LinkButton(lines[0].removesuffix(":"), lines[1])
    return Paragraph(lines)


def _read_facts(lines: list[str]) -> list[tuple[str, str]]:
    return [(row[1], row[2] or "") for row in map(_FACT.fullmatch, lines) if row is not None]


def _is_ours(line: str, base_url: str) -> bool:
    return line.startswith(f"{base_url}/") and " " not in line


class Frame(Struct, frozen=True, kw_only=True):
    """What is around the text of a mail.

    `heading` is whose mail it is, `notice` comes first and stands out, `closing` is the signature.
    """

    title: str
    heading: str
    # Below the heading, smaller.
    subheading: str | None = None
    notice: str | None = None
    closing: list[str]
    legal_links: list[tuple[str, str]]
    language: str
    direction: str


def render_mail(text: str, frame: Frame, *, base_url: str) -> str:
    blocks = read_blocks(text, base_url)
    sentences = [" ".join(block.lines) for block in blocks if isinstance(block, Paragraph)]
    preheader = " ".join(each for each in sentences if not each.endswith(",")) or frame.title
    return _template().render(
        preheader=preheader if len(preheader) <= MAX_PREHEADER else f"{preheader[: MAX_PREHEADER - 1]}…",
        frame=frame,
        blocks=blocks,
        # The others are less prominent.
        first_button=next((block for block in blocks if isinstance(block, LinkButton)), None),
        start="right" if frame.direction == "rtl" else "left",
        end="left" if frame.direction == "rtl" else "right",
    )


@cache
def _template() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - few commands compose a mail

    environment = Environment(
        loader=PackageLoader("tonne.platform.documents.mail"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("mail.html")
