"""Certificates as verifiable credentials: what they state, that they verify, and who can read them."""

import base64
import hashlib
from typing import Any, get_args, get_type_hints

import jsonschema_rs
import msgspec
import pytest

from tests.channels.public_pages.certificates import show_page
from tests.supply.certificates.credentials.scene import Json, Verifier
from tests.support.api_client import codes
from tests.support.postgres import undone
from tonne.apps.cli.operations.doctor import find_breaches
from tonne.selling.orders.model import BeneficiaryKind
from tonne.supply.certificates.record import CertificateRecord
from tonne_verify.credentials import check_credential
from tonne_verify.errors import NotProven

LISTED = "certificates that are not valid are in a status list"
ISSUED, RETIRED = "certificate.issued", "retirement"


async def test_the_credential_states_the_certificate_and_verifies(verifier: Verifier) -> None:
    order_id, number = await verifier.complete_order()
    early = await verifier.credential(order_id)
    assert await verifier.check(early) == [], "no checkpoint yet"
    await verifier.publish()
    credential = await verifier.credential(order_id)
    assert {key: value for key, value in credential.items() if key not in {"evidence", "proof"}} == {
        key: value for key, value in early.items() if key != "proof"
    }
    proven = await verifier.check(credential)
    assert (proven[0], set(proven[1:])) == (ISSUED, {RETIRED})

    certificate = (await verifier.api.get(f"/v1/orders/{order_id}/certificate.json")).json()
    subject = credential["credentialSubject"]
    assert subject == {key: certificate[key] for key in subject}
    assert set(subject) >= {"number", "mode", "beneficiary", "total_quantity", "lines", "replaces"}
    assert credential["id"] == certificate["verification_url"]
    assert credential["validFrom"] == certificate["issued_at"]
    # The key was made with the first credential, so the signature is as old as the key, and not as the certificate.
    (key,) = (await verifier.browser.get("/.well-known/tonne-issuer.json")).json()["credential_keys"]
    assert credential["proof"]["created"] == key["from"] > certificate["issued_at"]
    assert credential["issuer"] == {"id": "did:web:tonne.test", "name": certificate["issuer"]}
    assert subject["number"] == number
    assert credential == await verifier.credential(order_id), "signing is deterministic"


async def test_context_and_schema_are_published_pinned_and_have_every_word(verifier: Verifier) -> None:
    order_id, _ = await verifier.complete_order()
    await verifier.publish()
    credential = await verifier.credential(order_id)
    files = {}
    for each in credential["relatedResource"]:
        answer = await verifier.browser.get(each["id"])
        assert answer.status_code == 200
        assert answer.headers["content-type"] == each["mediaType"]
        assert answer.headers["access-control-allow-origin"] == "*"
        digest = base64.b64encode(hashlib.sha384(answer.content).digest()).decode()
        assert each["digestSRI"] == f"sha384-{digest}"
        files[each["id"]] = answer.json()
    assert (await verifier.browser.get("/credentials/vocabulary/__init__.py")).status_code == 404
    schema, context = files[credential["credentialSchema"]["id"]], files[credential["@context"][1]]["@context"]
    jsonschema_rs.validator_for(schema).validate(credential)
    mistakes: list[Json] = [{"total_quantity": 2}, {"lines": []}, {"mode": "other"}]
    for changed in mistakes:
        wrong = credential | {"credentialSubject": credential["credentialSubject"] | changed}
        assert not jsonschema_rs.validator_for(schema).is_valid(wrong), changed
    unknown = _names_of(CertificateRecord) - {"issued_at", "issuer", "verification_url", "logo"} - set(context)
    assert unknown == set(), "they need a second version of the context"


def _names_of(record: Any) -> set[str]:
    """The names of all fields, also of the structs in it."""
    parts = [record, *get_args(record)]
    structs = [each for each in parts if isinstance(each, type) and issubclass(each, msgspec.Struct)]
    names = {name for each in structs for name in each.__struct_fields__}
    inner = [hint for each in structs for hint in get_type_hints(each).values()]
    inner += get_args(record)
    return names.union(*map(_names_of, inner)) if inner else names


async def test_a_changed_value_is_noticed(verifier: Verifier) -> None:
    order_id, _ = await verifier.complete_order()
    credential, keys = await verifier.credential(order_id), (await verifier.issuer()).credential_public_keys()
    subject = credential["credentialSubject"]
    for changed in (
        credential | {"credentialSubject": subject | {"total_quantity": "15"}},
        credential | {"validFrom": "2020-01-01T00:00:00.000Z"},
        credential | {"proof": credential["proof"] | {"created": "2020-01-01T00:00:00.000Z"}},
        {key: value for key, value in credential.items() if key != "credentialStatus"},
    ):
        with pytest.raises(NotProven):
            check_credential(changed, keys)


