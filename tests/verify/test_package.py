"""The package works alone: it needs the standard library, cryptography, pyHanko and what pyHanko brings."""

import ast
import sys
import tomllib

from tests.support.processes import ROOT

FOLDER = ROOT / "clients" / "verify"
ALLOWED = {"tonne_verify", "cryptography", "pyhanko", "asn1crypto", "pyhanko_certvalidator"}


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
