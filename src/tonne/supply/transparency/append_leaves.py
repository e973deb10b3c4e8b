"""A job: appends what happened to the transparency log, as leaves of its Merkle tree.

A log that cannot be continued is closed; the next generation names its last signed checkpoint.
"""

import re
from collections.abc import Sequence
from typing import ClassVar

import msgspec
import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.session_settings import lift_limits
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Clock, Mode
from tonne.supply.transparency import statement_store, statements
from tonne.supply.transparency.errors import LogHeadInvalid, LogNotPublished
from tonne.supply.transparency.log_store import close_log, find_latest, grow_log, lock_log, open_log
from tonne.supply.transparency.model import MAX_BATCH, Log, origin_of
from tonne.supply.transparency.statement_store import queue_again
from tonne.supply.transparency.tile_store import append_entries, read_last_tiles, write_tiles
from tonne.supply.transparency.tree import grow_tiles
from tonne_verify.errors import NotProven
from tonne_verify.merkle import leaf_hash
from tonne_verify.openings import StatementKind

_log = structlog.get_logger()


class AppendLeaves:
    # A checkpoint covers what happened within a minute.
    EVERY_S: ClassVar[int] = 2

    def __init__(
        self, database: Database, clock: Clock, settings: Settings, read_stated_rows: statements.ReadStatedRows
    ) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._read_stated_rows = read_stated_rows

    async def run_once(self) -> bool:
        """Append one batch per mode, to a log that is opened first. True when there may be more to do."""
        return any([await self._append(mode) for mode in Mode])

    async def _append(self, mode: Mode) -> bool:
        async with self._database.connection() as connection:
            if not await statement_store.has_waiting(connection, mode):
                return False
        async with self._database.transaction() as tx:
            await lift_limits(tx)
            log = await lock_log(tx, mode, skip_locked=True)
            if log is None:  # there is none yet, or another worker appends to it
                return await open_log(tx, mode, 1, origin_of(self._settings.base_url, mode, 1), self._clock())
            return await append_waiting(tx, log, MAX_BATCH, self._read_stated_rows) > 0


async def append_waiting(tx: Connection, log: Log, limit: int, read_stated_rows: statements.ReadStatedRows) -> int:
    """Append waiting statements to a locked log. Returns how many: all of them or none are committed.

    A statement that cannot be composed is logged and left: it does not stop the others.
    """
    waiting = await statement_store.lock_waiting(tx, log.mode, limit)
    composed = _compose_all(waiting, await read_stated_rows(tx, log.mode, waiting))
    if composed:
        await append_to_tree(tx, log, [each.entry for each in composed])
        await statement_store.store_statements(tx, log.id, log.size, composed)
    return len(composed)


async def append_to_tree(tx: Connection, log: Log, entries: Sequence[bytes]) -> None:
    """Append entries to the tree of a locked log."""
    partial = await read_last_tiles(tx, log.id, log.size)
    await write_tiles(tx, log.id, grow_tiles(log.size, [leaf_hash(entry) for entry in entries], partial))
    await append_entries(tx, log.id, log.size, entries)
    await grow_log(tx, log.id, log.size + len(entries))


def _compose_all(
    waiting: Sequence[statements.WaitingStatement], rows: statements.StatedRows
) -> list[statements.ComposedStatement]:
    composed = []
    for each in waiting:
        try:
            composed.append(statements.compose_statement(each, *_stated(each, rows)))
        except (LookupError, TypeError, ValueError, NotProven):
            _log.exception("statement_not_composed", statement_id=each.id, kind=each.kind, subject=each.subject)
    return composed


def _stated(
    waiting: statements.WaitingStatement, rows: statements.StatedRows
) -> tuple[statements.Json, statements.Json | None]:
    """The facts and the names of a statement."""
    if waiting.kind is StatementKind.RETIREMENT:
        return statements.retirement_facts(rows.retirements[waiting.subject], waiting.revision), None
    record, replaced_by = rows.certificates[waiting.subject]
    if waiting.kind is StatementKind.ISSUED:
        return statements.certificate_facts(record), statements.certificate_names(record)
    names = None if waiting.names is None else msgspec.json.decode(waiting.names)
    if waiting.kind is StatementKind.WITHDRAWN:
        return statements.withdrawn_facts(waiting.subject), names
    if replaced_by is None:
        raise LookupError("the certificate is not replaced")
    return statements.replaced_facts(waiting.subject, replaced_by), names


# The length of an entry has 16 bits.
MAX_ENTRY = 65_535
_GENERATION = re.compile(r"/log(?:/test)?/([1-9][0-9]{0,5})", re.ASCII)


async def reopen_log(
    tx: Connection, mode: Mode, head: str | None, *, base_url: str, reason: str, by: By
) -> tuple[Log, Log]:
    """Returns the closed log and the new one, whose entry 0 is `head`, the content of the head file.

    Without a head file, the newest checkpoint in the database is named. Statements that no checkpoint in the database
    covers are queued again for the new log.
    """
    old = await lock_log(tx, mode)
    latest = None if old is None else await find_latest(tx, old.id)
    if head is None and latest is not None:
        head = latest.note
    if old is None or head is None:
        raise LogNotPublished
    if not head.strip() or len(head.encode()) > MAX_ENTRY:
        raise LogHeadInvalid
    await close_log(tx, old.id, reason, by.at)
    generation = max(old.generation, _generation_of(head)) + 1
    origin = origin_of(base_url, mode, generation)
    await open_log(tx, mode, generation, origin, by.at, previous_head=head)
    new = await lock_log(tx, mode)
    if new is None:
        raise LookupError(f"the log {origin} was not opened")
    await append_to_tree(tx, new, [head.encode()])
    count = await queue_again(tx, old.id, old.published_size)
    await audit.record(
        tx,
        None,
        "log.reopened",
        by=by,
        subject_id=old.origin,
        mode=mode,
        before={"origin": old.origin},
        after={"origin": origin},
        reason=reason,
        queued_again=count,
    )
    return old, new


def _generation_of(head: str) -> int:
    """The number of the log that signed it. A restored database may not know that log: its origin is not used again."""
    origin = head.partition("\n")[0]
    found = _GENERATION.fullmatch(origin[max(origin.rfind("/log"), 0) :])
    return 1 if found is None else int(found[1])
