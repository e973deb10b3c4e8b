"""Each attack of a dishonest seller is refused with its own message; the honest files of the same situation exit 0."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ROOT
from tests.verify.lies import lies
from tonne_verify.cli import main

PROGRAM = [Path(__file__).with_name(name) for name in ("dishonest_seller.py", "dishonest_pdf.py", "lies.py")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("lies")
    subprocess.run([sys.executable, "-m", "tests.verify.lies", found], cwd=ROOT, check=True)
    return found


def test_he_shares_no_code_with_the_verifier() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in PROGRAM]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {each.name for node in nodes if isinstance(node, ast.Import) for each in node.names}
    own = {name for name in names if name.startswith(("tonne", "tests", "pymerkle"))}
    assert own == {"tests.verify.dishonest_seller", "tests.verify.dishonest_pdf"}


def verify(folder: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[dict[str, Any]]]:
    files = sorted(str(each) for each in (folder / name / kind).iterdir())
    trust = ["--issuer", str(folder / name / "issuer.json"), "--policy", str(folder / "policy")]
    capsys.readouterr()
    code = main([*files, *trust, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", sorted(lies()))
def test_an_attack_is_refused_and_its_honest_twin_is_proven(
    folder: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = json.loads((folder / "lies.json").read_text())[name]
    code, reports = verify(folder, name, "lie", capsys)
    shown = json.dumps(reports, indent=2)
    assert code == expected["code"], shown
    checks = [each for report in reports for each in report["checks"]]
    told = [each["sentence"] for each in checks if each["verdict"] not in {"holds", "not checked"}]
    assert any(expected["sentence"] in each for each in told), shown
    code, reports = verify(folder, name, "twin", capsys)
    assert code == 0, json.dumps(reports, indent=2)


def test_the_auditor_says_how_late_is_too_late(folder: Path) -> None:
    late = folder / "a_second_too_late"
    run = [str(late / "lie" / "0.json"), "--issuer", str(late / "issuer.json"), "--policy", str(folder / "policy")]
    assert [main([*run, "--max-delay", hours]) for hours in ("48", "49", "0")] == [3, 0, 3]
