"""Limits of size, meaningful names, and no floats for money and mass."""

import ast
from collections import Counter

from tests.architecture.source import functions, modules, package

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
MAX_POSITIONAL = 5
EMPTY_NAMES = {"service", "services", "util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}
COUNTING = {
    *("selling/estimates", "selling/orders", "supply/stock", "supply/certificates", "supply/retirements"),
    *("money/cards", "money/bank", "money/invoices", "money/refunds", "money/receipts", "channels/checkout"),
}
COUNTING_MODULES = (
    *(f"src/tonne/platform/values/{name}" for name in ("money", "mass", "decimals", "currency")),
    *(f"src/tonne/selling/catalogue/{name}" for name in ("prices/pricing", "selection", "imports/")),
    "src/tonne/platform/documents/sheets/",
)
# Degrees and kilometres, and the seconds of a gateway.
MEASURING = (
    *(f"src/tonne/selling/estimates/{name}/" for name in ("geography", "shipping", "factors")),
    *(f"src/tonne/selling/catalogue/imports/{name}.py" for name in ("project_rows", "detail_columns")),
    *("src/tonne/money/cards/gateways/", "src/tonne/money/bank/formats/identity.py"),
    "src/tonne/supply/stock/supply_cover.py",
)
# Split a file instead of adding an exception.
EXCEPTIONS: frozenset[str] = frozenset()


def test_there_are_no_exceptions() -> None:
    assert not EXCEPTIONS


def test_no_file_is_longer_than_400_lines() -> None:
    long = {module.name: module.line_count for module in modules() if module.line_count > MAX_FILE_LINES}
    assert set(long) <= EXCEPTIONS, long


def test_no_function_is_longer_than_70_lines() -> None:
    long = {}
    for module in modules():
        for function in functions(module):
            assert function.end_lineno is not None
            count = function.end_lineno - function.lineno + 1
            if count > MAX_FUNCTION_LINES:
                long[f"{module.name}:{function.lineno} {function.name}"] = count
    assert set(long) <= EXCEPTIONS, long


def _positional(function: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool) -> int:
    """The number of positional parameters without `self` and `cls`."""
    count = len(function.args.posonlyargs) + len(function.args.args)
    bound = is_method and not any(ast.unparse(d) == "staticmethod" for d in function.decorator_list)
    return count - 1 if bound else count


def test_no_function_takes_more_than_five_positional_parameters() -> None:
    """More are hard to keep in order: make them keyword-only. Test functions get fixtures by name."""
    many = {}
    for module in modules():
        methods = {id(item) for node in module.nodes if isinstance(node, ast.ClassDef) for item in node.body}
        for function in functions(module):
            count = _positional(function, is_method=id(function) in methods and _has_self(function))
            if count > MAX_POSITIONAL and not function.name.startswith("test_"):
                many[f"{module.name}:{function.lineno} {function.name}"] = count
    assert set(many) <= EXCEPTIONS, many


def _has_self(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    first = (*function.args.posonlyargs, *function.args.args)[:1]
    return bool(first) and first[0].arg in {"self", "cls"}


def test_no_module_has_an_empty_name() -> None:
    found = [module.name for module in modules() if EMPTY_NAMES & set(module.path.stem.split("_"))]
    folders = [module.name for module in modules() if EMPTY_NAMES & {part.lower() for part in module.path.parts}]
    assert found + folders == []


def test_no_folder_holds_a_single_file() -> None:
    """A folder with one file should be a module."""
    counts = Counter(module.folder for module in package() if module.path.stem != "__init__")
    assert [folder for folder, count in counts.items() if count == 1 and folder != "."] == []


def _is_float(node: ast.Constant) -> bool:
    return isinstance(node.value, float)


def test_money_and_mass_are_never_floats() -> None:
    """Request rates and durations may be floats; grams, minor units and percentages may not."""
    found = [
        f"{module.name}:{node.lineno}"
        for module in package()
        if (module.package_name in COUNTING or module.name.startswith(COUNTING_MODULES))
        and not module.name.startswith(MEASURING)
        for node in module.nodes
        if (isinstance(node, ast.Name) and node.id == "float") or (isinstance(node, ast.Constant) and _is_float(node))
    ]
    assert found == []
