"""Several sellers disclose their retirements: units that two of them have retired are found."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.verify import dishonest_seller
from tests.verify.dishonest_seller import SERIAL, Retirement
from tests.verify.file_server import serve
from tests.verify.seller import Seller
from tests.verify.test_monitor import Website
from tonne_verify.cli import main
from tonne_verify.double_sales import find_double_sales

SPELLINGS = (SERIAL, SERIAL.lower(), SERIAL.replace("-", "\u2013"), f" {SERIAL}")


def line(host: str, position: int, subject: str, retired: Retirement, mode: str = "live") -> dict[str, Any]:
    opening = dishonest_seller.statement("retirement", subject, "2024-05-04T10:00:00Z", mode, retired.stated)
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
        # Nobody is accused by files alone: the logs were not compared.
        assert report.exit_code == 3, seed
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
    assert main(["monitor", one, two, "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    (check,) = [each for each in report["checks"] if each["name"] == "count"]
    assert check["sentence"].startswith(
        "9731-11-20-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0 of retirement par_1 (entry 5"
    )
    assert f"{host}/log was not compared: give the address of its seller" in check["sentence"]
    # The correction to other units is not hidden, in whatever order.
    assert report["facts"][-1] == "Retirements that were revised to other units: 1."
    (revised,) = [each["sentence"] for each in report["checks"] if each["name"] == "revised"]
    assert "9731-1-10-" in revised.partition(" was ")[2]
    write(tmp_path / "other order", [again, sold, corrected])
    main(["monitor", str(tmp_path / "other order"), "--json"])
    assert "Retirements that were revised to other units: 1." in capsys.readouterr().out
    # From an address; what is no opening is not skipped.
    with serve({"/retirements.jsonl": Path(one).read_bytes()}) as url:
        assert main(["monitor", two, f"http://{url}/retirements.jsonl"]) == 3
        assert main(["monitor", two, f"http://{url}/missing"]) == 2
    capsys.readouterr()
    for content in ("{}", "x", json.dumps({**sold, "position": None})):
        Path(two).write_text(content)
        assert main(["monitor", one, two]) == 2
        assert "two, line 1: " in capsys.readouterr().out


class Site:
    """A seller whose log and disclosures are served."""

    def __init__(self, host: str, files: dict[str, bytes], seller: Seller) -> None:
        self.website = Website(seller, host, files, Path())
        self.host = host

    def disclose(self, *retired: Retirement, lines: list[dict[str, Any]] | None = None) -> None:
        """Logs the retirements. `lines` are disclosed instead of them."""
        own = [line(self.host, index, f"par_{index}", each) for index, each in enumerate(retired)]
        self.website.publish([dishonest_seller.entry(each) for each in own])
        log = {**self.website.logs[0], "retirements": f"{self.website.url}/log/retirements.jsonl"}
        issuer = json.dumps(self.website.seller.issuer_json(logs=[log])).encode()
        self.website.files["/.well-known/tonne-issuer.json"] = issuer
        for page in (0, 1):
            part = (own if lines is None else lines)[page * 2 : page * 2 + 2]
            content = "".join(f"{json.dumps(each)}\n" for each in part).encode()
            self.website.files[f"/log/retirements.jsonl?page={page}"] = content


def test_only_what_is_in_the_log_of_a_seller_accuses_it(
    seller: Seller, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_files: dict[str, bytes] = {}
    second_files: dict[str, bytes] = {}

    def run(*sources: str) -> tuple[int, str]:
        capsys.readouterr()
        return main(["monitor", *sources]), capsys.readouterr().out

    with serve(first_files) as host, serve(second_files) as other:
        one, two = Site(host, first_files, seller), Site(other, second_files, seller)
        one.disclose(*(Retirement(10 * i + 1, 10 * i + 10, "10") for i in range(4)))
        two.disclose(Retirement(101, 110, "10"))
        both = (one.website.url, f"{two.website.url}/log")
        assert run(*both)[0] == 0
        # On the second page of one.
        two.disclose(Retirement(35, 36, "2"))
        code, shown = run(*both)
        assert code == 1
        assert f"retirement par_3 (entry 3 of {host}/log)" in shown
        assert f"retirement par_0 (entry 0 of {other}/log) overlap" in shown
        # A forged line is the fault of who discloses it, and accuses nobody.
        forged = line(other, 0, "par_0", Retirement(1, 2, "2"))
        two.disclose(Retirement(101, 110, "10"), lines=[forged])
        code, shown = run(*both)
        assert code == 1
        assert f"is not entry 0 of {other}/log: it was made up." in shown
        assert "not proven     count" in shown
        # Nobody speaks for the log of somebody else: neither in lines, nor in an issuer file, nor in a file.
        false = line(host, 3, "par_3", Retirement(101, 101, "1"))
        two.disclose(Retirement(101, 110, "10"), lines=[false])
        assert "names a log of somebody else" in run(*both)[1]
        two.disclose(Retirement(101, 110, "10"))
        code, shown = run(
            *both, write(tmp_path / "forged", [{**false, "statement": {**false["statement"], "subject": "x"}}])
        )
        assert f"is not entry 3 of {host}/log: it was made up." in shown
        log = {**one.website.logs[0], "url": f"{two.website.url}/log", "retirements": None}
        second_files["/.well-known/tonne-issuer.json"] = json.dumps(seller.issuer_json(logs=[log])).encode()
        assert run(*both)[0] == 2
        # Nothing is disclosed.
        two.website.publish([b"entry"])
        code, shown = run(*both)
        assert (code, f"{both[1]} discloses no retirements" in shown) == (0, True)
