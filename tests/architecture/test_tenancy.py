"""Data of one account is not read or written on behalf of another by mistake: every query takes a scope, or its name
says that it does not."""

import ast
import re

from tests.architecture.source import PACKAGE, Module, functions, package
from tests.architecture.statements import statements, tenant_tables

SUFFIX = "_any_account"
# Jobs do this to due rows of all accounts. There is no account to forget, unless rows are named.
WORK = {
    *("claim", "prune", "fold", "delete", "insert", "postpone", "count", "raise", "release"),
    *("end", "note", "record", "schedule", "recount", "clear", "wake", "mark", "move"),
}
NAMING = re.compile(r"(?:^|_)(?:ids?|references?|numbers?|emails?|name|slug|token|hash)$")
# Modules of the worker and the operator, and public pages that are found by an address that cannot be guessed or that
# was made public. No other module outside `apps/backoffice`, `apps/cli` and `platform/jobs` may use a function with the
# suffix.
ACROSS_ACCOUNTS = {
    "supply/registries/upload_statement.py": "the operator compares an account: stock belongs to no account",
    "supply/stock/supply_reads.py": "the operator's pages: stock belongs to no account",
    "platform/documents/mail/retry_mail.py": "the operator retries a mail that was given up",
    "platform/http/request_log/prune_requests.py": "a job of the worker",
    "selling/accounts/tax/check_vat_ids.py": "a job of the worker",
    "selling/accounts/lookup.py": "finds what the operator names by its id alone",
    "selling/accounts/import_history.py": "undoes an import that the operator names by its id alone",
    "selling/accounts/keys/api_keys.py": "revokes a key that the operator names by its id alone",
    "selling/orders/totals/metadata_totals.py": "a job of the worker",
    "selling/users/links.py": "somebody who has proved their address accepts the invitations to it",
    "selling/users/act_as.py": "ends what one session of an operator sees, whose organisation it may not remember",
    "apps/wiring/selling_parts.py": "hands free supply to the catalogue, which depends on the holds of all checkouts",
    "apps/wiring/supply_parts.py": "hands the holds of unpaid checkouts of all accounts to a job of the worker",
    "selling/orders/placing/spending.py": "limits a key that the operator names by its id alone",
    "money/cards/endpoints.py": "makes the charge due that a verified message of the gateway names",
    "money/invoices/issuing/issue_invoices.py": "a job of the worker",
    "money/invoices/issuing/issue_each.py": "a job of the worker",
    "money/invoices/issuing/issue_documents.py": "a job of the worker",
    "money/refunds/disputes/decide_tax.py": "the operator's: a dispute may be about orders of an invoice",
    "money/refunds/correct_documents.py": "an invoice may bill several accounts of its organisation",
    "money/refunds/reduce_order.py": "an invoice may bill several accounts of its organisation",
    "money/invoices/originals/originals.py": "an invoice may bill several accounts; also a job",
    "money/invoices/originals/invoice_state.py": "what an invoice received, which may bill several accounts",
    "money/invoices/originals/render_documents.py": "a job of the worker",
    "money/invoices/einvoices/send_einvoices.py": "a job of the worker; the operator names an invoice by its number",
    "money/invoices/tax_documents.py": "all accounts of a mode share a series of numbers",
    "money/invoices/card_payment/settle_card_invoice.py": "a job; an invoice names its organisation only",
    "money/invoices/card_payment/collect_test_orders.py": "an invoice names its organisation only",
    "money/invoices/issuing/small_orders.py": "several accounts may have stored the same card",
    "money/invoices/card_payment/mail_card_receipt.py": "an invoice names its organisation only",
    "money/invoices/follow_up_invoices.py": "an invoice may bill several accounts of its organisation",
    "money/invoices/card_payment/pay_by_card.py": "an invoice names its organisation only",
    "money/invoices/card_payment/take_collections.py": "an invoice names its organisation only",
    "money/invoices/credit_notes/cancel_invoice.py": "an invoice may bill several accounts of its organisation",
    "money/invoices/credit_notes/replace_invoice.py": "an invoice may bill several accounts of its organisation",
    "money/invoices/invoice_events.py": "an invoice may bill several accounts of its organisation",
    "money/invoices/settle_invoice.py": "an invoice may bill several accounts",
    "money/invoices/settle_difference.py": "an invoice may bill several accounts of its organisation",
    "money/invoices/issuing/collect_orders.py": "orders of several accounts are billed together",
    "money/invoices/credit_notes/issue_credit_note.py": "an invoice may bill several accounts; also a job",
    "money/receipts/mail_orders.py": "a job of the worker: an invoice may bill several accounts",
    "money/invoices/find_invoice.py": "finds an invoice for the operator, who names it by its number",
    "money/bank/return_store.py": "the operator's: a transfer may name no account",
    "money/accounting/matching/assign_transfer.py": "the operator's: a transfer may name no account",
    "money/bank/export_returns.py": "the operator's: one file has the returns to all payers",
    "money/invoices/model.py": "what an invoice received, which may bill several accounts",
    "money/bank/doubtful_store.py": "the operator's: a bank statement has payments of all accounts",
    "money/invoices/release_surplus.py": "what an invoice received, which may bill several accounts",
    "money/bank/return_transfer.py": "an invoice may bill several accounts, a transfer may name none",
    "money/bank/transfer_store.py": "a transfer may name no account",
    "money/accounting/matching/import_statement.py": "the operator's: a bank statement has payments of all accounts",
    "supply/certificates/proofs/statement_source.py": "a job of the worker",
    "supply/certificates/proofs/read_proofs.py": "finds a certificate by its number, a secret",
    "supply/retirements/allocate_orders.py": "a job of the worker",
    "supply/registries/registry_reads.py": "for the operator: where the credits of a registry are",
    "supply/registries/retire_units.py": "a job of the worker: a retirement may be for several accounts",
    "supply/registries/check_registries.py": "a job of the worker: a registry knows no accounts",
    "supply/registries/settle_request.py": "for the operator: a retirement may be for several accounts",
    "supply/registries/book_answer.py": "a job of the worker: a retirement may be for several accounts",
    "supply/stock/parcels/parcel_store.py": "the operator's: a registry knows no accounts",
    "supply/stock/parcels/close_units.py": "a job of the worker",
    "supply/stock/holds/holds.py": "supply is held for checkouts of all accounts; also a job of the worker",
    "supply/stock/parcels/confirm_retirements.py": "wakes all orders that share a parcel",
    "supply/certificates/credentials/issue_credential.py": "finds a certificate by its number, a secret",
    "supply/certificates/pdf_store.py": "the operator's renewal, and a certificate that was found before",
    "supply/certificates/person_store.py": "certificates that it has locked in their account",
    "supply/certificates/renew_pdfs.py": "a command of the operator",
    "supply/certificates/credentials/issuer_endpoints.py": "a status list has certificates of all accounts",
    "supply/retirements/confirmations/confirm_lines.py": "the operator's: a registry knows no accounts",
    "supply/stock/lots/import_lots.py": "the operator's: new supply may serve any account, and any may hold it",
    "supply/retirements/confirmations/work_list.py": "the operator's: a line may be of several accounts",
    "supply/retirements/confirmations/store.py": "the operator's: locks the orders that share a parcel",
    "supply/retirements/resupply/invalidate_lot.py": "the operator's: a lot serves orders of all accounts",
    "supply/retirements/resupply/resupply_orders.py": "the operator's: decides about the orders of a lot",
    "supply/stock/lots/lots.py": "the operator's: names the orders that hold a lot",
    "money/refunds/make_refunds.py": "a job of the worker",
    "money/refunds/disputes/check_payments.py": "two jobs of the worker",
    "money/refunds/bank_refunds.py": "a job of the worker; returns and invoices name no account",
    "money/refunds/disputes/shared_payment.py": "an invoice names its organisation only",
    "money/refunds/approve_refund.py": "finds a refund that the operator names by its id alone",
    "money/refunds/disputes/mismatched_charge.py": "finds a charge that the operator names by its id alone",
    "apps/privacy/retention/archive_file.py": "a job of the worker: a partition has rows of all accounts",
    "apps/privacy/retention/remove_partitions.py": "a job of the worker: a partition has rows of all accounts",
    "channels/checkout/links/settings.py": "changes a link that the operator names by its id alone",
    "channels/checkout/paying/pay_checkout.py": "finds a checkout by its token, which cannot be guessed",
    "channels/checkout/order_pages/find_orders.py": "a job: mails what was bought with an address to that address",
    "channels/checkout/checkout_page.py": "finds a checkout by its token, which cannot be guessed",
    "channels/checkout/links/offset_page.py": "finds a link by its id, which cannot be guessed",
    "channels/public_pages/project_page.py": "what was sold of a project in total: it names no account",
    "channels/public_pages/certificates/certificate_pages.py": "finds a certificate by its number, a secret",
    "selling/orders/scope_store.py": "finds an order that the operator names by its id alone",
    "apps/lookup/find_orders.py": "the operator's: lists of orders of all organisations",
    "apps/backoffice/orders_page.py": "the operator's: orders of all organisations",
    "apps/backoffice/order_page.py": "the operator's: finds an order by its id alone",
    "selling/orders/rewrite_urls.py": "an operator has moved the service to another address",
    "apps/privacy/erase_person.py": "an operator erases a person in all organisations",
    "apps/privacy/export_person.py": "the operator's: a bank transfer may name no account",
    "money/accounting/books/check_month.py": "the operator's: the books of all accounts",
    "money/accounting/books/close_month.py": "the operator's: the books of all accounts",
    "money/accounting/books/datev.py": "the operator's: the books of all accounts",
    "money/accounting/reports/oss_report.py": "the operator's: the sales of all accounts",
    "money/accounting/books/files.py": "the operator's: the books of all accounts",
    "channels/public_pages/public_page.py": "finds an enabled public page by its slug",
    "channels/public_pages/endpoints.py": "finds an enabled public page by its slug or handle",
    "selling/accounts/logos/account_logo.py": "shows a logo at its public address, which contains its hash",
}
# Parameters that say whose rows are meant: a scope, the id of an owner, a value that has its scope, or a secret.
SCOPING = {
    *("scope", "tenant", "organisation_id", "organisation", "account", "key", "order", "estimate", "webhook", "lease"),
    *("link", "charge", "mail", "secret_hash", "token_hash", "user_id", "invoice", "refund", "dispute", "checkout"),
    # Each item names its account or organisation.
    *(
        "keys",
        "moves",
        "moments",
        "attempts",
        "orders",
        "updates",
        "checkouts",
        "invoices",
        "events",
        "parcels",
        "shares",
        "streams",
        "quotes",
        "mails",
        "leases",
        "acknowledgement",
        "acknowledgements",
        "notification",
    ),
    *("entries", "scopes", "charges", "pack"),
}


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    return {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}


