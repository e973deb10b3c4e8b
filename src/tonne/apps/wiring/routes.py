"""All routes of the service."""

from collections.abc import Sequence

from tonne.apps.dashboard.page import OperatorSection, OrganisationSection
from tonne.apps.dashboard.routes import dashboard_routes, operator_routes, organisation_routes
from tonne.apps.privacy.endpoints import person_routes
from tonne.apps.wiring.parts import Parts
from tonne.apps.workspace.developers.keys_page import DocumentationKey
from tonne.channels.checkout.routes import (
    api_checkout_routes,
    checkout_routes,
    link_routes,
    order_page_routes,
    payment_routes,
)
from tonne.channels.public_pages.routes import (
    certificate_routes,
    public_page_routes,
    published_page_routes,
    sustainability_routes,
)
from tonne.channels.public_pages.site.landing_page import LandingPage
from tonne.channels.public_pages.site.routes import site_routes
from tonne.channels.webhooks.event_schemas import WEBHOOKS, WebhookEvent
from tonne.channels.webhooks.routes import webhook_routes
from tonne.money.cards.routes import card_page_routes, card_routes, gateway_routes
from tonne.money.invoices.credit_notes.endpoints import credit_note_routes
from tonne.money.invoices.endpoints import invoice_routes
from tonne.money.refunds.routes import refund_routes
from tonne.platform.events.endpoints import EventEndpoints
from tonne.platform.http.lists import ListOut
from tonne.platform.http.openapi.document import openapi_document
from tonne.platform.http.openapi.reference_page import DocsEndpoints
from tonne.platform.http.route import Route
from tonne.platform.web.assets import asset_routes
from tonne.selling.accounts.endpoints import AccountEndpoints, AuditEndpoints, account_routes, audit_routes
from tonne.selling.accounts.keys.endpoints import KeyEndpoints, key_routes
from tonne.selling.accounts.logos.account_logo import account_logo_routes, public_logo_routes
from tonne.selling.accounts.organisations.client_account import with_client_account
from tonne.selling.accounts.organisations.manage_routes import manage_account_routes
from tonne.selling.accounts.tax.endpoints import TaxEndpoints, tax_routes
from tonne.selling.catalogue.endpoints import CatalogueEndpoints
from tonne.selling.catalogue.pictures.endpoints import PictureEndpoints
from tonne.selling.catalogue.selection_endpoints import BundleSelectionEndpoints
from tonne.selling.estimates.factors.endpoints import FactorEndpoints
from tonne.selling.estimates.kinds.kinds import KINDS
from tonne.selling.orders.analytics.endpoints import AnalyticsEndpoints
from tonne.selling.orders.routes import batch_route, order_routes
from tonne.selling.users.names import find_operators
from tonne.supply.certificates.credentials.routes import certificate_file_routes
from tonne.supply.retirements.routes import retirement_routes
from tonne.supply.transparency.endpoints import LogEndpoints


def all_routes(parts: Parts) -> list[Route]:
    catalogue = CatalogueEndpoints(parts.catalogues, parts.directory, parts.clock)
    api = [
        *order_routes(parts.orders),
        batch_route(parts.order_batches),
        *parts.quotes.routes(),
        *card_routes(parts.cards),
        *invoice_routes(parts.invoices),
        *credit_note_routes(parts.credit_notes),
        *refund_routes(parts.refunds, parts.orders.read_order),
        *link_routes(parts.offset_links),
        *api_checkout_routes(parts.checkouts),
        *payment_routes(parts.payment_lookup),
        *certificate_file_routes(parts.certificates),
        *retirement_routes(parts.retirements),
        *sustainability_routes(parts.sustainability),
        *published_page_routes(parts.published_page),
        *parts.estimates.routes(),
        *parts.calculated_estimates.routes(KINDS),
        *parts.estimate_batches.routes(),
        *parts.shipping.routes(),
        *parts.transactions.transaction_routes(),
        *FactorEndpoints(parts.factors).routes(),
        *catalogue.routes(),
        *BundleSelectionEndpoints(parts.database, parts.catalogues, parts.directory, clock=parts.clock).routes(),
        *AnalyticsEndpoints(parts.database, parts.catalogues, parts.directory, clock=parts.clock).routes(),
        *webhook_routes(parts.webhooks),
        *EventEndpoints(parts.database).routes(WebhookEvent, ListOut[WebhookEvent]),
        *account_routes(AccountEndpoints(parts.database)),
        *manage_account_routes(parts.manage_accounts),
        *account_logo_routes(parts.account_logos),
        *tax_routes(TaxEndpoints(parts.database, parts.settings)),
        *audit_routes(AuditEndpoints(parts.database, find_operators)),
        *key_routes(KeyEndpoints(parts.database, parts.clock)),
        *person_routes(parts.persons),
    ]
    api = [with_client_account(route) for route in api]
    return [
        *api,
        *gateway_routes(parts.cards),
        *catalogue.page_routes(),
        *PictureEndpoints(parts.database).routes(),
        *asset_routes(parts.renderer.frame),
        *site_routes(LandingPage(parts.catalogues, parts.renderer), parts.settings),
        *LogEndpoints(parts.database, parts.renderer, parts.settings.log_discloses).routes(),
        *public_page_routes(parts.public_page, parts.renderer),
        *parts.project_page.routes(),
        *public_logo_routes(parts.account_logos),
        *certificate_routes(parts.certificate_pages, parts.renderer),
        *checkout_routes(parts.offset_page, parts.checkout_page, parts.renderer),
        *order_page_routes(parts.order_page, parts.receipt_page, parts.find_orders, parts.renderer),
        *card_page_routes(parts.card_page, parts.renderer),
        *dashboard_routes(parts.dashboard.pages, parts.dashboard.access, parts.renderer),
        *DocumentationKey(parts.database, parts.dashboard.access, parts.clock).routes(),
        *parts.health.routes(),
        *parts.security_txt.routes(),
        *parts.issuer.routes(),
        *DocsEndpoints(lambda: openapi_document(api, parts.settings, WEBHOOKS)).routes(),
        *parts.metrics_endpoint.routes(),
    ]


def section_routes(
    parts: Parts, organisation: Sequence[OrganisationSection], operator: Sequence[OperatorSection]
) -> list[Route]:
    """The sections of the dashboard."""
    access, renderer = parts.dashboard.access, parts.renderer
    return [*organisation_routes(organisation, access, renderer), *operator_routes(operator, access, renderer)]
