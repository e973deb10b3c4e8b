"""A job: signs and publishes checkpoints of logs that have grown.

Tonne never signs two histories: before it signs, it compares the tree with the last checkpoint that it has signed. This
one is kept in a file outside of the database.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import ClassVar

import structlog

from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.supply.transparency.head_file import HeadFile
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.log_store import claim_grown, count_cosignatures, record_refusal, store_checkpoint
from tonne.supply.transparency.model import Log
from tonne.supply.transparency.tile_store import read_tiles
from tonne.supply.transparency.tree import TreeBroken
from tonne_verify.errors import NotProven
from tonne_verify.notes import Checkpoint, open_note
from tonne_verify.tiles import root_plan

# Between two checkpoints of a log, and after a refusal.
PAUSE = timedelta(seconds=5)
# Longer than publishing takes, which waits for witnesses.
LEASE = timedelta(seconds=60)

# Adds the cosignatures of witnesses to a signed checkpoint of a log.
Cosign = Callable[[int, str], Awaitable[str]]

_log = structlog.get_logger()


class PublishingRefused(Exception):
    """The text says what is wrong, and what to do."""


async def _without_witnesses(_log_id: int, note: str) -> str:
    return note


class PublishCheckpoints:
    # The documentation promises that a checkpoint covers a certificate within a minute.
    EVERY_S: ClassVar[int] = 2

    def __init__(
        self, database: Database, clock: Clock, settings: Settings, keys: LogKeys, cosign: Cosign = _without_witnesses
    ) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._keys = keys
        self._cosign = cosign

    async def run_once(self) -> bool:
        """Publish a checkpoint of one log. True if there was one."""
        now = self._clock()
        log = await self._database.run(claim_grown, now, now + LEASE)
        if log is None:
            return False
        try:
            return await self._publish(log)
        except (PublishingRefused, TreeBroken, OSError) as error:
            await self._refuse(log, str(error))
            return False

    async def _publish(self, log: Log) -> bool:
        head_file = HeadFile(self._settings, log.mode)
        head = await asyncio.to_thread(head_file.read)
        checkpoint = Checkpoint(log.origin, log.size, await self._root(log, log.size))
        note = await self._check_head(log, head, head_file, checkpoint)
        signed = note
        if signed is None:
            signed = f"{checkpoint.text}\n{(await self._keys.note_key(log.origin)).sign(checkpoint.text)}"
            # Kept before anybody else sees the signature: a restored database must not sign another history.
            if not await asyncio.to_thread(head_file.replace, signed, expected=head):
                return False
        note = signed
        if count_cosignatures(signed) == 0:
            # Collect cosignatures: outside of a transaction, and before the checkpoint is stored.
            note = await self._cosign(log.id, signed)
            if note != signed and not await asyncio.to_thread(head_file.replace, note, expected=signed):
                return False
        now = self._clock()
        is_stored = await self._database.commit(
            store_checkpoint, log, checkpoint.root, note, now=now, next_publish_at=now + PAUSE
        )
        if is_stored:
            _log.info("checkpoint_published", origin=log.origin, size=log.size)
        return is_stored

    async def _check_head(self, log: Log, head: str | None, head_file: HeadFile, checkpoint: Checkpoint) -> str | None:
        """Raises PublishingRefused if the tree does not continue the head.

        Returns the head if it is the checkpoint of this tree already: a worker stopped before it was stored.
        """
        if head is None:
            if log.published_size:
                raise PublishingRefused(
                    f"There is no file {head_file.path} with the last signed checkpoint, so it is not certain that the "
                    "database has all that was published. Restore the file, or set TONNE_LOG_HEAD_FOLDER to the folder "
                    "that has it. If the database was never restored, save the newest checkpoint that this service "
                    "serves as this file."
                )
            return None
        if head == log.previous_head:
            return None
        known = await self._open(head, head_file, log)
        if known.origin != log.origin:
            raise PublishingRefused(
                f"The last signed checkpoint in {head_file.path} is of the log {known.origin}, not of {log.origin}. "
                f"{_remedy(log)}"
            )
        if known.size > log.size or await self._root(log, known.size) != known.root:
            raise PublishingRefused(
                f"The log {log.origin} has {log.size} entries, which do not continue the {known.size} entries of the "
                f"last signed checkpoint in {head_file.path}: the database was restored to an earlier state, or lost "
                f"transactions in a failover. {_remedy(log)}"
            )
        return head if known == checkpoint else None

    async def _open(self, head: str, head_file: HeadFile, log: Log) -> Checkpoint:
        try:
            origin = head.partition("\n")[0]
            return Checkpoint.parse(open_note(head, await self._keys.verifier_keys(origin)).text)
        except NotProven as error:
            raise PublishingRefused(
                f"{head_file.path} is not a checkpoint that this service has signed ({error}). {_remedy(log)}"
            ) from error

    async def _root(self, log: Log, size: int) -> bytes:
        plan = root_plan(size)
        return plan.compute(await self._database.run(read_tiles, log.id, plan.tiles))

    async def _refuse(self, log: Log, refusal: str) -> None:
        now = self._clock()
        is_new = await self._database.run(record_refusal, log, refusal, now=now, next_publish_at=now + PAUSE)
        if is_new:
            _log.error("log_publishing_refused", origin=log.origin, size=log.size, refusal=refusal)


def _remedy(log: Log) -> str:
    return (
        "Restore the newer state of the database. If it is lost, start a new log that names this one: "
        f"`tonne log reopen {log.mode} --reason TEXT`."
    )
