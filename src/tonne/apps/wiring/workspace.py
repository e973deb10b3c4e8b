"""Constructs the pages of an organisation."""

from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.wiring.money import organisation_money
from tonne.apps.wiring.order_desk import order_desk
from tonne.apps.wiring.parts import Parts
from tonne.apps.wiring.routes import all_routes
from tonne.apps.workspace.account_page import AccountPage
from tonne.apps.workspace.accounts_page import AccountsPage
from tonne.apps.workspace.audit_packs_page import AuditPacksPage
from tonne.apps.workspace.audit_page import AuditLogPage
from tonne.apps.workspace.buy_page import BuyPage
from tonne.apps.workspace.certificates_page import CertificatesPage
from tonne.apps.workspace.developers.events_page import EventsPage
from tonne.apps.workspace.developers.keys_page import KeysPage
from tonne.apps.workspace.developers.requests_page import RequestsPage
from tonne.apps.workspace.developers.webhooks_page import WebhooksPage
from tonne.apps.workspace.jump_page import JumpPage
from tonne.apps.workspace.links.link_export import LinkExport
from tonne.apps.workspace.links.link_page import LinkPage
from tonne.apps.workspace.links.links_page import LinksPage
from tonne.apps.workspace.order_page import OrderOfMember
from tonne.apps.workspace.orders_page import OrdersPage
from tonne.apps.workspace.overview_page import OverviewPage
from tonne.apps.workspace.page_editor import PageEditor
from tonne.apps.workspace.people_page import PeoplePage


def organisation_sections(parts: Parts) -> tuple[OrganisationSection, ...]:
    page, catalogues, directory, box = parts.page, parts.catalogues, parts.directory, parts.box
    return (
        RequestsPage(*page, lambda: all_routes(parts)).section(),
        BuyPage(*page, catalogues, directory, parts.place_orders).section(),
        AccountsPage(*page, catalogues).section(),
        *(each(*page, catalogues, directory, box).section() for each in (AccountPage, LinksPage, LinkPage)),
        LinkExport(parts.database, parts.clock).section(),
        PageEditor(*page, parts.public_page).section(),
        WebhooksPage(*page, parts.webhooks, box).section(),
        OrderOfMember(*page, order_desk(parts, limit_name="order_mails")).section(),
        *organisation_money(parts),
        *(each(*page).section() for each in (KeysPage, EventsPage, OverviewPage, OrdersPage, CertificatesPage)),
        *(each(*page).section() for each in (AuditPacksPage, JumpPage, PeoplePage, AuditLogPage)),
    )
