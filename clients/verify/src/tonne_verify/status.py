"""The status of a credential (W3C Bitstring Status List): valid, replaced or withdrawn."""

import base64
import binascii
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from tonne_verify.canonical import read_json
from tonne_verify.credentials import check_credential
from tonne_verify.download import fetch
from tonne_verify.errors import NotProven
from tonne_verify.issuer import Issuer
from tonne_verify.times import parse_time

STATUS_BITS = 2
MAX_LIST_SIZE = 2_000_000


class CredentialState(IntEnum):
    VALID = 0
    REPLACED = 1
    WITHDRAWN = 2


def fetch_state(document: Mapping[str, Any], issuer: Issuer) -> tuple[CredentialState, datetime]:
    """And when the list was signed.

    Raises NotProven if the list cannot be fetched, is not signed by the issuer, or is out of date.
    """
    found = document.get("credentialStatus")
    entries = [each for each in (found if isinstance(found, list) else [found]) if isinstance(each, dict)]
    # The other purpose, `revocation`, says less.
    entry = next((each for each in entries if each.get("statusPurpose") == "message"), {})
    if entry.get("type") != "BitstringStatusListEntry":
        raise NotProven("The credential does not say where its status is published.")
    url, index = entry.get("statusListCredential"), str(entry.get("statusListIndex"))
    if not isinstance(url, str) or not (index.isascii() and index.isdigit()):
        raise NotProven("The credential does not say where its status is published.")
    if entry.get("statusSize") != STATUS_BITS:
        raise NotProven("The status of the credential is in a format that this verifier does not know.")
    return read_state(read_json(fetch(url)), url, int(index), issuer)


def read_state(listed: Any, url: str, index: int, issuer: Issuer) -> tuple[CredentialState, datetime]:
    if not isinstance(listed, dict) or listed.get("id") != url:
        raise NotProven(f"{url} does not answer with the status list.")
    signature = check_credential(listed, issuer.credential_public_keys())
    issuer.credential_key(signature.verification_method).period.check(signature.created)
    if "validUntil" in listed and parse_time(listed["validUntil"]) < datetime.now(UTC):
        raise NotProven(f"The status list at {url} is out of date.")
    subject = listed.get("credentialSubject")
    if not isinstance(subject, dict) or subject.get("type") != "BitstringStatusList":
        raise NotProven(f"{url} does not answer with the status list.")
    bits = decode_list(str(subject.get("encodedList")))
    start = index * STATUS_BITS
    if start + STATUS_BITS > len(bits) * 8:
        raise NotProven("The status list does not contain this certificate.")
    value = bits[start // 8] >> (8 - STATUS_BITS - start % 8) & ((1 << STATUS_BITS) - 1)
    if value not in set(CredentialState):
        raise NotProven(f"The status {value} of the certificate is not known to this verifier.")
    return CredentialState(value), signature.created


def decode_list(encoded: str) -> bytes:
    """Gzip in Base64 with the letters of URLs, after a `u` that says so."""
    try:
        packed = base64.b64decode(encoded.removeprefix("u") + "==", altchars=b"-_", validate=False)
        stream = zlib.decompressobj(wbits=31)
        bits = stream.decompress(packed, MAX_LIST_SIZE)
    except (binascii.Error, zlib.error, ValueError):
        raise NotProven("The status list is damaged.") from None
    if not encoded.startswith("u") or not stream.eof:
        raise NotProven("The status list is damaged.")
    return bits
