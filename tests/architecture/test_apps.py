"""Pages and commands read a form, call one use case and show the result: they have no business rule of their own."""

from tests.architecture.source import imports, package
from tests.architecture.statements import texts

PAGES = ("apps/dashboard", "apps/workspace", "apps/backoffice")
# Files that an operator has uploaded and not imported yet.
STAGED = {"staged_files", "staged_imports"}


def test_pages_and_commands_change_and_lock_no_rows() -> None:
    wrong = [
        f"{text.label} changes or locks {table}"
        for text in texts()
        if text.module.package_name in {*PAGES, "apps/cli"}
        for table in text.changed_tables
        if not (text.module.package_name == "apps/backoffice" and table in STAGED)
    ]
    assert wrong == [], "write a use case in the package that owns the table, and call it"


def test_commands_import_no_pages() -> None:
    """What both need is a use case, or belongs to `apps/lookup`."""
    pages = tuple(f"tonne.{each.replace('/', '.')}." for each in PAGES)
    wrong = [
        f"{module.name}:{line} imports {name}"
        for module in package()
        if module.package_name == "apps/cli"
        for name, line in imports(module)
        if name.startswith(pages)
    ]
    assert wrong == []
