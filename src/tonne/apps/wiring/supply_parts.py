"""The parts of `supply`."""

from tonne.apps.wiring.selling_parts import SellingParts
from tonne.channels.checkout.paying.unpaid_holds import find_unpaid_holds_any_account
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, utc_now
from tonne.supply.certificates.credentials.endpoints import CertificateEndpoints
from tonne.supply.certificates.credentials.issue_credential import IssueCredential, RenderCertificate
from tonne.supply.certificates.credentials.issuer_endpoints import IssuerEndpoints
from tonne.supply.certificates.packs.make_packs import MakeAuditPacks
from tonne.supply.certificates.proofs.read_proofs import prove_consistency
from tonne.supply.registries.adapters.configured import configured_registries
from tonne.supply.registries.check_registries import CheckRegistries
from tonne.supply.registries.retire_test_order import RetireTestOrder
from tonne.supply.registries.retire_units import RetireUnits
from tonne.supply.registries.simulated import simulated_registries
from tonne.supply.retirements.allocate_orders import AllocateOrders
from tonne.supply.retirements.endpoints import RetirementEndpoints
from tonne.supply.retirements.resupply.resupply_orders import ResupplyOrders
from tonne.supply.stock.holds.holds import ReleaseHolds
from tonne.supply.stock.parcels.close_units import CloseUnits
from tonne.supply.transparency.witnesses import Witnesses


class SupplyParts(SellingParts):
    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        super().__init__(database, settings, clock, process=process)
        self.witnesses = Witnesses(database, settings, clock, prove_consistency)
        self.issue_credential = IssueCredential(database, self.signing_keys, settings)
        self.render_certificate = RenderCertificate(database, self.issue_credential, self.sign_documents, clock)
        self.issuer = IssuerEndpoints(database, self.signing_keys, clock=clock, settings=settings)
        self.allocate_orders = AllocateOrders(database, clock, settings)
        self.close_units = CloseUnits(database, clock, settings)
        self.resupply_orders = ResupplyOrders(database, clock, settings)
        self.release_holds = ReleaseHolds(database, clock, find_unpaid_holds_any_account)
        self.registry_accounts = {**simulated_registries(database, clock), **configured_registries(settings)}
        self.retire_units = RetireUnits(database, clock, settings, self.registry_accounts)
        self.check_registries = CheckRegistries(database, clock, self.registry_accounts)
        self.retire_test_order = RetireTestOrder(database, clock, settings, self.retire_units)
        self.certificates = CertificateEndpoints(database, self.render_certificate, self.issue_credential, clock)
        self.retirements = RetirementEndpoints(
            database, self.retire_test_order, self.directory, clock=clock, settings=settings, notifier=self.notifier
        )
        self.make_audit_packs = MakeAuditPacks(database, self.render_certificate, clock)
