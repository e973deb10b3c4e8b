"""The entries of the audit log as people read them: who, what, and which values changed; also as CSV."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.events.audit.store import StoredEntry
from tonne.platform.values.context import Actor, ActorKind, Mode, same_named, to_wire
from tonne.selling.users.names import find_operators
from tonne_verify.formulas import escape_formula

MAX_VALUE = 200
_OPERATOR = "Operator"
_EMPTY: tuple[Any, ...] = (None, "", [], {})


class AuditChange(msgspec.Struct, frozen=True):
    """`before` is None for a new value, `after` for a deleted one."""

    name: str
    before: str | None
    after: str | None


class AuditRow(msgspec.Struct, frozen=True):
    id: str
    at: datetime
    actor: str
    # The id behind the actor's name, if there is one.
    actor_id: str
    address: str | None
    action: str
    subject_id: str
    organisation_id: str | None
    mode: Mode | None
    changes: Sequence[AuditChange]


class ActorNames(msgspec.Struct, frozen=True):
    """Names of users and keys by id. `operators` are the users who run the service."""

    users: Mapping[str, str]
    keys: Mapping[str, str]
    operators: frozenset[str]


FIND_ACTOR_USERS = "SELECT id, name FROM users WHERE id = ANY ($1::text[])"


async def find_actor_users(connection: Connection, user_ids: Sequence[str]) -> dict[str, str]:
    return {row["id"]: row["name"] for row in await connection.fetch(FIND_ACTOR_USERS, user_ids)}


FIND_ACTOR_KEYS = """
SELECT id, name, last_four FROM api_keys WHERE id = ANY ($1::text[]) AND ($2::text IS NULL OR organisation_id = $2)
"""


async def find_actor_keys(
    connection: Connection, organisation_id: str | None, key_ids: Sequence[str]
) -> dict[str, str]:
    """None: of all organisations, for the operator."""
    rows = await connection.fetch(FIND_ACTOR_KEYS, key_ids, organisation_id)
    return {row["id"]: f"{row['name']} (…{row['last_four']})" for row in rows}


async def find_actor_names(
    connection: Connection, organisation_id: str | None, entries: Sequence[StoredEntry]
) -> ActorNames:
    """None: of all organisations, for the operator."""
    ids: dict[ActorKind, set[str]] = {}
    for entry in entries:
        ids.setdefault(entry.actor.kind, set()).add(entry.actor.name)
    users = await find_actor_users(connection, sorted(ids.get(ActorKind.USER, ())))
    keys = await find_actor_keys(connection, organisation_id, sorted(ids.get(ActorKind.KEY, ())))
    return ActorNames(users, keys, await find_operators(connection, [entry.actor for entry in entries]))


def audit_rows(entries: Iterable[StoredEntry], names: ActorNames, *, for_operator: bool) -> list[AuditRow]:
    """Organisations see neither the names nor the addresses of the people who run the service."""
    return [_row(entry, names, for_operator=for_operator) for entry in entries]


def _row(entry: StoredEntry, names: ActorNames, *, for_operator: bool) -> AuditRow:
    actor = entry.actor
    hides = not for_operator and _runs_service(actor, names)
    return same_named(
        AuditRow,
        entry,
        at=entry.created_at,
        actor=_OPERATOR if hides else _actor_text(actor, names),
        actor_id="" if hides or actor.kind in {ActorKind.CLI, ActorKind.SYSTEM} else actor.name,
        address=None if hides else actor.address,
        changes=changes_of(entry),
    )


def _runs_service(actor: Actor, names: ActorNames) -> bool:
    return actor.kind is ActorKind.CLI or (actor.kind is ActorKind.USER and actor.name in names.operators)


def _actor_text(actor: Actor, names: ActorNames) -> str:
    match actor.kind:
        case ActorKind.CLI:
            return actor.name
        case ActorKind.KEY:
            return names.keys.get(actor.name, "API key")
        case ActorKind.USER:
            return names.users.get(actor.name, "Former user")
        case ActorKind.PAYER:
            return "Customer at checkout"
        case ActorKind.SYSTEM:
            return f"Job {actor.name}"


def changes_of(entry: StoredEntry) -> list[AuditChange]:
    """Empty values of a new or deleted object are left out."""
    before, after = entry.before or {}, entry.after or {}
    names = {**before, **after}
    if entry.before is None or entry.after is None:
        names = {name: value for name, value in names.items() if value not in _EMPTY}
    changes = [AuditChange(name, _text(before, name), _text(after, name)) for name in names]
    details = {name: value for name, value in entry.details.items() if value not in _EMPTY}
    return changes + [AuditChange(name, None, _text(details, name)) for name in details]


def shown_urls(values: dict[str, Any] | None, shown_url: Callable[[str], str]) -> dict[str, Any] | None:
    if values is None:
        return None
    return {
        name: shown_url(value) if isinstance(value, str) and value.startswith(("https://", "http://")) else value
        for name, value in values.items()
    }


def _text(values: Mapping[str, Any], name: str) -> str | None:
    if name not in values:
        return None
    value = values[name]
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 1] + "…"


# Entries in one file, the newest.
MAX_EXPORTED = 5_000
CSV_HEAD = (
    *("time", "actor", "actor_id", "address", "action", "subject_id", "organisation_id", "mode"),
    *("before", "after", "details", "id"),
)


def csv_rows(rows: Sequence[AuditRow], entries: Iterable[StoredEntry]) -> Iterator[Sequence[str]]:
    """`rows` and `entries` are the same, in the same order: a row hides what its reader may not see."""
    for row, entry in zip(rows, entries, strict=True):
        cells = (
            *(to_wire(row.at), row.actor, row.actor_id, row.address, row.action, row.subject_id),
            *(row.organisation_id, row.mode, *map(_json, (entry.before, entry.after, entry.details)), row.id),
        )
        yield [escape_formula(cell or "") for cell in cells]


def _json(values: dict[str, Any] | None) -> str:
    return json.dumps(values, ensure_ascii=False) if values else ""
