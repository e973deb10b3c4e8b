"""Conditions of the transparency log that must always hold. `check_tree.py` recomputes the tree itself."""

import hashlib
from typing import Any, NamedTuple

import msgspec
from asyncpg import Record

from tonne.platform.db.invariant import Invariant, RowInvariant, RowScan
from tonne.platform.db.json_compression import decompress_json
from tonne.supply.transparency.statements import retirement_facts

Json = dict[str, Any]
# What a statement leaves out of a record.
# The date of supply follows from the days of the lines.
_LEFT_OUT = {"beneficiary", "logo", "name_erased_on", "supplied_on"}
# An entry has its length before it.
_ENTRY_HEAD = b"\x00\x20"


class _Logged(NamedTuple):
    """A statement of the log, byte for byte and parsed, and the record of the certificate that it is about."""

    statement: bytes
    stated: Json
    record: Json


def _parse(row: Record) -> _Logged:
    try:
        statement = decompress_json(row["statement"])
        record = b"{}" if row["record"] is None else decompress_json(row["record"])
        return _Logged(statement, msgspec.json.decode(statement), msgspec.json.decode(record))
    except (ValueError, msgspec.MsgspecError):
        return _Logged(b"", {}, {})


# Only entry 0 of a later generation, the head of the one before, is longer than the others. A correction that is not
# logged yet has a statement of its own.
_LOGGED = RowScan(
    """
    SELECT logged.kind, logged.subject, logged.revision, logged.log_id, logged.position, logged.salt, logged.statement,
           logged.names, logged.names_salt, coalesce(corrected.revision, 1) = logged.revision AS is_last,
           substr(bundle.entries, 1 + 34 * (logged.position % 256)::integer + CASE
                      WHEN log.generation > 1 AND bundle.number = 0
                      THEN get_byte(bundle.entries, 0) * 256 + get_byte(bundle.entries, 1) - 32
                      ELSE 0 END, 34) AS entry,
           certificate.account_id, certificate.order_id, certificate.record, certificate.replaced_by,
           parcel.id AS parcel_id, parcel.start_grams, parcel.quantity_grams, parcel.retired_on, parcel.retirement_url,
           lot.vintage, lot.serial, lot.unit_grams, project.registry, project.registry_project_id
    FROM log_statements logged
    LEFT JOIN log_entries bundle ON bundle.log_id = logged.log_id AND bundle.number = logged.position / 256
    LEFT JOIN logs log ON log.id = logged.log_id
    LEFT JOIN (SELECT mode, subject, max(revision) AS revision FROM log_statements
               WHERE kind = 'retirement' AND revision > 1 GROUP BY mode, subject) AS corrected
           ON corrected.mode = logged.mode AND corrected.subject = logged.subject
    LEFT JOIN certificates certificate ON certificate.number = logged.subject
    LEFT JOIN parcels parcel ON parcel.mode = logged.mode AND parcel.id = logged.subject
    LEFT JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
    LEFT JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
    WHERE logged.log_id IS NOT NULL AND ($1::timestamptz IS NULL OR logged.recorded_at >= $1)
    """,
    _parse,
)


def _is_another_entry(row: Record, logged: _Logged) -> str | None:
    if row["entry"] == _ENTRY_HEAD + hashlib.sha256(row["salt"] + logged.statement).digest():
        return None
    return f"log {row['log_id']}, position {row['position']}: {row['kind']} {row['subject']}"


def _states_other_facts(row: Record, logged: _Logged) -> str | None:
    facts = logged.stated.get("facts", {})
    match row["kind"]:
        case "retirement":
            if row["parcel_id"] is None or not row["is_last"]:
                return None
            # The catalogue may name the project in serials in another way since.
            alias = {"serial_project": facts.get("serial_project")}
            known = None if row["retired_on"] is None else retirement_facts({**row, **alias}, row["revision"])
            return None if facts == known else f"retirement {row['subject']}"
        case "certificate.issued":
            known = _facts_of(logged.record)
        case "certificate.replaced":
            known = {"number": row["subject"], "replaced_by": row["replaced_by"]}
        case _:
            known = {"number": row["subject"]}
    if row["order_id"] is None or _without_nulls(facts) == known:
        return None
    return f"certificate {row['subject']}, {row['kind']}"


def _facts_of(record: Json) -> Json:
    """Without personal values, as `statements.py` chooses them. Null and missing are the same."""
    facts: Json = _without_nulls({name: value for name, value in record.items() if name not in _LEFT_OUT})
    facts.get("replaces", {}).pop("reason", None)
    for line in facts.get("lines", ()):
        line.pop("registry_name", None)
        line.get("in_advance", {}).pop("assigned_to", None)
    return facts


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def _has_other_names(row: Record, logged: _Logged) -> str | None:
    if row["names"] is None:
        return None
    salt, names = row["names_salt"], row["names"].encode()
    hashed = None if salt is None else hashlib.sha256(salt + names).hexdigest()
    return None if hashed == logged.stated.get("names") else f"{row['kind']} {row['subject']}"


