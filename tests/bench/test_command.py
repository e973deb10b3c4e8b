"""The command `python -m bench`. The benchmarks themselves take minutes: `make bench` runs them."""

import re
import subprocess
import sys

from bench.__main__ import SUBJECTS
from tests.architecture.source import ROOT

COMMAND = [sys.executable, "-m", "bench"]


def test_the_documentation_lists_all_benchmarks_and_no_others() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    table = text.partition("| Subject | Benchmarks | |")[2].partition("\n\n")[0]
    rows = [[re.findall(r"`(\w+)`", cell) for cell in row.split("|")[1:3]] for row in table.splitlines()[2:]]
    assert {subject[0]: set(names) for subject, names in rows} == {
        name: set(subject.NAMES) for name, subject in SUBJECTS.items()
    }


def test_without_a_subject_it_prints_help() -> None:
    done = subprocess.run(COMMAND, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("usage: python -m bench")


def test_it_rejects_an_unknown_benchmark() -> None:
    done = subprocess.run([*COMMAND, "api", "hanging"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert (
        "unknown benchmark hanging: choose from create, create_alone, create_hot, growth, list, memory, quote, read"
        in done.stderr
    )
