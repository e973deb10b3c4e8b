"""Signed queries of offset links: the client vouches for their parameters with the link's secret.

The message is the id of the link, a newline, and the parameters in canonical form. docs/offset-links.md has a test
vector and sample code.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from urllib.parse import parse_qsl, quote

from msgspec import Struct

from tonne.channels.checkout.errors import LinkSignatureExpired, LinkSignatureInvalid

SIGNATURE, EXPIRES = "signature", "expires"
# The field of our form that repeats a signed query.
REPEATED = "signed_query"
# Parameters with an effect. Others, such as those that a newsletter tool adds, are ignored.
NAME_PARAMETER = "beneficiary_name"
SIGNED = frozenset(
    {"quantity", "value", "bundle_id", "email", "external_id", "reference", "redirect_url", "redirect_label"}
    | {NAME_PARAMETER, EXPIRES}
)
_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)

Pairs = Iterable[tuple[str, str]]


class SignedQuery(Struct, frozen=True):
    """A verified query. `text` is repeated in the form, and verified again when the form is sent."""

    text: str
    values: dict[str, list[str]]

    def get(self, name: str) -> str | None:
        return self.values[name][0] if name in self.values else None

    @property
    def has_amount(self) -> bool:
        return "quantity" in self.values or "value" in self.values


def canonical_query(pairs: Pairs) -> str:
    """Each part percent-encoded in UTF-8 except for letters, digits and `-._~`; sorted as bytes; joined with `&`."""
    return "&".join(sorted(f"{name}={quote(value, safe='')}" for name, value in pairs if name in SIGNED))


def sign_query(secret: str, link_id: str, pairs: Pairs) -> str:
    """HMAC-SHA256 in lower-case hex. The key is the whole secret, including its `lsec_` prefix."""
    message = f"{link_id}\n{canonical_query(pairs)}"
    return hmac.new(secret.encode(), message.encode(), hashlib.sha256).hexdigest()


def find_signed_query(pairs: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]] | None:
    """The signed parameters of an address, or of a form that repeats them. None if there is no signature."""
    for name, value in pairs:
        if name == REPEATED and value:
            try:
                return parse_qsl(value, keep_blank_values=True, max_num_fields=200)
            except ValueError as error:
                raise LinkSignatureInvalid from error
    return pairs if any(name == SIGNATURE for name, _ in pairs) else None


def verify_query(pairs: Sequence[tuple[str, str]], link_id: str, secrets: Sequence[str], now: datetime) -> SignedQuery:
    """Raises LinkSignatureInvalid or LinkSignatureExpired."""
    signatures = [value for name, value in pairs if name == SIGNATURE]
    if len(signatures) != 1:
        raise LinkSignatureInvalid
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in SIGNED:
            values.setdefault(name, []).append(value)
    # Compared as bytes: a signature may contain any character.
    matches = [
        hmac.compare_digest(sign_query(secret, link_id, pairs).encode(), signatures[0].encode()) for secret in secrets
    ]
    is_once = all(len(found) == 1 for name, found in values.items() if name != "bundle_id")
    has_nul = any("\x00" in value for found in values.values() for value in found)
    expires = values.get(EXPIRES, [""])[0]
    if not any(matches) or not is_once or has_nul or not _SECONDS.fullmatch(expires):
        raise LinkSignatureInvalid
    if now.timestamp() >= int(expires):
        raise LinkSignatureExpired
    return SignedQuery(f"{canonical_query(pairs)}&{SIGNATURE}={signatures[0]}", values)
