"""What the entries of the log state, composed from the rows of certificates and retirements. No I/O.

A statement has no personal values and no free texts: these are its names, of which it has only a salted hash. They can
be erased while the facts stay provable.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Mode, to_wire
from tonne.platform.values.serials import serial_range
from tonne_verify.canonical import canonical_json
from tonne_verify.openings import SALT_SIZE, STATEMENT_FORMAT, StatementKind

# The facts of a certificate, of its lines, and of what a line has further. New fields of a record are left out until
# they are listed here: they may be personal.
_CERTIFICATE = (
    *("number", "mode", "order_id", "issued_at", "issuer", "total_quantity", "verification_url", "language"),
)
_LINE = (
    *("registry", "project_id", "project_name", "country", "project_type", "methodology", "vintage"),
    *("serial_range", "quantity", "retired_on", "retirement_url"),
)
_SHARED = ("unit_quantity", "share")
_IN_ADVANCE = ("retired_by", "assigned_on")
_REPLACES = ("number",)

Json = dict[str, Any]


class WaitingStatement(Struct, frozen=True):
    """A row of `log_statements` without a position. `names` is JSON, if it was recorded with the event."""

    id: int
    mode: Mode
    kind: StatementKind
    subject: str
    revision: int
    at: datetime
    names: str | None


class StatedRows(NamedTuple):
    """What statements are about: retired parcels by id; records of certificates, and what replaces them, by number."""

    retirements: Mapping[str, Mapping[str, Any]]
    certificates: Mapping[str, tuple[Json, str | None]]


# `certificates` and `stock` own the rows. `read_stated_rows` is handed over, because those packages come later.
ReadStatedRows = Callable[[Connection, Mode, Sequence[WaitingStatement]], Awaitable[StatedRows]]


class ComposedStatement(Struct, frozen=True):
    """`statement` is canonical JSON. `entry` is what the log contains: a salted hash of it."""

    id: int
    statement: bytes
    salt: bytes
    names: str | None
    names_salt: bytes | None

    @property
    def entry(self) -> bytes:
        return hashlib.sha256(self.salt + self.statement).digest()


def compose_statement(waiting: WaitingStatement, facts: Json, names: Json | None) -> ComposedStatement:
    """With new salts. `names` is None if there are none, or if they were erased before the statement was logged."""
    stated, names_text, names_salt = None, None, None
    if names is not None:
        names_salt = secrets.token_bytes(SALT_SIZE)
        canonical = canonical_json(names)
        stated = hashlib.sha256(names_salt + canonical).hexdigest()
        names_text = canonical.decode()
    statement = {
        "format": STATEMENT_FORMAT,
        "kind": waiting.kind,
        "mode": waiting.mode,
        "subject": waiting.subject,
        "at": to_wire(waiting.at),
        "facts": facts,
        "names": stated,
    }
    return ComposedStatement(
        waiting.id, canonical_json(statement), secrets.token_bytes(SALT_SIZE), names_text, names_salt
    )


def certificate_facts(record: Mapping[str, Any]) -> Json:
    """`record` is the JSON record of a certificate, as it was issued."""
    return {
        **_chosen(record, _CERTIFICATE),
        "lines": [
            {
                **_chosen(line, _LINE),
                "shared": _part(line.get("shared"), _SHARED),
                "in_advance": _part(line.get("in_advance"), _IN_ADVANCE),
                **({"facts": line["facts"]} if line.get("facts") else {}),
            }
            for line in record["lines"]
        ],
        "replaces": _part(record.get("replaces"), _REPLACES),
    }


def certificate_names(record: Mapping[str, Any]) -> Json:
    """The beneficiary, why an earlier certificate was replaced, and the names of each line, in their order."""
    return {
        "beneficiary": record["beneficiary"],
        "reason": (record.get("replaces") or {}).get("reason"),
        "lines": [
            {
                "registry_name": line.get("registry_name"),
                "assigned_to": (line.get("in_advance") or {}).get("assigned_to"),
            }
            for line in record["lines"]
        ],
    }


def retirement_facts(row: Mapping[str, Any], revision: int) -> Json:
    """`revision` is stated for a correction only: the facts replace those of an earlier statement."""
    return {
        "registry": row["registry"],
        "project_id": row["registry_project_id"],
        "vintage": str(row["vintage"]),
        "serial_range": serial_range(
            row["registry"], row["serial"], row["unit_grams"], row["start_grams"], row["quantity_grams"]
        ),
        "quantity": format_tonnes(row["quantity_grams"]),
        "retired_on": row["retired_on"].isoformat(),
        "retirement_url": row["retirement_url"],
        # How the serials name the project: otherwise a reader would take them for those of another one.
        **({"serial_project": row["serial_project"]} if row["serial_project"] else {}),
        **({"revision": revision} if revision > 1 else {}),
    }


def replaced_facts(number: str, replaced_by: str) -> Json:
    return {"number": number, "replaced_by": replaced_by}


def withdrawn_facts(number: str) -> Json:
    return {"number": number}


def _chosen(value: Mapping[str, Any], names: tuple[str, ...]) -> Json:
    return {name: value.get(name) for name in names}


def _part(value: Mapping[str, Any] | None, names: tuple[str, ...]) -> Json | None:
    return None if value is None else _chosen(value, names)
