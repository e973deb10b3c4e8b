"""Work in another process."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.platform.process.offloaded import kill_this_process, write_and_wait
from tonne.platform.process.offload import OffloadFailed, offload


async def test_a_killed_process_is_an_error_and_a_cancelled_one_is_killed(tmp_path: Path) -> None:
    async def ignore(*_: object) -> None:
        pass

    with pytest.raises(OffloadFailed, match="kill_this_process"):
        await offload(ignore, kill_this_process)
    file = tmp_path / "pid"
    task = asyncio.create_task(offload(ignore, write_and_wait, file))
    async with asyncio.timeout(60):
        while not (file.exists() and file.read_text()):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(ProcessLookupError):
        os.kill(int(file.read_text()), 0)
