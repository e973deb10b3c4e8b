"""`columns("id: order", …)` names attributes by text: they are compared with the class of the rows."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_type_hints

import tonne.apps.cli

FOLDER = Path(tonne.apps.cli.__file__).parent


class Named(NamedTuple):
    """The attributes that a constant or a function names, and the class of its rows."""

    module: str
    row: str
    paths: tuple[str, ...]


def _named(path: Path) -> Iterator[Named]:
    module = ".".join(("tonne.apps.cli", *path.relative_to(FOLDER).with_suffix("").parts))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else getattr(node, "returns", None)
        paths = tuple(
            str(text.value).partition(":")[0]
            for call in ast.walk(node)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "columns"
            for text in call.args
            if isinstance(text, ast.Constant)
        )
        if paths and annotation is not None and "ValueColumn[" in (written := ast.unparse(annotation)):
            yield Named(module, written.partition("ValueColumn[")[2].partition("]")[0], paths)


def _imports(module: str) -> dict[str, str]:
    """The module of every imported name, also of those that only the type checker imports."""
    path = FOLDER.joinpath(*module.split(".")[3:]).with_suffix(".py")
    found = [each for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(each, ast.ImportFrom)]
    return {name.asname or name.name: str(each.module) for each in found for name in each.names}


def _all() -> list[Named]:
    return [each for path in sorted(FOLDER.rglob("*.py")) for each in _named(path)]


def _has(row: type, path: str) -> bool:
    name, _, rest = path.partition(".")
    hints = get_type_hints(row)
    return (name in hints or hasattr(row, name)) and (not rest or _has(hints[name], rest))


def _missing(named: Named) -> list[str]:
    # A type, or a module and its type.
    first, _, rest = named.row.partition(".")
    module = _imports(named.module).get(first, named.module)
    row = getattr(importlib.import_module(f"{module}.{first}" if rest else module), rest or first)
    money = ("currency",) if any(path.endswith("_minor") for path in named.paths) else ()
    return [f"{named.module}: {named.row}.{path}" for path in (*named.paths, *money) if not _has(row, path)]


def test_the_rows_have_the_attributes() -> None:
    named = _all()
    assert [each for call in named for each in _missing(call)] == []
    # Every call was compared.
    texts = [path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py") if path.name != "output.py"]
    assert len({each.module for each in named}) == sum("*columns(" in text for text in texts)
