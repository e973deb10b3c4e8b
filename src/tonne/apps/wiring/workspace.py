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
