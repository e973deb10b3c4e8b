"""Which package may import which."""

import ast
from collections import defaultdict
from dataclasses import replace

import pytest

from tests.architecture.source import PACKAGE, ROOT, Module, imports, modules, package

# A package may import only itself and packages listed before it.
PACKAGES = (
    *(
        "base",
        "db",
        "http",
        "web",
        "gateways",
        "events",
        "accounts",
        "signing",
        "users",
        "sheets",
        "banking",
        "catalog",
        "factors",
        "geography",
        "estimates",
    ),
    *(
        "orders",
        "analytics",
        "calculations",
        "shipping",
        "transactions",
        "receipts",
        "cards",
        "invoices",
        "transparency",
        "retirements",
        "credentials",
        "quotes",
        "refunds",
        "webhooks",
        "checkout",
        "sustainability",
    ),
    *("site", "packs", "persons", "journal", "retention", "dashboard", "workspace", "backoffice", "worker", "wiring"),
    *("apps/wiring/app.py", "cli"),
)
OUTSIDE = ("__init__.py", "__main__.py")


def test_every_folder_is_a_package_of_the_list() -> None:
    found = {module.package_name for module in package()}
    assert found <= {*PACKAGES, *OUTSIDE}
    assert (PACKAGE / "apps/wiring/app.py").exists()


def test_a_module_imports_only_its_own_package_and_those_before_it() -> None:
    wrong = []
    for module in (each for each in package() if each.package_name not in OUTSIDE):
        place = PACKAGES.index(module.package_name)
        for name, line in imports(module):
            parts = name.split(".")
            if parts[0] != "tonne" or parts[1].startswith("__"):
                continue
            imported = f"{parts[1]}.py" if (PACKAGE / f"{parts[1]}.py").exists() else parts[1]
            if PACKAGES.index(imported) > place:
                wrong.append(f"{module.name}:{line} imports {name}, which comes after {module.package_name}")
    assert wrong == []


def test_only_the_command_line_tests_and_benchmarks_import_the_composition_root() -> None:
    importers = {
        m
        for m in modules()
        for name, _ in imports(m)
        if name == "tonne.apps.wiring.app" or name.startswith("tonne.apps.wiring.app.")
    }
    inside = {module.package_name for module in importers if module in package()}
    assert inside <= {"cli"}


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
    assert [found for module in package() for found in _run_time_imports(module)] == []


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


def test_the_documentation_lists_the_packages_in_this_order() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    drawn = readme.partition("src/tonne/\n")[2].partition("```")[0].splitlines()
    listed = [line.split()[0].rstrip("/") for line in drawn if line.startswith("  ")]
    existing = [package for package in PACKAGES if (PACKAGE / package).exists()]
    assert sorted(listed) == sorted(existing)
    assert [package for package in listed if package != "apps/wiring/app.py"] == [
        package for package in existing if package != "apps/wiring/app.py"
    ]


def test_no_class_name_is_used_twice() -> None:
    """One name, one concept: a reader who sees a class name knows which class it is."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for module in package():
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module.name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
