"""Help is printed without what only running a command needs."""

import subprocess
import sys

from tonne.apps.cli.main import COMMANDS

# Each takes a tenth of a second or more to import, or is all of Tonne.
HEAVY = ("PIL", "aiosmtplib", "mt940", "pint", "pyhanko", "stripe", "tonne.apps.wiring.app", "webauthn")
# Seconds of CPU time for the help of all commands in one process: three times what was measured.
MAX_CPU_S = 4.0
PROGRAM = f"""
import contextlib, io, sys, time
from tonne.apps.cli.main import main
for name in {[*COMMANDS]!r}:
    with contextlib.redirect_stdout(io.StringIO()):
        main([name, "--help"], standalone_mode=False)
print([name for name in {HEAVY!r} if name in sys.modules])
print(time.process_time())
"""


def test_no_help_imports_what_only_running_the_command_needs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    found, cpu_s = done.stdout.splitlines()
    assert found == "[]"
    assert float(cpu_s) < MAX_CPU_S
