"""The page of the documentation lists every check of the suite."""

from tools.docs.generated import CONFORMANCE_PAGE, conformance_tables


def test_the_page_has_the_checks_of_the_suite() -> None:
    page = CONFORMANCE_PAGE.read_text(encoding="utf-8")
    assert f"<!-- checks -->\n{conformance_tables()}<!-- /checks -->" in page, "run make pages"
