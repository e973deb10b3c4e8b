"""The code blocks of the documentation."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import ROOT

DOCS = ROOT / "docs"
# What a block of each language is. Those without a note below are run or validated.
LANGUAGES = {
    "bash": "run",
    "console": "lines that begin with `$ ` are run; the rest is their output",
    "csv": "parsed",
    "diff": "shown: a change of the source",
    "html": "shown",
    "http": "shown: a request or a response as it is sent",
    "ini": "environment variables: read as settings",
    "js": "run by test_credential_verifiers.py",
    "json": "validated",
    "python": "run",
    "sql": "run in a transaction that is rolled back",
    "text": "shown",
    "toml": "read as settings",
    "ts": "compiled and run by test_clients.py",
    "typescript": "compiled and run by test_client_libraries.py",
    "yaml": "used by test_clients.py",
}
_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL
)
_DIRECTIVE = re.compile(r"<!-- (body|schema|file|setting): ([^>]+?) -->\s*\Z")


@dataclass(frozen=True)
class Snippet:
    page: str
    line: int
    language: str
    text: str
    # The comment before the block, such as ("body", "POST /v1/orders/by-mass").
    directive: tuple[str, str] | None

    @property
    def first_line(self) -> str:
        return self.text.strip().partition("\n")[0]

    @property
    def commands(self) -> str:
        if self.language != "console":
            return self.text
        return "\n".join(line[2:] for line in self.text.splitlines() if line.startswith("$ "))

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """README and all pages of the site that are written by hand, except the changelog, which has no code."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]


def snippets_of(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _BLOCK.finditer(text):
        directive = _DIRECTIVE.search(text[: match.start()])
        indent = len(match["indent"])
        found.append(
            Snippet(
                page.relative_to(ROOT).as_posix(),
                text.count("\n", 0, match.start()) + 1,
                match["language"],
                "\n".join(line[indent:] for line in match["text"].splitlines()) + "\n",
                (directive[1], directive[2]) if directive else None,
            )
        )
    return found
