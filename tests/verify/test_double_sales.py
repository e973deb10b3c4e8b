"""Several sellers disclose their retirements: units that two of them have retired are found."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.verify import dishonest_seller as seller
from tests.verify.dishonest_seller import SERIAL, Retirement
from tests.verify.file_server import serve
from tonne_verify.cli import main
from tonne_verify.double_sales import find_double_sales

SPELLINGS = (SERIAL, SERIAL.lower(), SERIAL.replace("-", "\u2013"), f" {SERIAL}")


def line(host: str, position: int, subject: str, retired: Retirement, mode: str = "live") -> dict[str, Any]:
    opening = seller.statement("retirement", subject, "2024-05-04T10:00:00Z", mode, retired.stated)
    return {"origin": f"{host}/log", "position": position, **opening}


def write(path: Path, lines: list[dict[str, Any]]) -> str:
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return str(path)


def ranges(numbers: random.Random, count: int) -> Iterator[tuple[int, int]]:
    """Disjoint, of different lengths."""
    first = 1
    for _ in range(count):
        last = first + numbers.randrange(20)
        yield first, last
        first = last + 1 + numbers.randrange(3)


def test_every_planted_double_sale_is_found_and_nothing_else(tmp_path: Path) -> None:
    """100 runs: logs of five sellers, and in one of them units of another."""
    for seed in range(100):
        numbers = random.Random(seed)  # noqa: S311 - the same runs each time
        sold = [Retirement(a, b, str(b - a + 1)) for a, b in ranges(numbers, 20)]
        logs: list[list[dict[str, Any]]] = [[] for _ in range(5)]
        for index, each in enumerate(sold):
            log = logs[index % 5]
            log.append(line(f"seller{index % 5}.example", len(log), f"par_{index}", each))
        files = [write(tmp_path / f"{index}.jsonl", log) for index, log in enumerate(logs)]
        assert find_double_sales(files).exit_code == 0, seed
        victim = numbers.choice(sold)
        unit = numbers.randint(victim.first, victim.last)
        planted = Retirement(
            unit, unit, "1", serial=numbers.choice(SPELLINGS), registry=numbers.choice(("verra", "VCS"))
        )
        thief = numbers.randrange(5)
        logs[thief].insert(numbers.randrange(5), line(f"seller{thief}.example", 99, "par_x", planted))
        write(tmp_path / f"{thief}.jsonl", logs[thief])
        report = find_double_sales(numbers.sample(files, 5))
        assert report.exit_code == 1, seed
        (check,) = report.checks
        assert f"-{unit}-{unit}-" in check.sentence
        assert f"retirement par_x (entry 99 of seller{thief}.example/log)" in check.sentence


def test_what_is_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    host, other = "one.example", "two.example"
    sold = line(host, 0, "par_1", Retirement(1, 10, "10"))
    # A correction counts instead of what it corrects; a reopened log has the entry again; a test retires nothing.
    corrected = line(host, 1, "par_1", Retirement(11, 20, "10", revision=2))
    again = {**corrected, "origin": f"{host}/log/2", "position": 5}
    test = line(other, 0, "par_2", Retirement(11, 20, "10"), mode="test")
    unknown = line(other, 1, "par_3", Retirement(1, 2, "2", serial="a few", registry="small"))
    free = line(other, 2, "par_4", Retirement(1, 10, "10"))
    one = write(tmp_path / "one", [corrected, sold, again])
    two = write(tmp_path / "two", [test, unknown, free])
    assert main(["monitor", one, two]) == 0
    shown = capsys.readouterr().out
    assert "1 serials are not in a form that this program knows" in shown
    assert "What a seller does not disclose is not compared." in shown
    assert main(["monitor", one, one]) == 0
    # The same seller twice, under two retirements.
    write(tmp_path / "two", [line(host, 7, "par_5", Retirement(15, 15, "1"))])
    capsys.readouterr()
    assert main(["monitor", one, two, "--json"]) == 1
    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert check["sentence"].startswith(
        "9731-11-20-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0 of retirement par_1 (entry 5"
    )
    # From an address; what is no opening is not skipped.
    with serve({"/retirements.jsonl": Path(one).read_bytes()}) as url:
        assert main(["monitor", two, f"http://{url}/retirements.jsonl"]) == 1
        assert main(["monitor", two, f"http://{url}/missing"]) == 2
    capsys.readouterr()
    for content in ("{}", "x", json.dumps({**sold, "position": None})):
        Path(two).write_text(content)
        assert main(["monitor", one, two]) == 2
        assert "two, line 1: " in capsys.readouterr().out
