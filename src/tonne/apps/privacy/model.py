"""A person whose data is exported or erased, what is held about them, and why an erasure may be refused.

Addresses and names are removed from texts and JSON that clients wrote.
"""

import hashlib
import hmac
import json
import re
import string
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import overload
from urllib.parse import quote

from msgspec import Struct

from tonne.platform.documents.mail.person_store import PersonMail
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.values.context import Mode, Scope
from tonne.platform.values.erased import ERASED
from tonne.platform.values.errors import Kind, TonneError
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.organisations.change_organisation import check_name
from tonne.selling.accounts.person_store import AddressUse

# As many reasons as a message names.
_NAMED = 10


class PersonInvalid(TonneError, kind=Kind.INVALID, code="person_invalid"):
    """A person is exported or erased by neither or both of `email` and `name`, or by an invalid one.

    Send one of them.
    """

    message = "Give the e-mail address of the person, or else the name on the certificate."


class PersonsNotAllowed(TonneError, kind=Kind.FORBIDDEN, code="persons_not_allowed"):
    """The data of a person is exported or erased with an API key that may not do that.

    Use a live key that was created with `tonne key create --allow persons`.
    """

    message = (
        "This API key may not export or erase the data of persons. Ask the seller for a live key with this right "
        "(`tonne key create --allow persons`)."
    )


class PersonInUse(TonneError, kind=Kind.CONFLICT, code="person_in_use"):
    """A person is erased while an order, refund, checkout or mail still needs the address or the name, or while an
    organisation uses the address.

    Wait until what the message names is finished, then repeat the request.
    """

    message = "The person cannot be erased yet."

    def __init__(self, reasons: Sequence[str]) -> None:
        more = f" And {len(reasons) - _NAMED} more." if len(reasons) > _NAMED else ""
        super().__init__(f"The person cannot be erased yet. {' '.join(reasons[:_NAMED])}{more}")
        self.reasons = reasons


class ErasureListInvalid(TonneError, kind=Kind.INVALID, code="erasure_list_invalid"):
    """On the command line: the file given to `tonne person repeat` is no list of erasures.

    Give what `tonne person list --json` printed.
    """

    message = "The file is not a list of erasures. Give what `tonne person list --json` printed."


# PostgreSQL changes only these letters if the collation of the database is C.
_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


class FoundBy(StrEnum):
    EMAIL = "email"
    NAME = "name"


class Person(Struct, frozen=True):
    """Known by an e-mail address, or by a private name. Upper and lower case do not matter."""

    found_by: FoundBy
    value: str

    @property
    def terms(self) -> list[str]:
        """In lower case: the value, and how it may be written in JSON and in URLs."""
        spellings = (self.value.lower(), self.value.translate(_ASCII_LOWER))
        written = [(text, json.dumps(text)[1:-1], quote(text, safe="").lower()) for text in spellings]
        return list(dict.fromkeys(term for each in written for term in each))

    def is_called(self, text: str | None) -> bool:
        return text is not None and text.strip().lower() == self.value.lower()

    def hash(self, salt: bytes) -> bytes:
        return hmac.digest(salt, f"{self.found_by}:{self.value.lower()}".encode(), hashlib.sha256)


def parse_person(text: str) -> Person:
    """An e-mail address, or else a name. Raises PersonInvalid."""
    value = text.strip()
    if "@" in value:
        if not is_mail_address(value):
            raise PersonInvalid("This is not an e-mail address. Give one such as ada@example.com, or a name.")
        return Person(FoundBy.EMAIL, value)
    try:
        name = check_name(value)
    except NameInvalid as error:
        raise PersonInvalid from error
    if name.lower() == ERASED:
        raise PersonInvalid(f"“{ERASED}” replaces data that was erased. Give the name of a person.")
    return Person(FoundBy.NAME, name)


class Search(Struct, frozen=True):
    """Where a person is looked for. None: in all organisations, in both modes."""

    person: Person
    organisation_id: str | None = None
    mode: Mode | None = None


class Item(Struct, frozen=True):
    """An order, checkout or estimate of an account.

    `is_own` is false if the person is only mentioned, for example in the metadata of another person's order.
    """

    scope: Scope
    id: str
    is_own: bool = True


class Found(Struct, frozen=True):
    """What contains the data of a person.

    `checkouts` are those without an order. `uses` and `mentions` are not erased: the operator ends a use, and the
    audit log never changes.
    """

    orders: list[Item]
    checkouts: list[Item]
    estimates: list[Item]
    mails: list[PersonMail]
    uses: list[AddressUse]
    # Ids of entries in the audit log.
    mentions: list[str]

    @property
    def is_empty(self) -> bool:
        return not (self.orders or self.checkouts or self.estimates or self.mails)


class Counts(Struct):
    """How many of each kind were changed."""

    orders: int = 0
    events: int = 0
    certificates: int = 0
    checkouts: int = 0
    estimates: int = 0
    mails: int = 0
    refunds: int = 0
    webhook_answers: int = 0


class Erasure(Struct, frozen=True):
    """The record of an erasure, without the data itself."""

    id: str
    organisation_id: str | None
    mode: Mode | None
    found_by: FoundBy
    salt: bytes
    person_hash: bytes
    started_at: datetime
    started_by: str
    finished_at: datetime | None
    counts: dict[str, int]


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')


class Redaction(Struct, frozen=True):
    """`pattern` matches the data, also inside of a longer text. It does not match a part of another word or address."""

    pattern: re.Pattern[str]

    @overload
    def text(self, text: str) -> str: ...

    @overload
    def text(self, text: None) -> None: ...

    def text(self, text: str | None) -> str | None:
        return None if text is None else self.pattern.sub(ERASED, text)

    def json(self, document: str) -> str:
        """JSON with the data removed from all strings. The rest keeps its bytes."""
        return _STRING.sub(self._string, document)

    @overload
    def key(self, key: str, id_: str) -> str: ...

    @overload
    def key(self, key: None, id_: str) -> None: ...

    def key(self, key: str | None, id_: str) -> str | None:
        """An idempotency key. One that contains the data is replaced as a whole, so that it stays unique."""
        return key if key is None or not self.pattern.search(key) else f"{ERASED} {id_}"

    def changes(self, *texts: str | None) -> bool:
        """Whether one of these texts or JSON documents contains the data."""
        return any(text and (self.pattern.search(text) or self.json(text) != text) for text in texts)

    def _string(self, found: re.Match[str]) -> str:
        text = json.loads(found[0])
        redacted = self.pattern.sub(ERASED, text)
        return found[0] if redacted == text else json.dumps(redacted, ensure_ascii=False)


def redaction_of(values: Iterable[str]) -> Redaction:
    spellings = {spelling for value in values for spelling in (value, quote(value, safe=""), quote(value))}
    # The longest first: a name may be the beginning of another one.
    parts = [_part(spelling) for spelling in sorted(spellings, key=len, reverse=True)]
    return Redaction(re.compile("|".join(parts) or r"(?!)", re.IGNORECASE))


def _part(value: str) -> str:
    if "@" in value or "%40" in value:
        return rf"(?<![\w.+-]){re.escape(value)}(?![\w-]|\.\w)"
    return rf"(?<!\w){re.escape(value)}(?!\w)"
