"""Statements that may take long are known: each lifts the time limits of its transaction, or something bounds it.

What a statement reads is taken from its plan. PostgreSQL has to avoid everything but indexes, so that a plan of empty
tables shows whether there is an index that finds the rows.
"""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from tests.architecture.source import functions, package
from tests.architecture.statements import Statement, statements
from tonne.platform.db.database import Connection, Database

# A row is added with every order, payment, event or request, and stays.
GROWING = {
    *("api_requests", "audit_log", "bank_transfers", "certificate_documents", "certificates", "charge_invoices"),
    *("charge_orders", "charges", "checkouts", "credit_note_orders", "credit_notes", "disputes", "estimate_deltas"),
    *("estimates", "event_traces", "events", "history_orders", "idempotent_responses", "invoice_orders", "invoices"),
    *("ledger_entries", "ledger_postings"),
    *("log_entries", "log_statements", "log_tiles", "mails", "offset_link_deltas", "order_deltas", "order_lines"),
    *("order_links", "order_mails", "order_projects", "orders", "parcels", "quotes", "refunds", "replaced_shares"),
    *("card_invoices", "einvoice_deliveries", "order_buyers", "order_reductions", "tax_document_files"),
    *("registry_instructions", "simulated_retirements"),
    *("shares", "simulated_charges", "simulated_disputes", "simulated_refunds", "tax_documents"),
    *("transfer_assignments", "transfer_resolutions", "transfer_returns", "webhook_attempts"),
}
# Many rows have the same value in these columns.
SHARED = {"organisation_id", "account_id", "webhook_id", "project_id", "bundle_id", "lot_id", "offset_link_id"}
NAMES = {
    "id",
    "token",
    "number",
    "email",
    "token_hash",
    "idempotency_key",
    "reference",
    "subject",
    "external_id",
    "return_ids",
}
# An index with one of these conditions has only rows that wait for something.
WAITING = re.compile(
    r"next_attempt_at|due_at|\bnext_\w+ IS NOT NULL|is_holding|log_id IS NULL|confirm_until|"
    r"'(received|placed|paid|retiring|open|opened|planned|to_retire|pending)'"
)
BY_INDEX = """
SET enable_seqscan = off; SET enable_sort = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
SET enable_hashagg = off; SET enable_material = off; SET plan_cache_mode = force_generic_plan; SET jit = off
"""
# Whether autovacuum has analyzed a table meanwhile would decide between its indexes.
FORGET_STATISTICS = """
DELETE FROM pg_statistic;
UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""
KEYS = """
SELECT class.relname AS table, array_agg(attribute.attname::text) AS columns
FROM pg_index index JOIN pg_class class ON class.oid = index.indrelid
JOIN pg_attribute attribute ON attribute.attrelid = class.oid AND attribute.attnum = ANY (index.indkey)
WHERE index.indisunique GROUP BY class.relname, index.indexrelid
"""
INDEXES = """
SELECT class.relname AS name, pg_get_expr(indpred, indrelid) AS condition
FROM pg_index JOIN pg_class class ON class.oid = indexrelid WHERE indpred IS NOT NULL
"""
# Functions that name one of these lift the limits of what they call, and commands have none.
LIFTING = {"lift_limits", "long_snapshot", "acquire_import_lock", "process_upload"}
_PARTITION = re.compile(r"_(default|\d{4}_\d\d|\d+)$")
_EQUAL = re.compile(r'\(*"?(\w+)"?\)?(?:::\w+)? (?:=|@>) | = \(?(?:\w+\.)?"?(\w+)')


class Schema(NamedTuple):
    keys: dict[str, list[set[str]]]
    # The conditions of partial indexes.
    conditions: dict[str, str]


async def _read_schema(connection: Connection) -> Schema:
    keys = defaultdict(list)
    for row in await connection.fetch(KEYS):
        keys[row["table"]].append(set(row["columns"]))
    return Schema(keys, {row["name"]: row["condition"] for row in await connection.fetch(INDEXES)})


async def _plan(connection: Connection, sql: str) -> dict[str, Any]:
    await connection.execute(f"PREPARE long_statement AS {sql}")
    count = await connection.fetchval(
        "SELECT coalesce(cardinality(parameter_types), 0) FROM pg_prepared_statements WHERE name = 'long_statement'"
    )
    values = f"({', '.join(['NULL'] * count)})" if count else ""
    plan = json.loads(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE long_statement{values}"))
    await connection.execute("DEALLOCATE long_statement")
    found: dict[str, Any] = plan[0]["Plan"]
    return found


def _unbounded(node: dict[str, Any], schema: Schema, joined: str = "", *, limited: bool = False) -> Iterator[str]:
    """The growing tables of which the plan reads more rows than a key or LIMIT allows."""
    conditions = " ".join(str(node.get(name, "")) for name in ("Index Cond", "Recheck Cond", "Filter"))
    relation = node.get("Relation Name", "")
    table = _PARTITION.sub("", relation)
    if table in GROWING and node["Node Type"] not in {"ModifyTable", "Tid Scan"} and not limited:
        equal = {name for pair in _EQUAL.findall(f"{conditions} {joined}") for name in pair if name}
        is_named = any(name in NAMES or (name.endswith("_id") and name not in SHARED) for name in equal)
        is_waiting = WAITING.search(schema.conditions.get(node.get("Index Name", ""), "")) is not None
        if not (is_named or is_waiting or any(key <= equal for key in schema.keys[relation])):
            yield table
    if node["Node Type"] in {"Sort", "Aggregate", "WindowAgg", "Hash"}:
        limited = False
    limited = limited or node["Node Type"] == "Limit"
    joined += " ".join(str(node.get(name, "")) for name in ("Join Filter", "Hash Cond", "Merge Cond"))
    for child in node.get("Plans", ()):
        yield from _unbounded(child, schema, joined, limited=limited)


async def find_long(connection: Connection, candidates: Iterable[Statement]) -> dict[Statement, list[str]]:
    """The growing tables that each statement may read without a bound."""
    schema = await _read_schema(connection)
    found: dict[Statement, list[str]] = {}
    await connection.execute(FORGET_STATISTICS)
    await connection.execute(BY_INDEX)
    for statement in candidates:
        if statement.tables & GROWING:
            tables = sorted(set(_unbounded(await _plan(connection, statement.sql), schema)))
            found |= {statement: tables} if tables else {}
    return found


@dataclass(frozen=True, eq=False)
class Use:
    """A function, and whether others may call it by its name. A method is called by names that others have, too."""

    module: str
    name: str
    is_function: bool
    names: frozenset[str]

    @property
    def lifts(self) -> bool:
        return self.module.startswith("src/tonne/apps/cli/") or not LIFTING.isdisjoint(self.names)


@cache
def _uses() -> tuple[Use, ...]:
    found = []
    for module in package():
        at_top = {id(node) for node in module.tree.body}
        for function in functions(module):
            nodes = list(ast.walk(function))
            names = {node.id for node in nodes if isinstance(node, ast.Name)}
            names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
            found.append(Use(module.name, function.name, id(function) in at_top, frozenset(names)))
    return tuple(found)


@cache
def _by_name() -> dict[str, list[Use]]:
    found = defaultdict(list)
    for use in _uses():
        for name in use.names:
            found[name].append(use)
    return found


def _callers(use: Use) -> list[Use]:
    private = use.name.startswith("_")
    return [each for each in _by_name()[use.name] if each is not use and (each.module == use.module or not private)]


def limited_uses(statement: Statement) -> set[str]:
    """Where it is begun with the usual time limits: all that lead to it without lifting them."""
    names = {function.name for function in statement.users}
    waiting = [use for use in _uses() if use.module == statement.module.name and use.name in names]
    seen, found = set(waiting), set[str]()
    while waiting:
        use = waiting.pop()
        if use.lifts:
            continue
        callers = _callers(use) if use.is_function or use.name.startswith("_") else []
        if not callers:
            found.add(f"{use.module.removeprefix('src/tonne/')} {use.name}")
        waiting += [each for each in callers if each not in seen]
        seen |= set(callers)
    return found


def _short(statement: Statement) -> str:
    return statement.label.removeprefix("src/tonne/")


_NOT_FOLDED = "the deltas that the worker has not added up yet"
_STREAMED = "`MonthEndPage._stream` calls it with a long snapshot"
_STATEMENT = "a function whose name others have, too: `StatementPage` calls it with a long snapshot"
_OF_A_MONTH = "the documents or payments of one month, by an index"
_COLLECTIONS = "the collections of one account, one a month and one per sum, by an index"
_OF_A_LOT = "the parcels of lots that one person acts on; `acquire_import_lock` lifts the limits of changes"
# What bounds statements that are begun with the usual limits.
BOUNDED = {
    "channels/checkout/link_counts/count_store.py LIST_LINK_DAYS": _NOT_FOLDED,
    "channels/checkout/link_counts/count_store.py LIST_ACCOUNT_DAYS": _NOT_FOLDED,
    "channels/checkout/link_counts/count_store.py SUM_LINKS": _NOT_FOLDED,
    "selling/orders/analytics/store.py SUM_ORDERS": _NOT_FOLDED,
    "selling/orders/analytics/store.py SUM_BUNDLES": _NOT_FOLDED,
    "selling/orders/analytics/store.py COUNT_ESTIMATES": _NOT_FOLDED,
    "selling/orders/totals/totals.py LIST_TOTALS": _NOT_FOLDED,
    "channels/checkout/paying/unpaid_holds.py FIND_UNPAID": "the holds of supply that exist now",
    "channels/public_pages/figures/figure_store.py SUM_SPENT": "an index of the account has all columns",
    "channels/webhooks/delivery/batch_store.py READ_STREAM_ROWS": "the positions of one batch",
    "channels/webhooks/delivery/claim.py CLAIM_IN_STREAMS": "the newest positions of claimed webhooks",
    "channels/webhooks/delivery/parked_store.py ADVANCE_PARKED": "the events since an account was parked",
    "channels/webhooks/delivery/parked_store.py DROP_OUT_OF_SCOPE": "the events since accounts were parked",
    "channels/webhooks/timeline.py LIST_DELIVERIES_OF_ORDER": "the attempts since the events of one order",
    "channels/webhooks/timeline.py LIST_DELIVERIES_OF_EVENT": "the attempts since one event",
    "money/accounting/journal/read_journal.py READ_POSTINGS": _STREAMED,
    "money/accounting/reports/sales_list.py LIST_SALES": _STREAMED,
    "money/accounting/books/datev.py SUM_DAYS": _STREAMED,
    "money/accounting/books/check_month.py SUM_TAXES": _OF_A_MONTH,
    "money/accounting/reports/oss_report.py LIST_CURRENCIES": "the documents of three months by an index of their day",
    "money/accounting/books/month_store.py LIST_NUMBER_RANGES": _OF_A_MONTH,
    "money/accounting/reports/organisation_documents.py SUM_RECEIVED": "the invoices of one page",
    "money/accounting/reports/statement_store.py LIST_ENTRIES": _STATEMENT,
    "money/accounting/reports/statement_store.py LIST_PERIOD": _STATEMENT,
    "money/cards/charge_store.py READ_CHARGEABLE": "EXISTS over the invoices of an account",
    "money/cards/invoice_charge_store.py MAKE_DECLINED_DUE": _COLLECTIONS,
    "money/cards/invoice_charge_store.py MAKE_UNCHARGED_DUE": _COLLECTIONS,
    "money/cards/stored_cards/card_problem_store.py LIST_DECLINED": _COLLECTIONS,
    "money/cards/gateways/card_simulated.py COUNT_DECLINED": "the simulated gateway, in test mode",
    "money/cards/gateways/simulated_refunds.py LIST_CHANGED": "the simulated gateway, in test mode",
    "money/cards/stored_cards/card_problem_store.py LIST_FAILED": "what failed in an account in the last days",
    "money/cards/stored_cards/stored_cards.py CLAIM_CLOSED_CARD": "EXISTS over the unpaid orders of a closed account",
    "money/accounting/reports/organisation_documents.py LIST_PAYMENTS": "the documents of the charges of one page",
    "money/accounting/reports/organisation_documents.py FIND_PAYMENT": "the documents of one charge",
    "money/invoices/card_payment/collect_test_orders.py LIST_SMALL": "the placed orders of one account, in test mode",
    "money/invoices/card_payment/collection_store.py LIST_UNDELIVERED": "the orders of the invoices of one charge",
    "money/invoices/issuing/small_orders.py FIND_CARDS": "EXISTS over the payments since a card was stored",
    "money/invoices/credit_notes/store.py SUM_CREDITED": "the credit notes of one invoice",
    "supply/stock/parcels/replaced_share_store.py KEEP_RECORD": "the shares of one order",
    "supply/stock/parcels/replaced_share_store.py DELETE_LOST": "the shares of one order",
    "platform/events/notification.py NOTIFY_WITH_NEWS": "the newest two events of a stream",
    "selling/estimates/store.py FIND_ACTIVITY": "an index of the account; the page shows few accounts",
    "selling/users/approvals.py FIND_LIMIT_CHANGERS": "the entries of one organisation and one day, by an index",
    "supply/certificates/credentials/status_store.py READ_STATUSES": "the certificates of one status list",
    "supply/certificates/credentials/status_store.py HAS_STATEMENTS": "EXISTS over a range of the primary key",
    "supply/registries/account_store.py READ_BOOKS": "the requests of a lot that were closed lately, by an index",
    "supply/registries/simulated_store.py LIST_MOVEMENTS": "the simulated registries, in test mode",
    "supply/retirements/confirmations/retirement_pages.py READ_USED": "the addresses of one import, by an index",
    "supply/stock/lots/lot_store.py READ_RETIRED": _OF_A_LOT,
    "supply/stock/lots/lots.py FIND_HOLDERS": _OF_A_LOT,
    "supply/stock/parcels/cut_lot.py MOVE": _OF_A_LOT,
    "supply/stock/parcels/cut_lot.py READ_PLACES": _OF_A_LOT,
    "supply/stock/parcels/replaced_share_store.py RETURN_GRAMS": "the shares of one order",
    "supply/stock/supply_reads.py LIST_BACKORDERS": "LIMIT, by an index of paid orders",
    "supply/stock/supply_store.py LOCK_PARCELS": "the parcels of one order",
}


async def test_statements_that_may_be_long_lift_their_limits_or_are_bounded(db: Database) -> None:
    """A time limit ends them above some number of rows, for ever."""
    async with db.connection() as connection:
        found = await find_long(connection, statements())
    limited = {_short(each): (tables, sorted(uses)) for each, tables in found.items() if (uses := limited_uses(each))}
    new = {name: each for name, each in limited.items() if name not in BOUNDED}
    assert new == {}, "add a key, an index or LIMIT; lift the limits of its transaction; or add it to BOUNDED with why"
    # Which index of orders it reads depends on what ran before in the process.
    assert (BOUNDED.keys() - limited.keys()) - {"supply/stock/supply_reads.py LIST_BACKORDERS"} == set(), (
        "no longer needed in BOUNDED"
    )


async def test_a_statement_without_a_bound_is_found(db: Database) -> None:
    [one] = [each for each in statements() if _short(each) == "selling/orders/store.py COUNT_ORDERS"]
    texts = {
        "SELECT sum(refunded_minor) FROM orders WHERE organisation_id = $1": ["orders"],
        "SELECT id FROM orders WHERE account_id = $1 ORDER BY created_at": ["orders"],
        "DELETE FROM audit_log WHERE before IS NULL": ["audit_log"],
        "SELECT count(*) FROM (SELECT id FROM orders WHERE account_id = $1 LIMIT 10) AS few": [],
        "SELECT id FROM orders WHERE account_id = $1 AND id = $2": [],
        "UPDATE charges SET status = 'failed' WHERE account_id = $1 AND order_id = $2": [],
    }
    async with db.connection() as connection:
        found = await find_long(connection, [replace(one, name=sql, sql=sql) for sql in texts])
    assert {sql: [] for sql in texts} | {each.sql: tables for each, tables in found.items()} == texts


def test_limits_are_found_to_be_lifted_by_callers() -> None:
    named = {_short(each): each for each in statements()}
    assert limited_uses(named["selling/orders/store.py COUNT_ORDERS"]) == set(), "only a command runs it"
    assert limited_uses(named["money/accounting/reports/statement_store.py SUM_BALANCES"]) == set(), (
        "in a long snapshot"
    )
    uses = limited_uses(named["selling/orders/totals/totals.py LIST_TOTALS"])
    assert "apps/workspace/overview_page.py show" in uses


async def test_operations_2_batches_find_their_rows_by_their_place(db: Database) -> None:
    """A join of the table with the rows of the batch reads the whole backlog for every batch."""
    named = {_short(each): each for each in statements()}
    async with db.connection() as connection:
        await connection.execute(BY_INDEX)
        for name in (
            "selling/orders/totals/fold_totals.py FOLD_DELTAS",
            "selling/estimates/fold_counts.py FOLD_COUNTS",
            "channels/checkout/link_counts/count_store.py FOLD_COUNTS",
            "platform/events/trace_store.py PRUNE_TRACES",
        ):
            assert "Tid Scan" in json.dumps(await _plan(connection, named[name].sql)), name