def _is_work(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return function.name.strip("_").split("_")[0] in WORK and not any(map(NAMING.search, _parameters(function)))


def _uses(module: Module) -> list[tuple[str, int]]:
    """The names that a module refers to, whether it calls them or passes them on."""
    return [
        (node.attr if isinstance(node, ast.Attribute) else node.id, node.lineno)
        for node in module.nodes
        if isinstance(node, ast.Attribute | ast.Name)
    ]


def test_every_query_on_tenant_data_takes_a_scope_or_has_the_suffix() -> None:
    wrong = {
        f"{statement.label} in {function.name}"
        for statement in statements()
        if statement.tables & tenant_tables()
        for function in statement.users
        if not (_parameters(function) & SCOPING or _is_work(function) or function.name.endswith(SUFFIX))
    }
    assert wrong == set()


def test_the_suffix_is_used_only_where_there_is_an_account_to_forget() -> None:
    """Otherwise it would warn of nothing."""
    wrong = []
    for module in package():
        touched = {function for each in statements() if each.module == module for function in each.users}
        on_tenants = {
            function
            for each in statements()
            if each.module == module and each.tables & tenant_tables()
            for function in each.users
            if not _is_work(function)
        }
        for function in functions(module):
            if not function.name.endswith(SUFFIX):
                continue
            passes_on = any(
                isinstance(node, ast.Attribute | ast.Name)
                and (node.attr if isinstance(node, ast.Attribute) else node.id).endswith(SUFFIX)
                for node in ast.walk(function)
            )
            if function not in on_tenants and (function in touched or not passes_on):
                wrong.append(f"{module.name}:{function.lineno} {function.name}")
    assert wrong == []


def test_only_the_modules_of_the_list_reach_across_accounts() -> None:
    wrong = [
        f"{module.name}:{line} uses {name}"
        for module in package()
        if module.package_name not in {"apps/backoffice", "platform/jobs", "apps/cli"}
        and module.path.relative_to(PACKAGE).as_posix() not in ACROSS_ACCOUNTS
        for name, line in _uses(module)
        if name.endswith(SUFFIX)
    ]
    assert wrong == []


def test_every_module_of_the_list_reaches_across_accounts() -> None:
    users = {
        module.path.relative_to(PACKAGE).as_posix()
        for module in package()
        for name, _ in _uses(module)
        if name.endswith(SUFFIX)
    }
    assert set(ACROSS_ACCOUNTS) <= users
