"""Metrics of several processes in one folder: counters never go down, whichever process is asked."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.samples import parse_samples, total
from tonne.platform.process.telemetry.metrics import Metrics, MetricsFolder, read_folder
from tonne.platform.process.telemetry.metrics_text import render

REQUESTS = "tonne_http_requests_total"


class Member:
    """A process that answers requests and scrapes."""

    def __init__(self, folder: Path, process: str = "api") -> None:
        self.metrics = Metrics(process)
        self.folder = MetricsFolder(folder, self.metrics)

    def answer(self, count: int = 1) -> None:
        for _ in range(count):
            self.metrics.observe("GET", "/", 200, 0.01)

    async def scrape(self) -> float:
        return total(parse_samples(render(await self.folder.read_all()).decode()), REQUESTS)

    def crash(self) -> None:
        """End without writing the last values."""
        self.folder._lock_file.close()


Start = Callable[..., Member]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Member] = []

    def start(process: str = "api") -> Member:
        started.append(Member(tmp_path, process))
        return started[-1]

    yield start
    for member in started:
        member.crash()


def _slots(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.slot"))


async def test_operations_12_every_process_reports_the_sum(start: Start) -> None:
    members = [start() for _ in range(3)]
    for count, member in enumerate(members, start=1):
        member.answer(count)
        await member.folder.write()
    assert [await member.scrape() for member in members] == [6, 6, 6]


async def test_operations_12_no_counter_goes_down_whichever_process_answers(start: Start, tmp_path: Path) -> None:
    generator = random.Random(12)  # noqa: S311 - a test that can be repeated
    members = [start() for _ in range(3)]
    before = 0.0
    for _ in range(200):
        generator.choice(members).answer()
        if generator.random() < 0.1:
            place = generator.randrange(len(members))
            members[place].crash()
            members[place] = start()
        now = await generator.choice(members).scrape()
        assert now >= before
        before = now
    assert len(_slots(tmp_path)) <= 4, "slots are used again"


async def test_a_new_process_continues_the_counters_of_the_ended_one(start: Start, tmp_path: Path) -> None:
    first = start()
    first.answer(5)
    first.metrics.in_flight = 3
    await first.folder.close()
    ended = parse_samples(render(read_folder(tmp_path)).decode())
    assert total(ended, REQUESTS) == 5
    assert total(ended, "tonne_http_requests_in_flight") == 0
    assert total(ended, "tonne_processes") == 0
    second = start()
    second.answer()
    assert await second.scrape() == 6
    assert _slots(tmp_path) == ["api-0.slot"]


async def test_api_and_worker_have_series_of_their_own(start: Start, tmp_path: Path) -> None:
    for process in ("api", "api", "worker"):
        await start(process).folder.write()
    samples = parse_samples(render(read_folder(tmp_path)).decode())
    assert total(samples, "tonne_processes", process="api") == 2
    assert total(samples, "tonne_processes", process="worker") == 1


async def test_a_damaged_file_is_left_out(start: Start, tmp_path: Path) -> None:
    (tmp_path / "api-7.slot").write_bytes(b"\x93damaged")
    member = start()
    member.answer()
    assert await member.scrape() == 1
