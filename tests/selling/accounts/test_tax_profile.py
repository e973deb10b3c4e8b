from decimal import Decimal
from fractions import Fraction

import pytest

from tests.support.world import TESTER, World
from tonne.platform.db.database import Database
from tonne.platform.values.amounts import NO_TAX, TaxTerms, TaxTreatment
from tonne.platform.values.context import replace
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import OrganisationNotFound, TaxProfileInvalid
from tonne.selling.accounts.tax.tax_profile import TaxProfile, check_tax_profile, read_tax_profile, set_tax_profile

GERMAN = TaxTerms(TaxTreatment.STANDARD, Fraction(19, 100))
STANDARD = TaxProfile(treatment=TaxTreatment.STANDARD, rate=Decimal("0.081"))
REVERSE = TaxProfile(treatment=TaxTreatment.REVERSE_CHARGE, country="fr", tax_id="FR 83 404 833 048")


def test_a_profile_is_spelled_canonically() -> None:
    checked = check_tax_profile(replace(REVERSE, street="  1 rue de la Paix ", city=""))
    assert (checked.country, checked.tax_id) == ("FR", "FR83404833048")
    assert (checked.street, checked.city) == ("1 rue de la Paix", None)


@pytest.mark.parametrize(
    ("country", "tax_id", "spelled"),
    [
        ("DE", "136 695 976", "DE136695976"),
        ("GR", "EL 094014201", "EL094014201"),
        ("GR", "094014201", "EL094014201"),
        ("GB", "980 7806 84", "GB980780684"),
        ("US", "12-3456789", "12-3456789"),
        (None, "anything", "anything"),
    ],
)
def test_tax_ids_follow_the_rules_of_the_country(country: str | None, tax_id: str, spelled: str) -> None:
    assert check_tax_profile(TaxProfile(country=country, tax_id=tax_id)).tax_id == spelled


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (TaxProfile(treatment=TaxTreatment.STANDARD), "needs a rate"),
        (TaxProfile(treatment=TaxTreatment.STANDARD, rate=Decimal(0)), "needs a rate"),
        (TaxProfile(treatment=TaxTreatment.STANDARD, rate=Decimal("1.01")), "needs a rate"),
        (TaxProfile(treatment=TaxTreatment.STANDARD, rate=Decimal("0.190001")), "at most 3 decimals"),
        (TaxProfile(treatment=TaxTreatment.EXEMPT, rate=Decimal("0.19")), "Only the treatment"),
        (TaxProfile(treatment=TaxTreatment.REVERSE_CHARGE, country="DE"), "needs the country and the tax id"),
        (TaxProfile(treatment=TaxTreatment.REVERSE_CHARGE, tax_id="X1"), "needs the country and the tax id"),
        (TaxProfile(country="XX"), "XX is not a country"),
        (TaxProfile(country="DE", tax_id="DE136695977"), "not a valid VAT number of DE"),
        (TaxProfile(country="DE", tax_id="FR83404833048"), "a VAT number of FR, not of DE"),
        (TaxProfile(country="GB", tax_id="GB1"), "not a valid VAT number of GB"),
        (TaxProfile(tax_id="x" * 51), "1 to 50"),
        (TaxProfile(city="a\nb"), "city must have at most 100 printable characters"),
        (TaxProfile(legal_note="x" * 501), "legal note must have at most 500"),
    ],
)
def test_what_is_wrong_is_refused_with_a_reason(profile: TaxProfile, message: str) -> None:
    with pytest.raises(TaxProfileInvalid, match=message):
        check_tax_profile(profile)


async def test_a_profile_decides_the_terms_of_its_organisation(populated_db: Database, world: World) -> None:
    ours, organisation_id = world.ours_live.scope, world.ours_live.scope.organisation_id
    async with populated_db.transaction() as tx:
        assert (await store.find_terms(tx, ours)).tax == NO_TAX
        assert (await store.find_terms(tx, ours, GERMAN)).tax == GERMAN
        changes = {"treatment": TaxTreatment.REVERSE_CHARGE, "country": "FR", "tax_id": "FR83404833048"}
        await set_tax_profile(tx, organisation_id, changes, by=TESTER.now())
        terms = await store.find_terms(tx, ours, GERMAN)
        assert terms.tax == TaxTerms(TaxTreatment.REVERSE_CHARGE)
        assert terms.at_checkout().tax == GERMAN, "customers at checkout are not the organisation"
        assert (await store.find_terms(tx, world.theirs_test.scope, GERMAN)).tax == GERMAN
        cleared = await set_tax_profile(tx, organisation_id, {"treatment": None}, by=TESTER.now())
        assert cleared.tax_id == "FR83404833048"
        assert (await store.find_terms(tx, ours, GERMAN)).tax == GERMAN


async def test_changes_are_audited_and_a_new_treatment_drops_the_rate(populated_db: Database, world: World) -> None:
    organisation_id = world.ours_live.scope.organisation_id
    async with populated_db.transaction() as tx:
        for changes in (
            {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.19")},
            {"treatment": TaxTreatment.EXEMPT},
        ):
            await set_tax_profile(tx, organisation_id, changes, by=TESTER.now())
        assert await read_tax_profile(tx, organisation_id) == TaxProfile(treatment=TaxTreatment.EXEMPT)
        rows = await tx.fetch("SELECT before, after FROM audit_log WHERE action = 'organisation.tax_set' ORDER BY id")
    assert [row["after"] for row in rows] == [
        '{"rate": "0.19", "treatment": "standard"}',
        '{"rate": null, "treatment": "exempt"}',
    ]


async def test_an_unknown_organisation_has_no_profile(populated_db: Database) -> None:
    async with populated_db.transaction() as tx:
        with pytest.raises(OrganisationNotFound):
            await read_tax_profile(tx, "org_unknown")


@pytest.mark.parametrize("code", ["DE", "de", "DEU", " deu "])
def test_a_country_has_two_or_three_letters_in_any_case(code: str) -> None:
    assert check_tax_profile(TaxProfile(country=code)).country == "DE"
