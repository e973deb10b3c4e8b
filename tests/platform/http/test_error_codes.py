"""docs/errors.md is generated from the errors of the package: from their codes, statuses and docstrings."""

import re

from tonne.platform.http.errors import STATUS
from tonne.platform.values.errors import Kind
from tools.docs.generated import (
    ERRORS_PAGE,
    all_errors,
    command_line_errors_table,
    explanations,
    http_errors_table,
    statuses_by_code,
)


def test_every_code_is_explained_by_one_class() -> None:
    assert [code for code in statuses_by_code() if len(explanations()[code]) != 1] == []


def test_explanations_are_sentences() -> None:
    said = [text for explained in explanations().values() for pair in explained for text in pair]
    assert [text for text in said if not (text[0].isupper() or text[0] == "`") or not text.endswith(".")] == []


def test_the_page_is_up_to_date() -> None:
    page = ERRORS_PAGE.read_text(encoding="utf-8")
    remedy = "run `make pages`"
    assert f"<!-- errors -->\n{http_errors_table()}<!-- /errors -->" in page, remedy
    assert f"<!-- command line errors -->\n{command_line_errors_table()}<!-- /command line errors -->" in page, remedy


def test_every_kind_has_a_status_and_every_error_a_message() -> None:
    assert set(STATUS) == set(Kind)
    for error in all_errors():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", error.code), error
        assert error.message[0].isupper() or error.message.split()[0] in {"after", "limit", "expires_at"}, error
        assert error.message.endswith("."), error
