"""The source files of the project, read as syntax trees."""

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "tonne"
OTHER_FOLDERS = ("bench", "chaos", "tests")


@dataclass(frozen=True, eq=False)
class Module:
    path: Path
    tree: ast.Module
    line_count: int

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree: walking it takes long, and many rules look at all of them."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def function_nodes(self) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
        return tuple(node for node in self.nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))

    @cached_property
    def name(self) -> str:
        """The path from the root of the repository: `src/tonne/selling/orders/store.py`."""
        return self.path.relative_to(ROOT).as_posix()

    @property
    def dotted(self) -> str:
        """As it is imported: `tonne.selling.orders.store`."""
        parts = self.path.relative_to(ROOT / "src").with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    @property
    def package_name(self) -> str:
        """The area and the package: `selling/orders`. For a file beside the areas, its own name."""
        return "/".join(self.path.relative_to(PACKAGE).parts[:2])

    @property
    def folder(self) -> str:
        """The folder that has it, from the package's root: `selling/orders/quotes`."""
        return self.path.parent.relative_to(PACKAGE).as_posix()


@cache
def modules() -> tuple[Module, ...]:
    """Every Python file that we write: the package, its tests, the benchmarks."""
    return (*(module for folder in OTHER_FOLDERS for module in _read_all(ROOT / folder)), *package())


@cache
def package() -> tuple[Module, ...]:
    return _read_all(PACKAGE)


def _read_all(folder: Path) -> tuple[Module, ...]:
    """The trees stay until the process ends: looking for garbage in them takes a third of the time of parsing."""
    gc.disable()
    try:
        return tuple(_read(path) for path in sorted(folder.rglob("*.py")))
    finally:
        gc.freeze()
        gc.enable()


def _read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    return Module(path, ast.parse(text, str(path)), len(text.splitlines()))


def imports(module: Module) -> Iterator[tuple[str, int]]:
    """All imports of a module as dotted names with line numbers. `from a import b` is `a.b`."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name}:{node.lineno} imports relatively; name the whole path"
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def functions(module: Module) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    return module.function_nodes
