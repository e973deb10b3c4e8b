"""All pages of the dashboard: the GET routes of one organisation and of the operator, with ids that exist."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bench.dashboard.live_mode import MODE
from bench.report import NotMeasured
from tonne.apps.backoffice.today_page import checks_of, slug_of
from tonne.apps.dashboard.viewer import operator_base, organisation_base
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Access, Route

_PARAMETER = re.compile(r"\{(\w+)\}")
ORGANISATION, OPERATOR = "organisation", "operator"
# They only lead to another page.
REDIRECTS = ("/month-end",)
# Addresses of files end with one of these. What they contain may be large, and takes as long as it takes.
FILES = (
    *(".csv", ".pdf", "/csv", "/pdf", "/{format}", "/export", "/file", "/pdf/{currency}"),
    *("/receipts/{charge_id}", "/return-files/{batch_id}", "/files/{name}"),
)
_ORDER = """
SELECT orders.id FROM accounts JOIN orders ON orders.account_id = accounts.id
WHERE accounts.organisation_id = $1 AND accounts.mode = $2::text::mode AND orders.{condition}
ORDER BY orders.created_at DESC LIMIT 1
"""
_IN_MODE = "SELECT id FROM {table} WHERE $1 <> '' AND mode = $2::text::mode LIMIT 1"
_OF_ORGANISATION = "SELECT {column} FROM {table} WHERE organisation_id = $1 AND mode = $2::text::mode LIMIT 1"
# Each returns an id that the organisation ($1) has in the mode ($2). A new parameter of a page needs a line here.
SAMPLES = {
    "account_id": _OF_ORGANISATION.format(column="default_account_id", table="api_keys"),
    "attempt_id": "SELECT id FROM webhook_attempts WHERE organisation_id = $1 AND $2 <> '' ORDER BY id DESC LIMIT 1",
    "bundle_id": _IN_MODE.format(table="bundles"),
    "charge_id": _OF_ORGANISATION.format(column="id", table="charges"),
    # Not an id: the name of a check.
    "check": f"SELECT '{slug_of(checks_of(MODE)[0])}' WHERE $1 <> '' AND $2 <> ''",
    "dispute_id": _OF_ORGANISATION.format(column="id", table="disputes"),
    "event_id": _OF_ORGANISATION.format(column="id", table="events"),
    "import_id": _IN_MODE.format(table="staged_imports"),
    "key_id": _OF_ORGANISATION.format(column="id", table="api_keys"),
    "lot_id": _IN_MODE.format(table="lots"),
    "month": "SELECT to_char(now() - interval '1 month', 'YYYY-MM') WHERE $1 <> '' AND $2 <> ''",
    "mail_id": "SELECT id FROM mails WHERE $1 <> '' AND $2 <> '' AND last_error = 'bench' LIMIT 1",
    "number": _OF_ORGANISATION.format(column="reference", table="invoices"),
    "offset_link_id": _OF_ORGANISATION.format(column="id", table="offset_links"),
    "order_id": _ORDER.format(condition="status = 'complete'"),
    "organisation_id": "SELECT id FROM organisations WHERE id = $1 AND $2 <> ''",
    "pack_id": _OF_ORGANISATION.format(column="id", table="audit_packs"),
    "project_id": """
        SELECT project_id FROM parcels WHERE $1 <> '' AND mode = $2::text::mode AND status = 'to_retire' LIMIT 1
        """,
    "refund_id": _OF_ORGANISATION.format(column="id", table="refunds"),
    "request_id": _OF_ORGANISATION.format(column="request_id", table="api_requests"),
    "return_id": "SELECT id FROM transfer_returns WHERE $1 <> '' AND $2 <> '' LIMIT 1",
    "transfer_id": _IN_MODE.format(table="bank_transfers"),
    "unit_id": "SELECT id FROM parcels WHERE $1 <> '' AND mode = $2::text::mode AND status = 'open' LIMIT 1",
    "upload_id": _IN_MODE.format(table="statement_uploads"),
    "user_id": "SELECT user_id FROM memberships WHERE organisation_id = $1 AND $2 <> '' LIMIT 1",
    "webhook_id": """
        SELECT id FROM webhooks WHERE organisation_id = $1 AND mode = $2::text::mode AND deleted_at IS NULL
        ORDER BY id LIMIT 1
        """,
}
# Pages for which not every object of that kind will do.
SPECIAL_SAMPLES = {
    ("/accounts/{account_id}/close", "account_id"): """
        SELECT id FROM accounts WHERE organisation_id = $1 AND mode = $2::text::mode AND kind = 'client_account' LIMIT 1
        """,
    ("/orders/{order_id}/cancel", "order_id"): _ORDER.format(condition="status = 'placed'"),
    ("/registries/requests/{request_id}", "request_id"): """
        SELECT id FROM registry_instructions WHERE $1 <> '' AND mode = $2::text::mode LIMIT 1
        """,
    ("/webhooks/{webhook_id}/skip", "event_id"): """
        SELECT events.id FROM webhook_parked parked JOIN events USING (organisation_id, position)
        WHERE organisation_id = $1 AND events.mode = $2::text::mode LIMIT 1
        """,
}
# What pages that do not work without it have after the question mark.
QUERIES = {
    "/links/new": "?account={account_id}",
    "/public-page/preview": "?account={account_id}",
    "/webhooks/{webhook_id}/skip": "?event_id={event_id}",
}


# Searches and filters of a page, which are measured, too. The term is in no order.
VARIANTS = {
    "/orders": ("?q=no-such-reference", "?status=paid", "?stuck=1"),
    "/jump": ("?q=no-such-reference",),
    "/certificates": ("?q=no-such-number",),
}


@dataclass(frozen=True, slots=True)
class DashboardPage:
    """`name` is the path after the base, with its parameters; `path` has ids instead."""

    area: str
    name: str
    path: str


def page_routes(routes: Sequence[Route]) -> list[tuple[str, str]]:
    """Area and name of each page in the mode of the benchmarks. The base itself only leads to the first page."""
    found = []
    for area, base in ((ORGANISATION, organisation_base(MODE, "{organisation_id}")), (OPERATOR, operator_base(MODE))):
        names = [
            route.path.removeprefix(base)
            for route in routes
            if route.method == "GET" and route.access is Access.USER and route.path.startswith(f"{base}/")
        ]
        found += [(area, name) for name in names if not name.endswith(FILES) and name not in REDIRECTS]
    return found


def parameters_of(name: str) -> list[str]:
    return _PARAMETER.findall(name)


def require_samples(pages: Sequence[tuple[str, str]]) -> None:
    """Raises NotMeasured for pages that no sample id is known for: they would not be measured."""
    missing = {name: [each for each in parameters_of(name) if each not in SAMPLES] for _, name in pages}
    if any(missing.values()):
        shown = "; ".join(f"{name} needs {', '.join(each)}" for name, each in sorted(missing.items()) if each)
        raise NotMeasured(f"Add queries to SAMPLES in bench/dashboard/pages.py: {shown}.")


async def find_pages(
    connection: Connection, pages: Sequence[tuple[str, str]], organisation_id: str
) -> list[DashboardPage]:
    require_samples(pages)
    bases = {ORGANISATION: organisation_base(MODE, organisation_id), OPERATOR: operator_base(MODE)}
    found = []
    for area, name in pages:
        address = name + QUERIES.get(name, "")
        ids = {each: await _find_sample(connection, name, each, organisation_id) for each in parameters_of(address)}
        found.append(DashboardPage(area, name, f"{bases[area]}{address.format(**ids)}"))
        found += [DashboardPage(area, name + each, f"{bases[area]}{name}{each}") for each in VARIANTS.get(name, ())]
    return found


async def _find_sample(connection: Connection, name: str, parameter: str, organisation_id: str) -> str:
    query = SPECIAL_SAMPLES.get((name, parameter), SAMPLES[parameter])
    value = await connection.fetchval(query, organisation_id, MODE)
    if value is None:
        raise NotMeasured(f"There is no {parameter} for {name}: create one in bench/dashboard/data.py.")
    return str(value)
