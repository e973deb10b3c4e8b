"""What auditors get: an opening for each entry of the log."""

import json
from pathlib import Path

from tests.supply.transparency.scene import LogScene
from tests.support.command import Operator
from tonne_verify.double_sales import find_double_sales
from tonne_verify.openings import Opening


async def test_there_is_an_opening_for_each_published_entry(scene: LogScene, tmp_path: Path) -> None:
    await scene.certify()
    await scene.publish_all()
    await scene.certify(name="Not published")
    await scene.append_all()
    file = tmp_path / "openings.jsonl"
    published = (await scene.log()).published_size
    operator = Operator(scene.database._url, secret_key=scene.services.settings.secret_key)
    assert operator.does("log", "openings", "live", str(file)) == f"{file}: {published} openings."
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert [line["position"] for line in lines] == list(range(published))
    opened = [Opening.from_json(line) for line in lines]
    for each in opened:
        each.check()
    assert [each.commitment() for each in opened] == (await scene.entries(await scene.log()))[:published]
    assert "Ada Keller" in file.read_text(encoding="utf-8")
    assert "Not published" not in file.read_text(encoding="utf-8")
    index = tmp_path / "retirements.jsonl"
    operator.does("log", "openings", "live", str(index), "--retirements")
    disclosed = index.read_text(encoding="utf-8").splitlines()
    assert disclosed == [line for line in file.read_text(encoding="utf-8").splitlines() if '"retirement"' in line]
    assert disclosed
    assert "Ada Keller" not in "".join(disclosed)
    assert find_double_sales([str(index)]).exit_code == 0
    other = tmp_path / "other.jsonl"
    other.write_text("".join(f"{line}\n" for line in disclosed).replace('"origin":"', '"origin":"other.'))
    found = find_double_sales([str(index), str(other)])
    # Files alone prove nothing: the logs were not compared.
    assert (found.exit_code, len(found.checks)) == (3, len(disclosed))
    registry = json.loads(disclosed[0])["statement"]["facts"]["registry"]
    for named, count in ((registry, len(disclosed)), (registry.upper(), len(disclosed)), ("Somebody", 0)):
        operator.does("log", "openings", "live", str(index), "--registry", named)
        assert len(index.read_text(encoding="utf-8").splitlines()) == count, named
