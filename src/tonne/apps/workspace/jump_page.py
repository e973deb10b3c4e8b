"""Jump to a page, an order, a certificate, an account, an event or a webhook of the organisation."""

from tonne.apps.dashboard.jump import MOST, JumpTarget, matching_pages, order_targets, read_term
from tonne.apps.dashboard.menu import ORGANISATION_MENU, entries_for
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.apps.lookup.find_orders import find_named, list_named
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.context import is_id
from tonne.selling.accounts.directory import list_account_names
from tonne.selling.orders.order_filter import OrderFilter
from tonne.selling.users.model import Right
from tonne.supply.certificates.store import find_certificates, normal_number

# Accounts are searched among so many: names have no index.
_ACCOUNTS = 500
_IDS = {"evt": ("Event", "events"), "wh": ("Webhook", "webhooks"), "acc": ("Account", "accounts")}


class JumpPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={"/jump": (self.show, Right.VIEW)})

    async def show(self, viewer: MemberViewer) -> Response:
        term = read_term(viewer.request.query("q")[0])
        found = matching_pages(entries_for(ORGANISATION_MENU, viewer.may), viewer.base, term)
        if term:
            found += await self.database.run(_find, viewer, term)
        return self.layout.page(
            viewer,
            "jump.html",
            layout="organisation.html",
            term=term,
            found=found,
        )


async def _find(connection: Connection, viewer: MemberViewer, term: str) -> list[JumpTarget]:
    organisation_id, mode, base = viewer.organisation_id, viewer.mode, viewer.base
    number = normal_number(term)
    keys = await find_named(connection, organisation_id, mode, term, certificate=number)
    orders = await list_named(connection, keys, OrderFilter(mode=mode, organisation_id=organisation_id), limit=MOST)
    targets = order_targets(orders.orders, base)
    if number:
        for each in await find_certificates(connection, organisation_id, mode, number=number, order_id=""):
            address = f"{base}/certificates?q={each.record.number}"
            targets.append(JumpTarget("Certificate", each.record.number, each.record.beneficiary, address))
    targets += [
        JumpTarget(kind, term, "", f"{base}/{path}/{term}")
        for prefix, (kind, path) in _IDS.items()
        if is_id(prefix, term)
    ]
    names = await list_account_names(connection, organisation_id, mode, limit=_ACCOUNTS)
    named = [(id_, name) for id_, name in names.by_id.items() if term.lower() in name.lower()]
    targets += [JumpTarget("Account", name, id_, f"{base}/accounts/{id_}") for id_, name in named[:MOST]]
    return targets
