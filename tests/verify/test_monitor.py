"""The monitor against logs over HTTP: honest ones, and every way to cheat."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.verify.file_server import serve
from tests.verify.seller import Seller, make_opening, retirement_facts
from tests.verify.test_merkle import make_tiles, naive_root
from tonne_verify import log_reader
from tonne_verify.cli import main
from tonne_verify.merkle import leaf_hash
from tonne_verify.monitor import AuditOptions, audit
from tonne_verify.notes import Checkpoint, NoteKey, split_note
from tonne_verify.report import Report
from tonne_verify.tiles import TILE_WIDTH, entries_path, join_entries, tile_path


def some_entries(count: int, start: int = 0) -> list[bytes]:
    return [leaf_hash(b"%d" % i) for i in range(start, start + count)]


@dataclass
class Website:
    """The logs of a seller as files."""

    seller: Seller
    host: str
    files: dict[str, bytes]
    state: Path
    logs: list[dict[str, object]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def publish(self, entries: Sequence[bytes], path: str = "/log", key: NoteKey | None = None) -> str:
        """Serves these entries, and a checkpoint of them. Returns the checkpoint."""
        origin = f"{self.host}{path}"
        key = key or NoteKey(origin, self.seller.credential_key)
        log: dict[str, object] = {
            "mode": "live",
            "origin": origin,
            "url": f"{self.url}{path}",
            "keys": [key.vkey],
            "witnesses": [],
        }
        self.logs = [*(each for each in self.logs if each["origin"] != origin), log]
        self.files["/.well-known/tonne-issuer.json"] = json.dumps(self.seller.issuer_json(logs=self.logs)).encode()
        for name in [each for each in self.files if each.startswith(f"{path}/tile/")]:
            del self.files[name]
        self.serve_tiles(entries, path)
        text = Checkpoint(origin, len(entries), naive_root([leaf_hash(each) for each in entries])).text
        note = f"{text}\n{key.sign(text)}"
        self.files[f"{path}/checkpoint"] = note.encode()
        return note

    def serve_tiles(self, entries: Sequence[bytes], path: str = "/log") -> None:
        for tile, content in make_tiles([leaf_hash(each) for each in entries]).items():
            self.files[f"{path}/{tile_path(tile)}"] = content
        self.serve_entries(entries, path)

    def serve_entries(self, entries: Sequence[bytes], path: str = "/log") -> None:
        for index, first in enumerate(range(0, len(entries), TILE_WIDTH)):
            part = entries[first : first + TILE_WIDTH]
            self.files[f"{path}/{entries_path(index, len(part))}"] = join_entries(part)

    def audit(self, *, whole: bool = False, issuer: Path | None = None) -> Report:
        return audit(self.url, AuditOptions(self.state, issuer or self.trusted(), whole=whole))

    def trusted(self) -> Path | None:
        """The first audit is given the keys, as somebody who trusts the website would."""
        issuer = self.state.with_name("trusted.json")
        issuer.write_bytes(self.files["/.well-known/tonne-issuer.json"])
        return None if self.state.exists() else issuer

    def failure(self, *, whole: bool = False) -> str:
        """The audit fails, and says why. The state keeps what was seen before."""
        seen = json.loads(self.state.read_text())["logs"]
        report = self.audit(whole=whole)
        assert report.exit_code == 1, report.lines()
        after = json.loads(self.state.read_text())
        assert {key: each["checkpoint"] for key, each in after["logs"].items() if key in seen} == {
            key: each["checkpoint"] for key, each in seen.items()
        }
        assert after["alarms"]
        return " ".join(each.sentence for each in report.checks if each.verdict == "does not hold")


@pytest.fixture
def website(seller: Seller, tmp_path: Path) -> Iterator[Website]:
    files: dict[str, bytes] = {}
    with serve(files) as host:
        yield Website(seller, host, files, tmp_path / "state.json")


def test_a_log_that_grows_holds(website: Website) -> None:
    entries = some_entries(900)
    for size in (3, 3, 256, 257, 700, 900):
        website.publish(entries[:size])
        report = website.audit()
        assert report.exit_code == 0, report.lines()
        assert report.checks[0].sentence.startswith(f"{size} entries, ")
    assert website.audit(whole=True).exit_code == 0
    assert json.loads(website.state.read_text())["alarms"] == []


def test_partial_tiles_may_be_gone(website: Website) -> None:
    """A log may remove them when the full ones exist. Its checkpoint may still be an older one."""
    entries = some_entries(256)
    note = website.publish(entries[:200])
    website.publish(entries)
    website.files["/log/checkpoint"] = note.encode()
    assert website.audit().exit_code == 0


def _rewritten(entries: list[bytes]) -> list[bytes]:
    return [*entries[:100], b"x" * 32, *entries[101:]]


def test_altered_histories_are_reported(website: Website) -> None:
    entries = some_entries(400)
    website.publish(entries[:300])
    website.audit()
    for name, other in (
        ("rewritten", _rewritten(entries)),
        ("reordered", [*entries[:10], entries[11], entries[10], *entries[12:]]),
        ("dropped", [*entries[:10], *entries[11:]]),
    ):
        website.publish(other)
        for whole in (False, True):
            assert "rewritten, reordered or removed" in website.failure(whole=whole), name
    website.publish(_rewritten(entries)[:300])
    assert "FORK: it has signed two different trees of 300 entries" in website.failure()
    website.publish(entries[:299])
    assert "older checkpoint with 299 entries" in website.failure()
    # The honest log is followed again, but the forks are reported every time.
    website.publish(entries)
    for _ in range(2):
        report = website.audit()
        assert report.exit_code == 1
        assert report.checks[0].verdict == "holds"
        assert [each.sentence.split(":")[0] for each in report.checks[1:]] == ["FORK"] * 4
    alarms = json.loads(website.state.read_text())["alarms"]
    assert len(alarms) == 5
    assert all("\n\n— " in each["checkpoint"] for each in alarms)


def test_entries_must_be_those_of_the_tree(website: Website) -> None:
    """The tiles are those of the signed tree, but the entries are not."""
    entries = some_entries(300)
    website.publish(entries[:10])
    website.audit()
    website.publish(entries)
    website.serve_entries(_rewritten(entries))
    assert website.failure().endswith("The first wrong one is entry 100.")
    website.serve_entries(entries[:299])
    website.files["/log/tile/entries/001.p/44"] = join_entries(entries[256:299])
    assert "has 43 entries" in website.failure()


def test_a_checkpoint_of_another_key_is_refused(website: Website, seller: Seller, tmp_path: Path) -> None:
    entries = some_entries(20)
    website.publish(entries[:10])
    website.audit()
    forged = website.publish(entries).replace("\n20\n", "\n19\n")
    website.files["/log/checkpoint"] = forged.encode()
    assert "is wrong" in website.failure()
    # The website shows another key. It counts only if the user has asked the seller.
    website.publish(entries, key=NoteKey(f"{website.host}/log", Seller(seller.document_key).credential_key))
    assert "signed with a new key" in website.failure()
    issuer = tmp_path / "issuer.json"
    issuer.write_bytes(website.files["/.well-known/tonne-issuer.json"])
    assert website.audit(issuer=issuer).exit_code == 0
    assert website.audit().exit_code == 0


def test_a_log_that_is_missing(website: Website, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_reader, "PAUSES_S", ())
    website.publish(some_entries(5))
    website.audit()
    del website.files["/log/checkpoint"]
    assert website.audit().exit_code == 2
    website.logs = []
    website.publish(some_entries(5), "/other")
    assert "no longer lists this log" in website.failure()


def test_a_reopened_log_names_the_old_head(website: Website) -> None:
    entries = some_entries(30)
    note = website.publish(entries[:20])
    website.audit()
    # The database was restored: the old log shows less than before.
    website.publish(entries[:15])
    website.publish([note.encode(), *entries[15:]], "/log/2")
    assert "/log/2 continues it from the checkpoint with 20 entries" in website.failure()
    again = website.audit()
    assert again.exit_code == 0, again.lines()
    assert {each.verdict for each in again.checks} == {"holds", "not checked"}


def test_a_reopened_log_that_leaves_entries_out(website: Website) -> None:
    entries = some_entries(30)
    early = website.publish(entries[:10])
    website.publish(entries[:20])
    website.audit()
    website.publish([early.encode(), *entries[10:]], "/log/2")
    assert "Some of them are left out" in website.failure()
    assert "Some of them are left out" in website.failure()


def test_openings_explain_every_entry(website: Website, tmp_path: Path) -> None:
    serial = "9731-{0}1-{0}2-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0"
    facts = [retirement_facts(serial_range=serial.format(i)) for i in range(1, 7)]
    openings = [make_opening("retirement", f"par_{i}", each) for i, each in enumerate(facts)]
    entries, file = [each.commitment() for each in openings], tmp_path / "openings.jsonl"
    website.publish(entries)

    def run(lines: list[dict[str, Any]]) -> str:
        file.write_text("".join(json.dumps(each) + "\n" for each in lines))
        report = audit(website.url, AuditOptions(website.state, website.trusted(), openings=file))
        (explained,) = [each for each in report.checks if each.name == f"openings of {origin}"]
        counted = [each.sentence for each in report.checks if each.name == "count of live"]
        assert all(each.endswith("No tonne is counted twice.") for each in counted)
        assert report.exit_code == {"holds": 0, "not proven": 3}.get(explained.verdict, 1)
        return f"{explained.verdict}: {explained.sentence}"

    origin = f"{website.host}/log"
    lines = [{"origin": origin, "position": i, **each.to_json()} for i, each in enumerate(openings)]
    assert run(lines) == "holds: The file explains all entries up to 5: 6 retirement."
    # What is left out at the end may be newer than the file, or hidden.
    for count in (4, 0):
        left_out = f"not proven: The file does not explain the last {6 - count} of 6 entries: get a new file."
        assert run(lines[:count]) == left_out
    assert "does not explain 2 entries. The first one is entry 2" in run([*lines[:2], *lines[4:]])
    assert "Entry 1 states something else" in run([lines[0], {**lines[2], "position": 1}])
    assert "opens entry 9" in run([{**lines[0], "position": 9}])
    file.write_text("{}\n")
    assert "line 1: The entry has no statement" in str(
        audit(website.url, AuditOptions(website.state, openings=file)).unreadable
    )


def test_the_command(website: Website, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    website.publish(some_entries(5))
    first = ["audit", f"{website.url}/log", "--state", str(website.state)]
    assert main([*first, "--issuer", str(website.trusted())]) == 0
    assert "5 entries, all read" in capsys.readouterr().out
    assert main(["audit", f"{website.url}/log", "--state", str(website.state), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["holds"] is True
    for words, reason in (
        ([website.url, "--state", str(website.state)], f"belongs to {website.url}/log"),
        ([f"{website.url}/else", "--state", str(tmp_path / "new")], "lists no log at"),
        (["http://offsets.example.com", "--state", str(tmp_path / "new")], "starts with https"),
        ([f"{website.url}/log", "--state", str(tmp_path)], "cannot be read"),
    ):
        assert main(["audit", *words]) == 2
        assert reason in capsys.readouterr().out
    website.state.write_text('{"format": "tonne-audit/1", "logs": 1}')
    assert main(["audit", f"{website.url}/log", "--state", str(website.state)]) == 2
    assert "is damaged" in capsys.readouterr().out


def test_keys_are_not_trusted_because_the_website_shows_them(
    website: Website, capsys: pytest.CaptureFixture[str]
) -> None:
    website.publish(some_entries(5))
    run = ["audit", f"{website.url}/log", "--state", str(website.state)]
    assert main(run) == 3
    shown = capsys.readouterr().out
    assert "You have not trusted its key" in shown
    assert json.loads(website.state.read_text())["logs"] == {}
    (command,) = re.findall("`tonne-verify (trust add log [^`]+)`", shown)
    assert main(command.split()) == 0
    assert "Trusted as a log from now on" in capsys.readouterr().out
    assert main(run) == 0


def test_a_policy_may_demand_witnesses_of_the_audited_log(website: Website, tmp_path: Path) -> None:
    note = website.publish(some_entries(5))
    policy, witness = tmp_path / "policy", website.seller.witness
    policy.write_text(f"witness w {witness.vkey}\nquorum w\n")
    options = AuditOptions(website.state, website.trusted(), policy=policy)
    assert audit(website.url, options).exit_code == 3
    website.files["/log/checkpoint"] = f"{note}{witness.cosign(split_note(note)[0], 1_790_000_000)}".encode()
    report = audit(website.url, options)
    assert report.exit_code == 0
    assert report.checks[0].sentence.endswith("Cosigned by witness.example/w.")
