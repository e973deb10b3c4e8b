"""make mutants: proves that the conformance suite notices every kind of mistake.

python -m tests.mutants [NAME …] tries only the mutants whose names or files contain one of these texts.
"""

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.conftest import fast_folder, start_server_in
from tests.mutants.mutant import DoesNotApply, all_mutants
from tests.mutants.run import is_sharp, report, try_all
from tests.mutants.workshop import Workshop
from tests.support.postgres import Databases
from tests.support.processes import ROOT


def main(words: list[str]) -> int:
    mutants = [each for each in all_mutants() if not words or any(word in f"{each.name} {each.file}" for word in words)]
    try:
        for mutant in mutants:
            mutant.applied()
    except DoesNotApply as error:
        print(error, file=sys.stderr)
        return 1
    # On the disk of the source, so that the copy consists of hard links.
    (ROOT / "build").mkdir(exist_ok=True)
    copy = Path(tempfile.mkdtemp(prefix="mutants-", dir=ROOT / "build"))
    folder = Path(tempfile.mkdtemp(prefix="tonne-mutants-", dir=fast_folder()))
    server = start_server_in(folder / "postgres")
    try:
        workshop = Workshop(Databases(server.url), copy)
        workshop.prepare()
        trials = try_all(workshop, mutants, partial(print, flush=True))
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(copy, ignore_errors=True)
    print("\n".join(report(trials)))
    return 0 if is_sharp(trials) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
