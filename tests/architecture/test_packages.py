"""Which package may import which."""

import ast
import pkgutil
from collections import Counter, defaultdict
from dataclasses import replace

import click
import pytest

from tests.architecture.order import ORDER, PACKAGES, packages_table, position
from tests.architecture.source import ROOT, Module, imports, modules, package
from tonne.apps.cli.main import COMMANDS

# More modules make a folder hard to search: give the package a folder for a part of it.
MAX_MODULES = 24
OUTSIDE = ("__init__.py", "__main__.py")
# Imports against the order that are still to be removed. This list may only shrink.
UPWARD_IMPORTS: frozenset[tuple[str, str]] = frozenset()


def test_every_folder_is_a_package_of_the_list() -> None:
    found = {module.package_name for module in package() if module.path.stem != "__init__"}
    assert found - set(OUTSIDE) == set(PACKAGES)


def test_no_folder_has_more_modules_than_a_reader_can_search() -> None:
    counts = Counter(module.folder for module in package() if module.path.stem != "__init__")
    assert {folder: count for folder, count in counts.items() if count > MAX_MODULES} == {}


def _imported_package(name: str) -> str | None:
    """The area and package of a dotted name, if it is one of ours."""
    parts = name.split(".")
    return "/".join(parts[1:3]) if parts[0] == "tonne" and not parts[1].startswith("__") else None


def test_a_module_imports_only_its_own_package_and_those_before_it() -> None:
    wrong = set()
    for module in (each for each in package() if each.path.stem not in {"__init__", "__main__"}):
        for name, _ in imports(module):
            imported = _imported_package(name)
            if imported is not None and position(imported) > position(module.package_name):
                wrong.add((module.name.removeprefix("src/tonne/"), name.removeprefix("tonne.")))
    assert wrong == UPWARD_IMPORTS, "(module, what it imports from a package after its own)"


def test_only_the_command_line_tests_and_benchmarks_import_the_composition_root() -> None:
    root = "tonne.apps.wiring.app"
    importers = {m for m in modules() for name, _ in imports(m) if name == root or name.startswith(f"{root}.")}
    inside = {module.package_name for module in importers if module in package()}
    assert inside <= {"apps/cli"}


def test_only_the_job_about_card_problems_composes_mails_where_orders_are_locked() -> None:
    """Cards and refunds are settled while orders are locked: they add rows to `order_mails` instead."""
    composing = {f"tonne.platform.documents.mail.{name}" for name in ("layout", "outbox", "send_mail")}
    found = {
        module.name.removeprefix("src/tonne/")
        for module in package()
        if module.package_name in {"money/cards", "money/refunds"}
        for name, _ in imports(module)
        if name.rpartition(".")[0] in composing or name in composing
    }
    assert found == {"money/cards/stored_cards/mail_card_problems.py"}


def _run_time_imports(module: Module) -> list[str]:
    """Finding a package or reading its files is no import."""
    found = [
        f"{module.name}:{line} {name}"
        for name, line in imports(module)
        if name.split(".")[0] in {"importlib", "runpy", "pkgutil"}
        and name not in {"importlib.resources", "importlib.util.find_spec"}
    ]
    return found + [
        f"{module.name}:{node.lineno} {node.id}"
        for node in module.nodes
        if isinstance(node, ast.Name) and node.id in {"__import__", "exec", "eval"}
    ]


def test_nothing_is_imported_by_a_name_made_at_run_time() -> None:
    """Such an import would evade the order of the packages."""
    found = [found for module in package() for found in _run_time_imports(module)]
    # Its table of commands, which the next test checks.
    assert [each for each in found if not each.startswith("src/tonne/apps/cli/main.py")] == []


def test_the_table_of_commands_names_functions_of_the_command_line() -> None:
    """They are imported when they run. The command line is the last package, so this evades no order."""
    assert PACKAGES[-1] == "apps/cli"
    for function in COMMANDS.values():
        assert function.startswith("tonne.apps.cli.")
        assert isinstance(pkgutil.resolve_name(function), click.Command)


@pytest.mark.parametrize(
    "line",
    [
        "import importlib",
        "from importlib import import_module",
        "from importlib import util",
        "__import__('tonne.apps.wiring.app')",
    ],
)
def test_every_spelling_of_an_import_at_run_time_is_found(line: str) -> None:
    """The rule once looked for `importlib.import_module(` and missed a bare `import_module(`."""
    assert _run_time_imports(replace(package()[0], tree=ast.parse(line))) != []


def test_no_two_modules_import_each_other() -> None:
    names = {module.dotted for module in package()}
    graph = {
        module.dotted: {
            part for name, _ in imports(module) for part in (name, name.rpartition(".")[0]) if part in names
        }
        for module in package()
    }
    done: set[str] = set()
    while len(done) < len(graph):
        free = {name for name, needs in graph.items() if name not in done and needs <= done | {name}}
        assert free, f"these import each other: {sorted(set(graph) - done)}"
        done |= free


def test_the_architecture_page_lists_the_packages_in_this_order() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    documented = text.partition("<!-- packages -->\n")[2].partition("<!-- /packages -->")[0]
    assert documented == packages_table(), "copy the expected table into docs/architecture.md"


def test_no_other_page_states_the_order() -> None:
    """A second list would have to be kept up to date by hand."""
    areas = " → ".join(f"`{area}`" for area in ORDER)
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "docs/architecture.md" in text
        assert all(line == areas for line in text.splitlines() if line.count("→") >= len(ORDER) - 1), name


def test_no_class_name_is_used_twice() -> None:
    """One name, one concept: a reader who sees a class name knows which class it is."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in package():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
