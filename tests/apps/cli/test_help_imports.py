"""Help is printed from a file, without importing a command, and a command does without what few processes need."""

import subprocess
import sys

from tonne.apps.cli.help_pages import read_help_pages
from tonne.apps.cli.main import COMMANDS

# Each takes a tenth of a second or more to import, or is all of Tonne.
HEAVY = {
    "PIL",
    "aiosmtplib",
    "jwcrypto",
    "mt940",
    "pint",
    "pyhanko",
    "sd_jwt",
    "stripe",
    "tonne.apps.wiring.app",
    "webauthn",
}
EVERY_HELP = f"""
import contextlib, io
from tonne.apps.cli.main import main
for words in {[*read_help_pages()]!r}:
    for option in ("--help", "-h"):
        with contextlib.redirect_stdout(io.StringIO()):
            main([*words.split(), option], standalone_mode=False)
"""
EVERY_COMMAND = f"""
from tonne.apps.cli.main import main
for name in {[*COMMANDS]!r}:
    main.get_command(None, name)
"""


def _imported_by(program: str) -> set[str]:
    command = [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_no_help_imports_a_command_or_a_library() -> None:
    # What the interpreter itself imports differs between installations.
    imported = _imported_by(EVERY_HELP) - _imported_by("")
    names = {name.partition(".")[0] for name in imported}
    assert {name for name in imported if name.startswith("tonne.")} == {
        "tonne.apps",
        "tonne.apps.cli",
        "tonne.apps.cli.help_pages",
        "tonne.apps.cli.main",
    }
    assert {name for name in names if name not in sys.stdlib_module_names} == {"click", "tonne"}
    assert not names & {"asyncio", "email", "http", "ssl", "unittest"}


def test_no_command_imports_what_few_processes_need() -> None:
    assert not _imported_by(EVERY_COMMAND) & HEAVY
