"""Limits of size, meaningful names, and no floats for money and mass."""

import ast

from tests.architecture.source import functions, modules, package

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 70
MAX_POSITIONAL = 5
EMPTY_NAMES = {"service", "services", "util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}
COUNTING = {"estimates", "orders", "cards", "invoices", "checkout", "retirements"}
COUNTING_BASE = (
    *("src/tonne/base/money", "src/tonne/base/mass", "src/tonne/base/decimals", "src/tonne/base/currency"),
    *("src/tonne/catalog/pricing", "src/tonne/catalog/selection", "src/tonne/catalog/import_", "src/tonne/sheets/"),
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
    """A package with one file should be a module. The worker, a process of its own, is an exception."""
    counts: dict[str, int] = {}
    for module in package():
        if module.path.stem != "__init__" and module.package_name.endswith(".py") is False:
            counts[module.package_name] = counts.get(module.package_name, 0) + 1
    assert {name for name, count in counts.items() if count == 1} <= {"worker"}


def _is_float(node: ast.Constant) -> bool:
    return isinstance(node.value, float)


def test_money_and_mass_are_never_floats() -> None:
    """Request rates and durations may be floats; grams, minor units and percentages may not."""
    found = [
        f"{module.name}:{node.lineno}"
        for module in package()
        if module.package_name in COUNTING or module.name.startswith(COUNTING_BASE)
        for node in module.nodes
        if (isinstance(node, ast.Name) and node.id == "float") or (isinstance(node, ast.Constant) and _is_float(node))
    ]
    assert found == []
