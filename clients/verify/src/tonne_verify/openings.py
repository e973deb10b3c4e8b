"""Openings: what an entry of the log states.

The entry itself is a salted hash, which shows nothing. The names of people are hashed with a salt of their own, so
that they can be erased while the other facts stay provable.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from tonne_verify.canonical import canonical_json
from tonne_verify.errors import NotProven

STATEMENT_FORMAT = "tonne-statement/1"
SALT_SIZE = 32
# In the place of the name of a person whose data was erased.
ERASED = "erased"
STATEMENT_KEYS = {"format", "kind", "mode", "subject", "at", "facts", "names"}


class StatementKind(StrEnum):
    RETIREMENT = "retirement"
    ISSUED = "certificate.issued"
    REPLACED = "certificate.replaced"
    WITHDRAWN = "certificate.withdrawn"


@dataclass(frozen=True, slots=True)
class Opening:
    statement: Mapping[str, Any]
    salt: bytes
    names: Mapping[str, Any] | None = None
    names_salt: bytes | None = None

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Other keys, such as `proof` and `type`, are ignored."""
        if not isinstance(value, dict) or not isinstance(value.get("statement"), dict):
            raise NotProven("The entry has no statement.")
        names, names_salt = value.get("names"), value.get("names_salt")
        if not isinstance(names, dict | None):
            raise NotProven("The names of the entry are not an object.")
        return cls(
            value["statement"], _salt(value.get("salt")), names, None if names_salt is None else _salt(names_salt)
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "statement": dict(self.statement),
            "salt": self.salt.hex(),
            "names": None if self.names is None else dict(self.names),
            "names_salt": None if self.names_salt is None else self.names_salt.hex(),
        }

    def commitment(self) -> bytes:
        """The entry of the log."""
        return commit(self.salt, self.statement)

    @property
    def names_erased(self) -> bool:
        return self.names is None and self.statement.get("names") is not None

    def check(self) -> None:
        """Raises NotProven unless the statement is well-formed, and names, if there are any, are those it states."""
        if self.statement.get("format") != STATEMENT_FORMAT or set(self.statement) != STATEMENT_KEYS:
            raise NotProven(f"The statement is not of the format {STATEMENT_FORMAT}. A newer verifier may know it.")
        if self.statement["kind"] not in set(StatementKind):
            raise NotProven(f"The statement is of an unknown kind, {self.statement['kind']!r}.")
        if not isinstance(self.statement["facts"], dict):
            raise NotProven("The statement has no facts.")
        if self.names is None:
            return
        stated = self.statement["names"]
        if self.names_salt is None or not isinstance(stated, str):
            raise NotProven("The names do not belong to the statement: it states none, or their salt is missing.")
        if names_hash(self.names, self.names_salt) != stated:
            raise NotProven("The names are not those that the statement was made with.")


def commit(salt: bytes, statement: Mapping[str, Any]) -> bytes:
    return hashlib.sha256(salt + canonical_json(dict(statement))).digest()


def names_hash(names: Mapping[str, Any], names_salt: bytes) -> str:
    """The value of `names` in a statement."""
    return hashlib.sha256(names_salt + canonical_json(dict(names))).hexdigest()


def _salt(value: Any) -> bytes:
    if not isinstance(value, str) or not re.fullmatch(r"[0-9a-f]{64}", value):
        raise NotProven("A salt is missing, or is not 64 hexadecimal digits.")
    return bytes.fromhex(value)
