from decimal import Decimal

import msgspec
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode, Scope
from tonne.selling.accounts.keys.api_keys import issue_key
from tonne.selling.accounts.tax.tax_profile import set_tax_profile


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, tax_treatment="standard", tax_rate="8.1")


async def test_an_organisation_reads_its_own_profile(services: Services, world: World, api: ApiClient) -> None:
    default = (await api.get("/v1/tax-profile")).json()
    assert (default["treatment"], default["rate"], default["is_default"]) == ("standard", "8.1", True)
    changes = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19"), "country": "DE", "tax_id": "136695976"}
    async with services.database.transaction() as tx:
        organisation_id = world.ours_test.scope.organisation_id
        await set_tax_profile(tx, organisation_id, changes, by=TESTER.now())
    own = (await api.get("/v1/tax-profile")).json()
    assert (own["treatment"], own["rate"], own["is_default"], own["tax_id"]) == ("standard", "19", False, "DE136695976")
    theirs = (await api.as_key(world.theirs_test.key).get("/v1/tax-profile")).json()
    assert (theirs["rate"], theirs["tax_id"]) == ("8.1", None)


async def test_keys_of_client_accounts_cannot_read_it(services: Services, world: World, api: ApiClient) -> None:
    ours = world.ours_test
    async with services.database.transaction() as tx:
        scope = Scope(ours.scope.organisation_id, ours.client_account_id, Mode.TEST)
        _, secret = await issue_key(tx, scope, "client", by=TESTER.now())
    refused = await api.as_key(secret).get("/v1/tax-profile")
    assert (refused.status_code, codes(refused)) == (404, ["tax_profile_not_available"])
