"""Commands of the operator, killed where they wait for a lock of ours."""

import asyncio
from collections.abc import Sequence

from chaos.cluster import Cluster
from chaos.life.kills import IDLE
from chaos.model import NotAsExpected
from tests.support.processes import Process

COMMAND_WITHIN_S = 30.0
LOCK_AUDIT = "LOCK TABLE audit_log IN SHARE MODE"
RECORD = "INSERT INTO audit_log"


def start_command(cluster: Cluster, *words: str) -> Process:
    command = Process("tonne", *words, settings=cluster.settings, log=cluster.folder / "commands.log")
    cluster.supports.append(command)
    return command


async def until_success(*commands: Process) -> None:
    for command in commands:
        code = await asyncio.to_thread(command.wait, COMMAND_WITHIN_S)
        if code != 0:
            raise NotAsExpected(f"a command ended with {code}: {command.log.read_text()[-300:]}")


async def kill_command(
    cluster: Cluster, words: Sequence[str], written: str, *, lock: str = LOCK_AUDIT, statement: str = RECORD
) -> None:
    """Kill a command where it waits in `statement`. `written` is a query whose result must not have changed."""
    before = await cluster.fetch(written)
    async with cluster.holding(lock):
        command = start_command(cluster, *words)
        await cluster.until_waiting_in(statement)
        command.kill()
    await cluster.until_true("the killed command's transaction has ended", IDLE)
    left = await cluster.fetch(written) != before
    cluster.require(not left, f"`tonne {' '.join(words[:2])}` was killed and left something")
