"""Constructs the pages of an organisation."""

from tonne.dashboard.section import OrganisationSection
from tonne.wiring.money import organisation_money
from tonne.wiring.order_desk import order_desk
from tonne.wiring.parts import Parts
from tonne.wiring.routes import all_routes
from tonne.workspace.account_page import AccountPage
from tonne.workspace.accounts_page import AccountsPage
from tonne.workspace.audit_packs_page import AuditPacksPage
from tonne.workspace.audit_page import AuditLogPage
from tonne.workspace.buy_page import BuyPage
from tonne.workspace.certificates_page import CertificatesPage
from tonne.workspace.events_page import EventsPage
from tonne.workspace.jump_page import JumpPage
from tonne.workspace.keys_page import KeysPage
from tonne.workspace.link_export import LinkExport
from tonne.workspace.link_page import LinkPage
from tonne.workspace.links_page import LinksPage
from tonne.workspace.order_page import OrderOfMember
from tonne.workspace.orders_page import OrdersPage
from tonne.workspace.overview_page import OverviewPage
from tonne.workspace.page_editor import PageEditor
from tonne.workspace.people_page import PeoplePage
from tonne.workspace.requests_page import RequestsPage
from tonne.workspace.webhooks_page import WebhooksPage


def organisation_sections(parts: Parts) -> tuple[OrganisationSection, ...]:
    database, settings, layout = parts.database, parts.settings, parts.dashboard.layout
    catalogues, directory, clock = parts.catalogues, parts.directory, parts.clock
    shared = (database, layout, catalogues, directory, parts.box, clock, settings)
    return (
        KeysPage(database, layout, parts.clock).section(),
        RequestsPage(database, layout, parts.clock, routes=lambda: all_routes(parts)).section(),
        BuyPage(
            database,
            layout,
            catalogues=catalogues,
            directory=directory,
            place_orders=parts.place_orders,
            settings=settings,
        ).section(),
        AccountsPage(database, layout, catalogues=catalogues, clock=clock).section(),
        *(page(*shared).section() for page in (AccountPage, LinksPage, LinkPage)),
        LinkExport(database, clock).section(),
        PageEditor(database, layout, parts.public_page, clock, settings).section(),
        WebhooksPage(database, layout, parts.webhooks, parts.box, clock=parts.clock).section(),
        EventsPage(database, layout, clock=parts.clock).section(),
        OverviewPage(database, layout, clock=parts.clock).section(),
        OrdersPage(database, layout, clock=parts.clock).section(),
        OrderOfMember(database, order_desk(parts, limit_name="order_mails")).section(),
        CertificatesPage(database, layout).section(),
        *organisation_money(parts),
        AuditPacksPage(database, layout, clock=parts.clock).section(),
        JumpPage(database, layout).section(),
        PeoplePage(database, layout, clock=parts.clock, settings=settings).section(),
        AuditLogPage(database, layout).section(),
    )
