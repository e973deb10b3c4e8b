"""The command `python -m bench`. The benchmarks themselves take minutes: `make bench` runs them."""

import re
import sys

import pytest

from bench.__main__ import SUBJECTS, main
from tests.architecture.source import ROOT


def test_the_documentation_lists_all_benchmarks_and_no_others() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = text.partition("| Subject | Benchmarks | |")[2].partition("\n\n")[0]
    rows = [[re.findall(r"`(\w+)`", cell) for cell in row.split("|")[1:3]] for row in table.splitlines()[2:]]
    assert {subject[0]: set(names) for subject, names in rows} == {
        name: set(subject.NAMES) for name, subject in SUBJECTS.items()
    }


def test_without_a_subject_it_prints_help(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench"])
    main()
    assert capsys.readouterr().out.startswith("usage: python -m bench")


def test_it_rejects_an_unknown_benchmark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["bench", "api", "hanging"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert (
        "unknown benchmark hanging: choose from create, create_alone, create_hot, growth, list, memory, quote, read"
        in capsys.readouterr().err
    )
