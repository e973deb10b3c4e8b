"""The package works alone: it needs the standard library, cryptography, pyHanko and what pyHanko brings."""

import ast
import sys
import tomllib
from pathlib import Path

from tests.support.processes import ROOT

FOLDER = ROOT / "clients" / "verify"
ALLOWED = {"tonne_verify", "cryptography", "pyhanko", "asn1crypto", "pyhanko_certvalidator"}


# Grammars of serials, the audit of a log, the tables of packs, the search for double sales, the witness, and the HTML
# report. Everything else decides about a file and its log.
APART = (
    "serials/",
    "double_sales.py",
    "disclosures.py",
    "monitor.py",
    "audit_state.py",
    "openings_file.py",
    "pack",
    "formulas.py",
    "witness.py",
    "html_report.py",
    "languages/",
)


def code_lines(path: Path) -> int:
    """Without blank lines, comments and descriptions."""
    source = path.read_text(encoding="utf-8")
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ):
            found |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            found -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    texts = source.splitlines()
    return len([number for number in found if texts[number - 1].split("#")[0].strip()])


def test_it_is_small_enough_to_be_read() -> None:
    source = FOLDER / "src" / "tonne_verify"
    counted = {str(path.relative_to(source)): code_lines(path) for path in source.rglob("*.py")}
    apart = sum(count for name, count in counted.items() if name.startswith(APART))
    assert sum(counted.values()) - apart <= 3000
    assert apart <= 2500


def test_it_imports_nothing_else() -> None:
    imported = set()
    for path in sorted((FOLDER / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported |= {name.partition(".")[0] for name in names}
    assert imported - sys.stdlib_module_names == ALLOWED
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [each.split(">=")[0] for each in project["dependencies"]] == ["cryptography", "pyhanko"]
