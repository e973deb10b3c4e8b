"""The package works alone: it needs the standard library, cryptography and httpx, and never imports `tonne`."""

import ast
import sys
import tomllib

from tests.support.processes import ROOT

FOLDER = ROOT / "clients" / "conformance"


def test_it_imports_nothing_else() -> None:
    imported = set()
    for path in sorted((FOLDER / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported |= {name.partition(".")[0] for name in names}
    assert imported - sys.stdlib_module_names == {"tonne_conformance", "cryptography", "httpx"}
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [each.split(">=")[0] for each in project["dependencies"]] == ["cryptography", "httpx"]


def test_files_and_functions_are_short() -> None:
    """The same limits as in the rest of the project."""
    for path in sorted((FOLDER / "src").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 70, f"{path}: {node.name}"
