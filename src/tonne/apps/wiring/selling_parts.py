"""The parts of `selling`."""

from tonne.apps.wiring.platform_parts import PlatformParts
from tonne.platform.db.database import Database
from tonne.platform.db.grouped_read import GroupedRead
from tonne.platform.http.authenticator import Authenticator
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, utc_now
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.logos.account_logo import AccountLogoEndpoints
from tonne.selling.accounts.organisations.activity import ActivityReaders
from tonne.selling.accounts.organisations.manage_endpoints import ManageAccountEndpoints
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates.calculate_estimate import CalculateEstimate, QuoteEstimate
from tonne.selling.estimates.endpoints import CalculatedEstimateEndpoints, EstimateEndpoints
from tonne.selling.estimates.factors.snapshot import Factors
from tonne.selling.estimates.kinds.batch_endpoints import EstimateBatchEndpoints
from tonne.selling.estimates.kinds.kinds import KINDS
from tonne.selling.estimates.purchases.endpoints import TransactionEndpoints
from tonne.selling.estimates.shipping.endpoints import ShippingEndpoints
from tonne.selling.estimates.shipping.kinds import KINDS as SHIPPING_KINDS
from tonne.selling.estimates.store import find_estimate_activity
from tonne.selling.orders.analytics.store import last_order_days
from tonne.selling.orders.endpoints import OrderEndpoints
from tonne.selling.orders.placing.batch_endpoints import BatchEndpoints
from tonne.selling.orders.placing.place_orders import PlaceOrders
from tonne.selling.orders.price_waiting import PriceWaiting
from tonne.selling.orders.quotes.endpoints import QuoteEndpoints
from tonne.selling.orders.quotes.lock_quotes import LockQuotes
from tonne.selling.orders.read_store import read_by_id, read_by_key, read_versions
from tonne.selling.orders.tags import OrderTags
from tonne.selling.orders.totals.fold_totals import FoldTotals
from tonne.selling.users.password_requests import MailPasswordLinks
from tonne.selling.users.prune_sessions import PruneSessions
from tonne.supply.stock.holds.holds import hold_for_quote
from tonne.supply.stock.vintages import load_vintages_any_account


class SellingParts(PlatformParts):
    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        super().__init__(database, settings, clock, process=process)
        self.directory = AccountDirectory(
            database,
            clock,
            settings.key_refresh_s,
            settings=settings,
        )
        self.catalogues = Catalogues(database, settings, load_vintages_any_account, clock)
        self.authenticator = Authenticator(self.directory, settings)
        self.manage_accounts = ManageAccountEndpoints(
            database,
            self.directory,
            ActivityReaders(last_order_days, find_estimate_activity),
            clock=clock,
            settings=settings,
        )
        self.account_logos = AccountLogoEndpoints(database, clock=clock, settings=settings)
        self.prune_sessions = PruneSessions(database, clock)
        self.mail_password_links = MailPasswordLinks(database, clock, settings)
        self._open_orders(clock)
        self._open_estimates(clock)

    def _open_orders(self, clock: Clock) -> None:
        database, settings = self.database, self.settings
        self.place_orders = PlaceOrders(
            database,
            self.catalogues,
            self.directory,
            clock=clock,
            settings=settings,
            notifier=self.notifier,
            shares=self.shares,
        )
        wait_s = settings.database_acquire_s
        self.orders = OrderEndpoints(
            database,
            self.catalogues,
            self.directory,
            self.place_orders,
            by_key=GroupedRead(database, read_by_key, wait_s=wait_s),
            by_id=GroupedRead(database, read_by_id, wait_s=wait_s),
            tags=OrderTags(GroupedRead(database, read_versions, wait_s=wait_s), f"{settings.brand}-Account"),
            clock=clock,
            notifier=self.notifier,
        )
        self.lock_quotes = LockQuotes(
            database,
            self.catalogues,
            self.directory,
            clock=clock,
            settings=settings,
            shares=self.shares,
            hold_supply=hold_for_quote,
        )
        self.quotes = QuoteEndpoints(database, self.lock_quotes, clock)
        self.order_batches = BatchEndpoints(self.place_orders, self.directory, self.authenticator.charge)
        self.price_waiting = PriceWaiting(database, self.catalogues, clock, settings)
        self.fold_totals = FoldTotals(database)

    def _open_estimates(self, clock: Clock) -> None:
        self.estimates = EstimateEndpoints(self.database, self.catalogues, self.directory, clock=clock)
        self.factors = Factors(self.database, self.settings)
        quotes = QuoteEstimate(self.catalogues, self.directory)
        self.calculate_estimate = CalculateEstimate(self.database, self.factors, quotes, clock)
        self.calculated_estimates = CalculatedEstimateEndpoints(self.calculate_estimate, quotes)
        self.estimate_batches = EstimateBatchEndpoints(
            self.calculate_estimate,
            self.calculated_estimates,
            (*KINDS, *SHIPPING_KINDS),
            charge=self.authenticator.charge,
        )
        self.shipping = ShippingEndpoints(self.database, self.calculated_estimates, self.factors)
        self.transactions = TransactionEndpoints(
            self.database, self.catalogues, self.calculate_estimate, quotes, charge=self.authenticator.charge
        )