def _keeps_erased_name(row: Record, logged: _Logged) -> str | None:
    if row["kind"] != "certificate.issued" or row["names"] is None or row["order_id"] is None:
        return None
    named = msgspec.json.decode(row["names"]).get("beneficiary")
    return None if named == logged.record.get("beneficiary") else f"certificate {row['subject']}"


INVARIANTS = (
    Invariant(
        "every retirement and certificate event has a statement for the log, and no statement has no event",
        "Something happened that the log does not show, or the log shows something that did not happen.",
        """
        SELECT format('%s of %s %s: %s', coalesce(event.kind, logged.kind), coalesce(event.mode, logged.mode),
                      coalesce(event.subject, logged.subject),
                      CASE WHEN logged.kind IS NULL THEN 'has no statement' ELSE 'did not happen' END) AS "where"
        FROM (SELECT mode, 'retirement' AS kind, id AS subject FROM parcels WHERE status = 'retired'
              UNION ALL
              SELECT mode, 'certificate.issued', number FROM certificates
              UNION ALL
              SELECT mode, 'certificate.' || state, number FROM certificates WHERE state <> 'valid') AS event
        FULL JOIN (SELECT mode, kind, subject FROM log_statements WHERE revision = 1) AS logged
               ON logged.mode = event.mode AND logged.kind = event.kind AND logged.subject = event.subject
        LEFT JOIN certificates replaced
               ON replaced.number = logged.subject AND logged.kind = 'certificate.withdrawn'
              AND replaced.state = 'replaced'
        WHERE event.kind IS NULL AND replaced.number IS NULL OR logged.kind IS NULL
        """,
        is_slow=True,
    ),
    Invariant(
        "positions of the log have no gap",
        "An entry of the log has no statement, or its tree has another size than its statements say.",
        """
        SELECT format('log %s: %s entries, %s statements from %s to %s', coalesce(log.origin, found.log_id::text),
                      log.size, coalesce(found.statements, 0), found.first, found.last) AS "where"
        FROM logs log
        FULL JOIN (SELECT log_id, count(*) AS statements, min(position) AS first, max(position) AS last
                   FROM log_statements WHERE log_id IS NOT NULL GROUP BY log_id) AS found ON found.log_id = log.id
        -- The first entry of a later generation is the head of the one before.
        CROSS JOIN LATERAL (SELECT CASE WHEN log.generation > 1 THEN 1 ELSE 0 END AS start) AS own
        WHERE log.id IS NULL OR coalesce(found.statements, 0) <> log.size - own.start
           OR found.statements > 0 AND (found.first, found.last) <> (own.start, log.size - 1)
        """,
    ),
    RowInvariant(
        "entries of the log are the hashes of their statements",
        "A statement was changed after it was logged, or an entry was. Certificates of it can no longer be proven.",
        _LOGGED,
        _is_another_entry,
    ),
    RowInvariant(
        "statements of the log match the certificates and retirements",
        "The log states other facts about a certificate or a retirement than the database has now.",
        _LOGGED,
        _states_other_facts,
    ),
    RowInvariant(
        "names in the log are those that their statements were made with",
        "A name was changed after the statement was logged: the certificate can no longer be proven to be in it.",
        _LOGGED,
        _has_other_names,
    ),
    RowInvariant(
        "names in the log are those of the certificates",
        "The log keeps the name of a person who was erased.",
        _LOGGED,
        _keeps_erased_name,
    ),
    Invariant(
        "checkpoints state the log, the size and the root that are stored with them",
        "A published checkpoint was changed, or the size that counts as published has no checkpoint.",
        r"""
        SELECT format('log %s, checkpoint of size %s', log.origin, checkpoint.size) AS "where"
        FROM log_checkpoints checkpoint JOIN logs log ON log.id = checkpoint.log_id
        WHERE NOT starts_with(checkpoint.note, concat_ws(E'\n', log.origin, checkpoint.size,
                                                         encode(checkpoint.root, 'base64'), E'\n'))
           OR checkpoint.size > log.published_size
        UNION ALL
        SELECT format('log %s, published size %s', log.origin, log.published_size) FROM logs log
        WHERE log.published_size > 0 AND NOT EXISTS (
            SELECT FROM log_checkpoints checkpoint
            WHERE checkpoint.log_id = log.id AND checkpoint.size = log.published_size)
        """,
    ),
)
