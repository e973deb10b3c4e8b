"""The public keys: did.json and the issuer file of tonne-verify."""

import pytest

from tests.supply.certificates.credentials.scene import Verifier
from tests.support.command import output_of
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.supply.certificates.credentials.did import did_of
from tonne_verify.errors import NotProven
from tonne_verify.multibase import decode_multikey

RETIRE = "UPDATE signing_keys SET retired_at = now() WHERE purpose = 'credential' AND retired_at IS NULL"
REVOKE = "UPDATE signing_keys SET revoked_from = created_at WHERE purpose = 'credential' AND retired_at IS NOT NULL"


@pytest.mark.parametrize(
    ("base_url", "did"),
    [
        ("https://offsets.example.com", "did:web:offsets.example.com"),
        ("http://localhost:8080", "did:web:localhost%3A8080"),
    ],
)
def test_the_did_names_the_host(base_url: str, did: str) -> None:
    assert did_of(base_url) == did


async def published_keys(verifier: Verifier) -> dict[str, str]:
    """The keys of did.json by their ids."""
    answer = await verifier.browser.get("/.well-known/did.json")
    assert answer.headers["access-control-allow-origin"] == "*"
    document = answer.json()
    methods = document["verificationMethod"]
    assert document["id"] == "did:web:tonne.test"
    assert document["assertionMethod"] == [method["id"] for method in methods]
    assert {(method["type"], method["controller"]) for method in methods} <= {("Multikey", "did:web:tonne.test")}
    return {method["id"]: method["publicKeyMultibase"] for method in methods}


async def test_old_keys_stay_published_and_leaked_ones_do_not(verifier: Verifier) -> None:
    order_id, _ = await verifier.complete_order()
    first = await verifier.credential(order_id)
    old = first["proof"]["verificationMethod"]
    assert list(await published_keys(verifier)) == [old]
    await verifier.execute(RETIRE)
    verifier.services.signing_keys._current.drop(KeyPurpose.CREDENTIAL)
    new = (await verifier.credential(order_id))["proof"]["verificationMethod"]
    keys = await published_keys(verifier)
    assert list(keys) == [old, new]
    assert await verifier.check(first) == [], "signed with the old key"

    await verifier.execute(REVOKE)
    assert list(await published_keys(verifier)) == [new]
    issuer = await verifier.issuer()
    assert [key.id for key in issuer.credential_keys] == [old, new]
    assert [key.period.revoked_from is None for key in issuer.credential_keys] == [False, True]
    assert decode_multikey(keys[new]) == issuer.credential_key(new).public_key


async def test_the_issuer_file_lists_all_keys_and_logs(verifier: Verifier) -> None:
    await verifier.complete_order()
    await verifier.publish()
    answer = await verifier.browser.get("/.well-known/tonne-issuer.json")
    assert answer.headers["access-control-allow-origin"] == "*"
    issuer = await verifier.issuer()
    assert (issuer.id, issuer.name) == ("did:web:tonne.test", verifier.settings.seller_name)
    assert [each.pem.startswith("-----BEGIN CERTIFICATE") for each in issuer.document_certificates] == [True]
    (log,) = (each for each in issuer.logs if each.mode == "test")
    assert (log.origin, log.url, log.closed) == ("tonne.test/log/test", "http://tonne.test/log/test", None)
    assert len(log.keys) == 1


async def test_checkpoints_of_a_leaked_key_count_only_if_the_issuer_file_states_them(verifier: Verifier) -> None:
    order_id, _ = await verifier.complete_order()
    await verifier.publish()
    first = await verifier.credential(order_id)
    await verifier.complete_order()
    await verifier.publish()
    settings = verifier.settings
    operator = {
        "database_url": verifier.database._url,
        "data_dir": settings.data_dir,
        "public_url": settings.public_url,
        "secret_key": settings.secret_key,
    }
    key_id = await verifier.fetchval("SELECT id FROM signing_keys WHERE purpose = 'log'")
    said = output_of("signing-keys", "revoke", key_id, "--from", "1h", **operator)
    assert "tonne log reopen test --reason TEXT" in said
    verifier.services.signing_keys._current.drop(KeyPurpose.LOG)
    with pytest.raises(NotProven, match="None of the known keys has signed it"):
        await verifier.check(first)

    output_of("log", "reopen", "test", "--reason", "The key leaked.", **operator)
    await verifier.publish()
    later = await verifier.credential(order_id)
    assert set(await verifier.check(later)) == {"certificate.issued", "retirement"}
    with pytest.raises(NotProven, match="None of the known keys has signed it"):
        await verifier.check(first)
    closed, current = [each for each in (await verifier.issuer()).logs if each.mode == "test"]
    assert (len(closed.keys), closed.final is None) == (1, False)
    assert (len(current.keys), current.final) == (1, None)
    new_order, _ = await verifier.complete_order()
    await verifier.publish()
    assert "certificate.issued" in await verifier.check(await verifier.credential(new_order))
