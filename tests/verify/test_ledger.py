"""Certificates counted against each other: in packs and folders, and in all entries of a log."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.verify import dishonest_seller as seller
from tests.verify.dishonest_seller import Certificate, Retirement
from tests.verify.lies import HONEST, OTHER, changed
from tests.verify.test_monitor import Website, website
from tonne_verify.cli import main
from tonne_verify.issuer import Issuer
from tonne_verify.monitor import AuditOptions, audit
from tonne_verify.openings import Opening
from tonne_verify.policy import Policy
from tonne_verify.report import Report
from tonne_verify.verify_file import Trust, verify

__all__ = ["website"]
THIRD = changed(
    OTHER,
    number="JJJJ",
    beneficiary="Zebra Inc",
    total="0.5",
    retirements=(Retirement(21, 21, "1", "0.5", parcel="3"),),
)

LOGS = seller.Logs()


def write(folder: Path, *made: Certificate) -> None:
    folder.mkdir()
    for each in made:
        (folder / f"{each.number}.json").write_text(json.dumps(seller.credential(each, LOGS)))
    (folder / "serial-numbers.csv").write_text("not read")


def test_folders_and_packs_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, pack = tmp_path / "certificates", tmp_path / "pack.zip"
    write(folder, HONEST, OTHER, THIRD)
    with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in folder.iterdir():
            archive.write(each, f"certificates/{each.name}")
    (tmp_path / "issuer.json").write_text(json.dumps(seller.issuer_file()))
    (tmp_path / "policy").write_text(seller.policy())
    trust = ["--issuer", str(tmp_path / "issuer.json"), "--policy", str(tmp_path / "policy")]
    # Also the same certificates twice: they count once.
    for files in ([folder], [pack], [folder, pack]):
        assert main([*map(str, files), *trust]) == 0
        shown = capsys.readouterr().out
        assert "Acme Ltd: 4 t CO2e, certificates: 2." in shown
        assert "Zebra Inc: 0.5 t CO2e, certificates: 1." in shown
        assert "Certificates: 3. Together they do not count a tonne twice." in shown
    twice = changed(THIRD, number="KKKK", total="0.6", retirements=(Retirement(21, 21, "1", "0.6", parcel="3"),))
    write(tmp_path / "more", twice)
    assert main([str(pack), str(tmp_path / "more"), *trust, "--json"]) == 1
    together = json.loads(capsys.readouterr().out)[-1]
    assert together["file"] == "All files together"
    (conflict,) = together["checks"]
    assert (
        f"claimed by JJJJ ({pack}/certificates/JJJJ.json) and KKKK ({tmp_path}/more/KKKK.json)" in conflict["sentence"]
    )
    for name, content in (("empty.zip", b"PK\5\6" + bytes(18)), ("broken.json", b"PK\5\6" + bytes(18))):
        (tmp_path / name).write_bytes(content)
        assert main([str(tmp_path / name), *trust]) == 2


def test_the_conflicts_of_a_whole_log_are_named(website: Website, tmp_path: Path) -> None:
    file = tmp_path / "openings.jsonl"

    def run(*openings: dict[str, Any]) -> Report:
        website.publish([seller.entry(each) for each in openings])
        website.state.unlink(missing_ok=True)
        origin = f"{website.host}/log"
        file.write_text(
            "".join(f"{json.dumps({'origin': origin, 'position': i, **each})}\n" for i, each in enumerate(openings))
        )
        return audit(website.url, AuditOptions(website.state, website.trusted(), openings=file))

    def conflicts(*made: Certificate) -> list[str]:
        report = run(*(opening for each in made for opening in seller.openings_of(each)))
        found = [each.sentence for each in report.checks if each.name == "count of live"]
        assert report.exit_code == (0 if found[0].endswith("No tonne is counted twice.") else 1)
        return found

    assert conflicts(HONEST, OTHER, THIRD) == ["Certificates: 3, retirements: 3. No tonne is counted twice."]
    log = f"{website.host}/log"
    (claimed,) = conflicts(HONEST, changed(OTHER, retirements=HONEST.retirements))
    assert claimed.endswith(
        f"are claimed by {HONEST.number} (entry 0 of {log}) and {OTHER.number} (entry 2 of {log}), but 2 t were"
        " retired: a tonne is counted twice."
    )
    both = changed(OTHER, retirements=(Retirement(18, 20, "3", "2", parcel="par_2"),))
    (overlap,) = conflicts(HONEST, THIRD, both)
    assert f"of retirement par_1 (entry 1 of {log})" in overlap
    assert f"of par_2 (entry 5 of {log}), stated by {HONEST.number} and {OTHER.number}, overlap" in overlap
    # Two conflicts, both named: a number with two statements, and a long range that meets one further on.
    long = changed(
        THIRD, number=HONEST.number, total="100", retirements=(Retirement(1, 100, "100", "100", parcel="9"),)
    )
    assert len(conflicts(HONEST, long, OTHER)) == 3
    (renamed,) = conflicts(HONEST, changed(HONEST, beneficiary="Zebra Inc"))
    assert renamed == (
        f"Certificate {HONEST.number} has two names: 'Acme Ltd' in entry 0 of {log}, 'Zebra Inc' in entry 2 of {log}."
    )
    (again,) = conflicts(HONEST, changed(HONEST, names_kept=False))
    assert f"{HONEST.number} is issued by two entries of {log}: in entry 0 of {log} and in entry 2 of" in again
    # A retirement that is corrected before a certificate states it is no conflict.
    wrong = Retirement(1, 2, parcel="par_1")
    corrected = changed(HONEST, retirements=(Retirement(revision=2),))
    early = seller.statement("retirement", "par_1", HONEST.issued_at, "live", wrong.stated)
    assert run(early, *seller.openings_of(corrected)).exit_code == 0
    late = seller.statement("retirement", "par_1", HONEST.issued_at, "live", Retirement(3, 4, revision=2).stated)
    report = run(*seller.openings_of(HONEST), late)
    assert report.checks[-1].sentence == (
        f"Retirement par_1 was revised in entry 2 of {log}, but as it was before, it is stated by"
        f" {HONEST.number} (entry 0 of {log})."
    )
    lonely, _ = seller.openings_of(HONEST)
    assert "There is no retirement of 9731-17-18" in run(lonely).checks[-1].sentence
    withdrawn = changed(HONEST, later=(("certificate.withdrawn", {"number": HONEST.number}, HONEST.issued_at),))
    assert conflicts(withdrawn, changed(OTHER, retirements=HONEST.retirements))[0].startswith("Certificates: 1")


def test_an_opening_of_the_dishonest_seller_is_well_formed() -> None:
    for each in seller.openings_of(HONEST):
        opening = Opening.from_json(each)
        opening.check()
        assert opening.commitment() == seller.entry(each)


def test_a_list_says_that_withdrawals_were_not_checked() -> None:
    (document,) = seller.tell([seller.Listed((HONEST,))])
    issuer = Issuer.parse(json.dumps(seller.issuer_file()))
    policy = Policy.parse(seller.policy().encode(), "policy")
    for online, code in ((False, 0), (True, 2)):
        report = verify("openings.json", json.dumps(document).encode(), Trust(issuer, policy, online=online))
        assert report.exit_code == code
        assert [each.verdict for each in report.checks if each.name == "status"] == ["not checked"]
    withdrawn = (("certificate.withdrawn", {"number": HONEST.number}, "2024-06-01T00:00:00Z"),)
    (document,) = seller.tell([seller.Listed((changed(HONEST, later=withdrawn),))])
    report = verify("openings.json", json.dumps(document).encode(), Trust(issuer, policy))
    assert report.exit_code == 1
    assert "was replaced or withdrawn at 2024-06-01T00:00:00Z" in report.checks[0].sentence
