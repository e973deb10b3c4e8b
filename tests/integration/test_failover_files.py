"""The sample files for Patroni. `python -m chaos failover` runs a whole cluster with them."""

import subprocess

from tests.architecture.source import ROOT
from tests.integration.programs import find_program

SAMPLES = ROOT / "deploy" / "patroni"


def test_haproxy_accepts_its_configuration() -> None:
    command = [find_program("haproxy"), "-c", "-f", str(SAMPLES / "haproxy.cfg")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
