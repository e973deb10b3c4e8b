"""docs/errors.md lists every error code with its status, and no other codes."""

import importlib
import pkgutil
import re
from pathlib import Path

import tonne
from tonne.platform.http.errors import STATUS
from tonne.platform.values.errors import Kind, TonneError

PAGE = Path(__file__).parents[3] / "docs" / "errors.md"
ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)


def all_errors() -> set[type[TonneError]]:
    """Every kind of error in the whole package, wherever it is defined."""
    for module in pkgutil.walk_packages(tonne.__path__, "tonne."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: set[type[TonneError]] = set()
    waiting = [TonneError]
    while waiting:
        for child in waiting.pop().__subclasses__():
            found.add(child)
            waiting.append(child)
    # Errors that tests define are not included.
    return {error for error in found if error.__module__.startswith("tonne.")}


def statuses_by_code() -> dict[str, set[int]]:
    statuses: dict[str, set[int]] = {}
    for error in all_errors():
        statuses.setdefault(error.code, set()).add(STATUS[error.kind])
    return statuses


def test_every_code_is_documented_and_no_other() -> None:
    documented = [code for code, _ in ROW.findall(PAGE.read_text())]
    assert len(documented) == len(set(documented)), "a code stands in the page twice"
    missing = statuses_by_code().keys() - set(documented)
    assert not missing, f"docs/errors.md lacks {sorted(missing)}"
    extra = set(documented) - statuses_by_code().keys()
    assert not extra, f"docs/errors.md has {sorted(extra)}, which no error has"


def test_the_documented_status_is_the_one_that_is_sent() -> None:
    over_http = PAGE.read_text().partition("## Over HTTP")[2].partition("## On the command line")[0]
    rows = ROW.findall(over_http)
    assert len(rows) > 20
    for code, rest in rows:
        status, when, what_to_do = rest.split(" | ")
        assert {int(part) for part in status.split(", ")} == statuses_by_code()[code], code
        assert when
        assert what_to_do


def test_every_kind_has_a_status_and_every_error_a_message() -> None:
    assert set(STATUS) == set(Kind)
    for error in all_errors():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code), error
        assert error.message[0].isupper() or error.message.split()[0] in {"after", "limit", "expires_at"}, error
        assert error.message.endswith("."), error
