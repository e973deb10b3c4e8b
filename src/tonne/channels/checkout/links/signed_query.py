"""Signed queries of offset links: the client vouches for their parameters with the link's secret, which is made here.

The message is the id of the link, a newline, and the parameters in canonical form. docs/offset-links.md has a test
vector and sample code.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from urllib.parse import quote

import structlog
from msgspec import Struct

from tonne.channels.checkout.errors import LinkSignatureExpired, LinkSignatureInvalid
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.paying.buyers import FIELDS as BUYER_PARAMETERS
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.http.query import read_pairs
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.values.context import By

SIGNATURE, EXPIRES = "signature", "expires"
# The field of our form that repeats a signed query.
REPEATED = "signed_query"
# Parameters with an effect. Others, such as those that a newsletter tool adds, are ignored.
NAME_PARAMETER = "beneficiary_name"
SIGNED = frozenset(
    {"quantity", "value", "bundle_id", "email", "external_id", "reference", "redirect_url", "redirect_label"}
    | {NAME_PARAMETER, EXPIRES, *BUYER_PARAMETERS}
)
# In all values together: the longest address of a redirect, and room for texts.
MAX_SIGNED = 16_384
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
                return read_pairs(value.encode())
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
    # Encoding takes time for each byte and secret.
    if sum(len(value) for found in values.values() for value in found) > MAX_SIGNED:
        raise LinkSignatureInvalid
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


ROTATE = """
UPDATE offset_links
SET secret_box = $5, old_secret_box = CASE WHEN $6::timestamptz IS NOT NULL THEN secret_box END,
    old_secret_until = $6::timestamptz
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4
"""


async def replace_secret(tx: Connection, link: OffsetLink, sealed: bytes, old_until: datetime | None) -> None:
    """The old secret stays valid until `old_until`."""
    scope = link.scope
    await tx.execute(ROTATE, scope.organisation_id, scope.mode, scope.account_id, link.id, sealed, old_until)


FIND_SECRETS = """
SELECT secret_box, CASE WHEN old_secret_until > $5 THEN old_secret_box END AS old
FROM offset_links WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND id = $4
"""


async def find_secrets(connection: Connection, link: OffsetLink, now: datetime) -> list[bytes]:
    """The sealed secrets that are valid, the current one first."""
    scope = link.scope
    row = await connection.fetchrow(FIND_SECRETS, scope.organisation_id, scope.mode, scope.account_id, link.id, now)
    return [] if row is None else [sealed for sealed in row if sealed is not None]


_log = structlog.get_logger()


def new_link_secret() -> str:
    """`lsec_` and 43 URL-safe characters, which are 256 random bits."""
    return f"lsec_{secrets.token_urlsafe(32)}"


async def rotate_link_secret(tx: Connection, link: OffsetLink, box: SecretBox, *, overlap_s: int, by: By) -> str:
    """The new secret. For `overlap_s`, queries that are signed with the old one stay valid."""
    secret = new_link_secret()
    until = None if overlap_s == 0 else by.at + timedelta(seconds=overlap_s)
    await replace_secret(tx, link, box.seal(secret, link.id), until)
    action = "offset_link.secret_rotated"
    await audit.record(tx, link.scope, action, by=by, subject_id=link.id, overlap_s=overlap_s)
    return secret


async def open_link_secrets(connection: Connection, link: OffsetLink, box: SecretBox, now: datetime) -> list[str]:
    """The secrets that are valid now: two while a rotation overlaps.

    Raises SecretUnreadable if the current one cannot be opened.
    """
    found = await find_secrets(connection, link, now)
    opened = [box.open(sealed, link.id) for sealed in found[:1]]
    for sealed in found[1:]:
        try:
            opened.append(box.open(sealed, link.id))
        except SecretUnreadable as error:
            # After the loss of a key, rotating the secret must be enough.
            _log.warning("old_link_secret_unreadable", link_id=link.id, reason=str(error))
    return opened
