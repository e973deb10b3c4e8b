"""Certificates as SD-JWT VC: whole, and as their holder shows them without the name."""

import asyncio
import base64
import re

from jwcrypto.jwk import JWK
from sd_jwt.holder import SDJWTHolder
from sd_jwt.verifier import SDJWTVerifier

from tests.supply.certificates.credentials.scene import Json, Verifier, check_evidence
from tests.support.api_client import codes
from tonne.selling.orders.model import BeneficiaryKind

WITHHELD = {"beneficiary", "number", "order_id", "verification_url"}


async def token_of(verifier: Verifier, order_id: str) -> str:
    answer = await verifier.api.get(f"/v1/orders/{order_id}/selective-credential")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/dc+sd-jwt")
    return answer.text


def present(token: str) -> str:
    """What the holder shows: everything that cannot be withheld."""
    holder = SDJWTHolder(token)
    holder.create_presentation({})
    return str(holder.sd_jwt_presentation)


async def verified(verifier: Verifier, token: str) -> Json:
    published = (await verifier.browser.get("/.well-known/jwt-vc-issuer")).json()

    def key_of(issuer: str, header: Json) -> JWK:
        assert issuer == published["issuer"] == verifier.settings.base_url
        assert header["typ"] == "dc+sd-jwt"
        (key,) = (each for each in published["jwks"]["keys"] if each["kid"] == header["kid"])
        return JWK(**key)

    # In a thread, because the library is not made for event loops.
    found: Json = (await asyncio.to_thread(SDJWTVerifier, token, key_of)).get_verified_payload()
    return found


def decoded(token: str) -> str:
    """The token with all parts that are in base64, for a search."""
    parts = re.findall(r"[A-Za-z0-9_-]{8,}", token)
    texts = [base64.urlsafe_b64decode(each + "=" * (-len(each) % 4)).decode(errors="replace") for each in parts]
    return "\n".join([token, *texts])


async def test_the_name_can_be_withheld_and_the_retirements_stay_proven(verifier: Verifier) -> None:
    order_id = await verifier.buys()
    await verifier.publish()
    token = await token_of(verifier, order_id)
    certificate = (await verifier.api.get(f"/v1/orders/{order_id}/certificate.json")).json()
    whole = await verified(verifier, token)
    assert {name: whole[name] for name in WITHHELD} == {name: certificate[name] for name in WITHHELD}
    assert whole["beneficiary"] == "Ada Keller"

    shown = present(token)
    bare = await verified(verifier, shown)
    assert whole.keys() - bare.keys() == WITHHELD
    assert bare["total_quantity"] == certificate["total_quantity"]
    assert [each["serial_range"] for each in bare["lines"]] == [each["serial_range"] for each in certificate["lines"]]
    issuer = await verifier.issuer()
    proven = [check_evidence({**each, "names": None, "names_salt": None}, issuer) for each in bare["evidence"]]
    assert set(proven) == {"retirement"}
    assert len(proven) == len({each["serial_range"] for each in bare["lines"]})


async def test_neither_the_presentation_nor_what_it_links_to_leads_to_the_name(verifier: Verifier) -> None:
    order_id = await verifier.buys()
    await verifier.publish()
    token = await token_of(verifier, order_id)
    number = (await verified(verifier, token))["number"]
    secret = re.compile("|".join(["Keller", number, number.replace("-", ""), order_id]), re.IGNORECASE)
    assert len(set(secret.findall(decoded(token)))) == 3, "what the search finds"
    shown = decoded(present(token))
    assert not secret.search(shown)
    host = verifier.settings.base_url
    addresses = {each.removeprefix(host) for each in re.findall(r"https?://[^\s\"\\]+", shown) if each.startswith(host)}
    addresses |= {"/.well-known/jwt-vc-issuer", "/.well-known/did.json", "/.well-known/tonne-issuer.json"}
    addresses |= {f"/log/test/{name}" for name in ("", "checkpoint", "tile/0/000", "tile/entries/000")}
    for address in addresses:
        assert not secret.search((await verifier.browser.get(address)).text), address


async def test_only_a_valid_certificate_is_shown(verifier: Verifier) -> None:
    order_id, first = await verifier.complete_order()
    await verifier.rename(order_id, "Berta Ltd", BeneficiaryKind.ORGANISATION)
    whole = await verified(verifier, await token_of(verifier, order_id))
    assert whole["beneficiary"] == "Berta Ltd"
    assert whole["number"] != first
    assert whole["evidence"] == [], "no checkpoint yet"
    assert whole["exp"] - whole["iat"] == 90 * 24 * 3600
    await verifier.withdraw(order_id)
    answer = await verifier.api.get(f"/v1/orders/{order_id}/selective-credential")
    assert (answer.status_code, codes(answer)) == (404, ["certificate_not_available"])