async def test_the_status_list_says_what_became_of_a_certificate(verifier: Verifier) -> None:
    replaced_id, first = await verifier.complete_order()
    withdrawn_id, _ = await verifier.complete_order()
    valid_id, _ = await verifier.complete_order()
    await verifier.rename(replaced_id, "Berta Ltd")
    await verifier.withdraw(withdrawn_id)
    await verifier.publish()
    old, new = await verifier.credential(replaced_id, first), await verifier.credential(replaced_id)
    withdrawn, valid = await verifier.credential(withdrawn_id), await verifier.credential(valid_id)
    assert new["credentialSubject"]["replaces"] == {"number": first, "reason": "The name was misspelt."}
    shown = [await verifier.listed_status(each) for each in (old, new, withdrawn, valid)]
    assert shown == ["replaced", "valid", "withdrawn", "valid"]
    assert (await verifier.check(old))[-1] == "certificate.replaced"
    assert (await verifier.check(withdrawn))[-1] == "certificate.withdrawn"
    assert "certificate.replaced" not in await verifier.check(new)
    await verifier.check_invariants()
    for wrong in (None, 1_000_000):
        async with undone(verifier.database) as tx:
            await tx.execute("UPDATE certificates SET status_index = $2 WHERE number = $1", first, wrong)
            assert set(await find_breaches(tx, [LISTED])) == {LISTED}


async def test_status_lists_of_both_modes_and_unknown_ones(verifier: Verifier) -> None:
    await verifier.complete_order()
    for name, status in {
        "message-test-0": 200,
        "message-live-0": 200,
        "revocation-live-0": 200,
        "message-live-1": 404,
        "revocation-live-1": 404,
        "message-live-00": 404,
        "message-live--1": 404,
        "message-other-0": 404,
        "other-live-0": 404,
        "message-live-999999999999": 404,
        "x": 404,
    }.items():
        answer = await verifier.browser.get(f"/credentials/status/{name}")
        assert answer.status_code == status, name
        if status == 404:
            assert codes(answer) == ["status_list_not_found"]
        else:
            assert answer.headers["access-control-allow-origin"] == "*"


async def test_the_public_file_has_the_visibility_of_the_page(verifier: Verifier) -> None:
    order_id, number = await verifier.complete_order()
    hidden = await verifier.browser.get(f"/certificates/{number}.json")
    assert (hidden.status_code, codes(hidden)) == (404, ["certificate_not_found"]), "the account publishes nothing"
    await show_page(verifier.services, verifier.world.ours_test.scope)
    await verifier.publish()
    shown = await verifier.browser.get(f"/certificates/{number.lower()}.json")
    assert shown.json() == await verifier.credential(order_id)
    assert shown.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in shown.headers

    await verifier.rename(order_id, "Berta Ltd")
    await verifier.publish()
    shown = await verifier.browser.get(f"/certificates/{number}.json")
    assert (await verifier.check(shown.json()))[-1] == "certificate.replaced"

    # From a release that did not hide the certificates that lead to a private name.
    await verifier.execute("UPDATE certificates SET is_public = false WHERE replaces IS NOT NULL")
    shown = await verifier.browser.get(f"/certificates/{number}.json")
    assert set(await verifier.check(shown.json())) == {ISSUED, RETIRED}, "the new number is private"
    assert await verifier.listed_status(shown.json()) == "replaced"

    await verifier.execute("UPDATE certificates SET is_public = true")
    await verifier.rename(order_id, "Ada Keller", BeneficiaryKind.PERSON)
    assert (await verifier.browser.get(f"/certificates/{number}.json")).status_code == 404


async def test_an_erased_person_leaves_the_other_facts_provable(verifier: Verifier) -> None:
    order_id = await verifier.buys()
    await verifier.publish()
    before = await verifier.credential(order_id)
    assert before["evidence"][0]["names"]["beneficiary"] == "Ada Keller"
    await verifier.erase()
    after = await verifier.credential(order_id)
    assert after["credentialSubject"]["beneficiary"] == "erased"
    assert "Keller" not in str(after)
    assert [each["names"] for each in after["evidence"]] == [None] * len(after["evidence"])
    assert await verifier.check(after) == await verifier.check(before)
    assert after["evidence"][0]["statement"] == before["evidence"][0]["statement"]
