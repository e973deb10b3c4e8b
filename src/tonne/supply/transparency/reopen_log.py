"""Close a log that cannot be continued, and open the next generation, which names the last signed checkpoint."""

import re
from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, Mode
from tonne.supply.transparency.append_leaves import append_to_tree
from tonne.supply.transparency.checkpoint_store import find_latest
from tonne.supply.transparency.errors import LogHeadInvalid, LogNotPublished
from tonne.supply.transparency.log_store import close_log, lock_log, open_log
from tonne.supply.transparency.model import Log, origin_of
from tonne.supply.transparency.statement_store import queue_again

# The length of an entry has 16 bits.
MAX_ENTRY = 65_535
_GENERATION = re.compile(r"/log(?:/test)?/([1-9][0-9]{0,5})", re.ASCII)


async def reopen_log(
    tx: Connection, mode: Mode, head: str | None, *, base_url: str, reason: str, actor: Actor, now: datetime
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
    await close_log(tx, old.id, reason, now)
    generation = max(old.generation, _generation_of(head)) + 1
    origin = origin_of(base_url, mode, generation)
    await open_log(tx, mode, generation, origin, now, previous_head=head)
    new = await lock_log(tx, mode)
    if new is None:
        raise LookupError(f"the log {origin} was not opened")
    await append_to_tree(tx, new, [head.encode()])
    count = await queue_again(tx, old.id, old.published_size)
    await audit.record(
        tx,
        None,
        "log.reopened",
        actor=actor,
        at=now,
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
