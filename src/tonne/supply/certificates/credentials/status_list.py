"""Status lists (W3C Bitstring Status List 1.0): which certificates were replaced or withdrawn. No I/O."""

import base64
import gzip
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tonne.platform.values.context import Mode, to_wire
from tonne.supply.certificates.credentials.credential import LIST_LENGTH, STATUS_SIZE, StatusValue, status_list_url
from tonne.supply.certificates.credentials.did import did_of

Json = dict[str, Any]
CONTEXT = ["https://www.w3.org/ns/credentials/v2"]
# How long a verifier may use its copy.
FRESH_S = 60
# An older list is refused: somebody could show it instead of the current one.
VALID_FOR = timedelta(days=1)
_NAME = re.compile(r"(live|test)-(0|[1-9][0-9]{0,11})")
_PER_BYTE = 8 // STATUS_SIZE


def parse_list_name(name: str) -> tuple[Mode, int] | None:
    """`live-3` is the fourth list of live certificates."""
    found = _NAME.fullmatch(name)
    return None if found is None else (Mode(found[1]), int(found[2]))


def encode_list(statuses: Iterable[tuple[int, StatusValue]]) -> str:
    """The list in multibase: two bits for each position, the first position in the highest bits of the first byte."""
    bits = bytearray(LIST_LENGTH // _PER_BYTE)
    for position, status in statuses:
        byte, place = divmod(position, _PER_BYTE)
        bits[byte] |= status << (8 - STATUS_SIZE * (place + 1))
    # Without a time in the header: the same list gives the same text.
    packed = gzip.compress(bytes(bits), mtime=0)
    return "u" + base64.urlsafe_b64encode(packed).decode().rstrip("=")


def compose_status_list(
    mode: Mode, number: int, statuses: Iterable[tuple[int, StatusValue]], *, base_url: str, now: datetime
) -> Json:
    """Without a signature."""
    url = status_list_url(base_url, mode, number)
    return {
        "@context": CONTEXT,
        "id": url,
        "type": ["VerifiableCredential", "BitstringStatusListCredential"],
        "issuer": did_of(base_url),
        "validFrom": to_wire(now),
        "validUntil": to_wire(now + VALID_FOR),
        "credentialSubject": {
            "id": f"{url}#list",
            "type": "BitstringStatusList",
            "statusPurpose": "message",
            "encodedList": encode_list(statuses),
            "ttl": FRESH_S * 1000,
        },
    }
