"""What proves a certificate: openings with proofs that never change, also after a person is erased."""

import hashlib

import msgspec
import pytest

from tests.supply.transparency.scene import LogScene
from tests.support.plain_documents import store_plainly
from tests.support.postgres import undone
from tests.support.world import TESTER
from tonne.apps.privacy.erase_person import erase_person
from tonne.apps.privacy.model import Search, parse_person
from tonne.platform.db.invariant import find_violations
from tonne.platform.db.json_compression import JsonDictionary, decompress_json
from tonne.platform.values.erased import ERASED
from tonne.selling.orders.model import BeneficiaryKind
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.proofs import log_invariants
from tonne.supply.certificates.proofs.read_proofs import find_evidence
from tonne.supply.certificates.reissue_certificate import reissue_certificate, withdraw_certificate
from tonne_verify.canonical import canonical_json
from tonne_verify.errors import NotProven
from tonne_verify.openings import Opening


async def test_a_certificate_is_proven_with_its_retirements_once_a_checkpoint_covers_them(scene: LogScene) -> None:
    order = await scene.certify(grams=2_500_000)
    number = (await scene.certificate(order))["number"]
    assert await scene.evidence(number) is None
    await scene.append_all()
    assert await scene.evidence(number) is None
    await scene.publish_all()
    found = await scene.prove(order)
    assert [each["statement"]["kind"] for each in found.issued] == ["certificate.issued", "retirement", "retirement"]
    lines = (await scene.certificate(order))["lines"]
    ranges = [each["statement"]["facts"]["serial_range"] for each in found.issued[1:]]
    assert ranges == [line["serial_range"] for line in lines]
    # Another order of the same shared unit, and many more entries.
    await scene.certify(grams=100_000)
    await scene.retire_many(700)
    await scene.publish_all()
    assert await scene.prove(order) == found
    assert found.changes == []
    assert await scene.evidence("XXXX-XXXX-XXXX-XXXX") is None


async def test_what_is_stored_compressed_proves_the_same_byte_for_byte(scene: LogScene) -> None:
    names = ["Ada Keller", "Zoë “Ö” 株式会社", '\\"{}\u2028', "x" * 180]
    numbers = [(await scene.certificate(await scene.certify(name=name)))["number"] for name in names]
    await scene.publish_all()
    proven = [await scene.evidence(number) for number in numbers]
    entries = await scene.entries(await scene.log())
    rows = await scene.fetch("SELECT position, salt, statement FROM log_statements")
    records = await scene.fetch("SELECT record FROM certificates")
    assert {row["statement"][0] for row in rows} == {JsonDictionary.STATEMENT}
    assert {row["record"][0] for row in records} == {JsonDictionary.CERTIFICATE}
    for row in rows:
        statement = decompress_json(row["statement"])
        assert canonical_json(msgspec.json.decode(statement)) == statement
        assert hashlib.sha256(row["salt"] + statement).digest() == entries[row["position"]]
    async with undone(scene.database) as tx:
        await store_plainly(tx)
        assert [await find_evidence(tx, scene.mode, number) for number in numbers] == proven
    assert None not in proven


async def test_what_became_of_a_certificate_is_proven_too(scene: LogScene) -> None:
    order = await scene.certify()
    await scene.publish_all()
    issued = (await scene.prove(order)).issued
    number = (await scene.certificate(order))["number"]
    async with scene.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        await withdraw_certificate(tx, locked, reason="A wrong lot.", by=TESTER.at(scene.clock()))
        await reissue_certificate(tx, locked, reason="New", settings=scene.settings, by=TESTER.at(scene.clock()))
    old = await scene.evidence(number)
    assert old is not None
    assert old.all == issued
    await scene.publish_all()
    old = await scene.evidence(number)
    assert old is not None
    assert old.issued == issued
    assert [each["statement"]["kind"] for each in old.changes] == ["certificate.withdrawn", "certificate.replaced"]
    for entry in old.changes:
        await scene.check_entry(entry)
    new = await scene.prove(order)
    assert new.issued[1:] == issued[1:]
    assert new.issued[0]["statement"]["facts"]["replaces"] == {"number": number}


@pytest.mark.parametrize("is_logged", [True, False])
async def test_erasing_a_person_leaves_the_facts_provable_and_the_name_closed(scene: LogScene, is_logged: bool) -> None:
    order = await scene.certify(name="Ada Keller")
    async with scene.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        await withdraw_certificate(tx, locked, reason="Wrong for Ada Keller.", by=TESTER.at(scene.clock()))
    if is_logged:
        await scene.publish_all()
    number = (await scene.certificate(order))["number"]
    before = await scene.evidence(number)
    async with scene.database.connection() as connection:
        await erase_person(connection, Search(parse_person("Ada Keller")), actor=TESTER, clock=scene.clock)
    await scene.publish_all()
    found = await scene.prove(order)
    assert await scene.fetchval("SELECT count(*) FROM log_statements WHERE names LIKE '%Ada%'") == 0
    named = [each for each in found.all if each["statement"]["kind"] != "retirement"]
    if not is_logged:
        assert named[0]["names"]["beneficiary"] == ERASED
        assert named[1]["statement"]["names"] is None
        return
    assert before is not None
    assert [each["statement"] for each in found.all] == [each["statement"] for each in before.all]
    assert all(each["names"] is None and each["names_salt"] is None for each in named)
    assert all(each["statement"]["names"] is not None for each in named)
    # The right name without the salt proves nothing.
    guess = Opening.from_json({**found.issued[0], "names": before.issued[0]["names"], "names_salt": "00" * 32})
    with pytest.raises(NotProven):
        guess.check()
    await scene.check_invariants()


async def test_the_name_of_an_organisation_stays_provable_when_a_reason_is_erased(scene: LogScene) -> None:
    order = await scene.certify(name="Keller Ltd", kind=BeneficiaryKind.ORGANISATION)
    async with scene.database.transaction() as tx:
        await tx.execute("UPDATE orders SET email = 'ada@example.com' WHERE id = $1", order.id)
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        await withdraw_certificate(tx, locked, reason="Asked for by ada@example.com.", by=TESTER.at(scene.clock()))
    await scene.publish_all()
    async with scene.database.connection() as connection:
        await erase_person(connection, Search(parse_person("ada@example.com")), actor=TESTER, clock=scene.clock)
    issued, withdrawn = [each for each in (await scene.prove(order)).all if each["statement"]["kind"] != "retirement"]
    assert issued["names"]["beneficiary"] == "Keller Ltd"
    assert withdrawn["names"] is None
    assert withdrawn["statement"]["names"] is not None


async def test_a_retirement_says_how_serials_name_its_project(scene: LogScene) -> None:
    order = await scene.certify()
    name_project = (
        "UPDATE projects SET details = jsonb_set(details, '{serial_project}', to_jsonb($1::text)) WHERE mode = 'live'"
    )
    async with scene.database.transaction() as tx:
        await tx.execute(name_project, "F5X7")
    await scene.publish_all()
    stated = [each["statement"] for each in (await scene.prove(order)).all]
    (retired,) = [each["facts"] for each in stated if each["kind"] == "retirement"]
    assert retired["serial_project"] == "F5X7"
    # The catalogue may correct it: what was logged stays as it is.
    async with scene.database.transaction() as tx:
        await tx.execute(name_project, "F5X8")
        assert await find_violations(tx, log_invariants.INVARIANTS) == {}
