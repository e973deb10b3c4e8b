"""Who may know whom."""

import ast

import pytest

from tests.architecture.source import PACKAGE, ROOT, Module, functions, imports, modules, package

# A package imports only itself and those before it.
PACKAGES = (
    *("base", "db", "http", "web", "gateways", "events", "accounts", "sheets", "catalog", "estimates", "orders"),
    *("cards", "invoices", "retirements", "webhooks", "checkout", "sustainability", "dashboard", "worker"),
    *("app.py", "cli"),
)
OUTSIDE = ("__init__.py", "__main__.py")
# Functions that read or write across all accounts belong to the worker and the command line. These modules are what the
# two of them run; an endpoint can reach none of the calls below.
ACROSS_ACCOUNTS = {
    "src/tonne/orders/price_waiting.py": "a job of the worker",
    "src/tonne/orders/queue.py": "claims due orders for the jobs of the worker",
    "src/tonne/cards/charge_cards.py": "a job of the worker",
    "src/tonne/cards/refund_charges.py": "a job of the worker",
    "src/tonne/invoices/issue_invoices.py": "a job of the worker",
    "src/tonne/invoices/follow_up_invoices.py": "a job of the worker",
    "src/tonne/checkout/close_checkouts.py": "a job of the worker",
    "src/tonne/checkout/pay_checkout.py": "whoever has the unguessable address of a checkout may pay it",
    "src/tonne/checkout/offset_page.py": "whoever has the unguessable address of a link may pay there",
    "src/tonne/sustainability/certificate_pages.py": "finds a certificate by its number, which nobody can guess",
    "src/tonne/sustainability/public_page.py": "finds an enabled public page by its slug",
    "src/tonne/checkout/mail_certificates.py": "a job of the worker",
    "src/tonne/checkout/checkout_page.py": "whoever has the unguessable address of a checkout may see it",
    "src/tonne/cards/handle_stripe_event.py": "makes the charge due that a verified message of the gateway names",
    "src/tonne/invoices/find_invoice.py": "finds an invoice for an operator, who names it by its number",
    "src/tonne/invoices/import_statement.py": "the operator's: a bank knows no accounts",
    "src/tonne/retirements/allocate_orders.py": "a job of the worker",
    "src/tonne/retirements/import_confirmations.py": "the operator's: a registry knows no accounts",
    "src/tonne/retirements/import_lots.py": "the operator's: new supply may serve any account",
    "src/tonne/webhooks/deliver.py": "a job of the worker",
    "src/tonne/accounts/directory.py": "notes when keys were last used, in the background",
    "src/tonne/accounts/lookup.py": "finds what the operator names by its id alone",
    "src/tonne/checkout/change_link.py": "changes a link that the operator names by its id alone",
    "src/tonne/accounts/api_keys.py": "revokes a key that the operator names by its id alone",
}
# A parameter that says whose rows are meant: a scope, an owner's id, a value that carries its scope, or the key itself.
SCOPING = {
    *("scope", "organisation_id", "organisation", "account", "key", "order", "estimate", "webhook", "lease"),
    *("link", "charge"),
    *("keys", "moves", "attempts", "orders", "updates", "checkouts"),  # each of them names its account
    "secret_hash",
}
TENANT_STORES = ("accounts", "estimates", "orders", "cards", "invoices", "retirements", "webhooks", "checkout")


def test_every_folder_is_a_package_of_the_list() -> None:
    found = {module.package_name for module in package()}
    assert found <= {*PACKAGES, *OUTSIDE}
    assert (PACKAGE / "app.py").exists()


@pytest.mark.parametrize(
    "module", [m for m in package() if m.package_name not in OUTSIDE], ids=lambda module: module.name
)
def test_a_module_imports_only_its_own_package_and_those_before_it(module: Module) -> None:
    place = PACKAGES.index(module.package_name)
    wrong = []
    for name, line in imports(module):
        parts = name.split(".")
        if parts[0] != "tonne" or parts[1].startswith("__"):
            continue
        package = f"{parts[1]}.py" if (PACKAGE / f"{parts[1]}.py").exists() else parts[1]
        if PACKAGES.index(package) > place:
            wrong.append(f"line {line}: {name}")
    assert wrong == [], f"{module.name} imports from a package that comes after {module.package_name}"


def test_only_the_command_line_tests_and_benchmarks_import_the_composition_root() -> None:
    importers = {m for m in modules() for name, _ in imports(m) if name == "tonne.app" or name.startswith("tonne.app.")}
    inside = {module.package_name for module in importers if module in package()}
    assert inside <= {"cli"}


def test_nothing_is_imported_by_a_name_made_at_run_time() -> None:
    """It would go round the order of the packages."""
    found = [
        f"{module.name}:{node.lineno}"
        for module in package()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"__import__", "importlib.import_module"}
    ]
    assert found == []


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
    assert [package for package in listed if package != "app.py"] == [
        package for package in existing if package != "app.py"
    ]


def _calls(module: Module) -> list[tuple[str, int]]:
    """Names that a module refers to, called or handed on: both are a use."""
    return [
        (node.attr if isinstance(node, ast.Attribute) else node.id, node.lineno)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute | ast.Name)
    ]


def test_only_worker_and_command_line_reach_across_accounts() -> None:
    wrong = [
        f"{module.name}:{line} uses {name}"
        for module in package()
        if module.package_name not in {"worker", "cli"} and module.name not in ACROSS_ACCOUNTS
        for name, line in _calls(module)
        if name.endswith("_any_account")
    ]
    assert wrong == []


def test_every_module_that_may_reach_across_accounts_does() -> None:
    """A permission that nobody needs any more is taken back."""
    users = {module.name for module in package() for name, _ in _calls(module) if name.endswith("_any_account")}
    assert set(ACROSS_ACCOUNTS) <= users


def test_every_query_of_a_tenants_table_takes_a_scope_or_says_in_its_name_that_it_takes_none() -> None:
    wrong = []
    for module in package():
        if module.package_name not in TENANT_STORES or not module.path.stem.endswith("store"):
            continue
        for function in functions(module):
            names = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
            queries = names & {"connection", "tx"}
            if queries and not names & SCOPING and not function.name.endswith("_any_account"):
                wrong.append(f"{module.name}:{function.lineno} {function.name}")
    assert wrong == []
