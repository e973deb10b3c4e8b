import msgspec

from tests.support.command import Operator
from tests.support.world import World
from tonne.platform.db.database import Database


def test_a_profile_is_shown_and_changed_by_field(populated_db: Database, world: World) -> None:
    operator, organisation_id = Operator(populated_db._url), world.ours_live.scope.organisation_id
    assert operator.facts("org", "tax", organisation_id)["treatment"].startswith("default")
    facts = operator.facts(
        "org", "tax", organisation_id, "--treatment", "standard", "--rate", "8.1", "--country", "ch", "--city", "Bern"
    )
    assert (facts["treatment"], facts["rate"], facts["country"]) == ("standard", "8.1 %", "CH")
    cleared = operator.facts("org", "tax", organisation_id, "--treatment", "default", "--city", "")
    assert (cleared["rate"], cleared["country"], cleared["city"]) == ("-", "CH", "-")
    shown = msgspec.json.decode(operator.does("org", "tax", organisation_id, "--json"))
    assert (shown["treatment"], shown["country"]) == (None, "CH")


def test_what_is_wrong_is_explained(populated_db: Database, world: World) -> None:
    operator, organisation_id = Operator(populated_db._url), world.ours_live.scope.organisation_id
    assert "needs a rate" in operator.is_refused("org", "tax", organisation_id, "--treatment", "standard")
    refused = operator.is_refused("org", "tax", organisation_id, "--country", "DE", "--tax-id", "DE1")
    assert "not a valid VAT number of DE" in refused
    assert "There is no organisation org_unknown" in operator.is_refused("org", "tax", "org_unknown")
