"""Three of the faults of `python -m chaos alerts`, with real Prometheus and Alertmanager."""

import subprocess
import sys

from chaos.alerts.scenarios import SHORT
from tests.architecture.source import ROOT


def test_three_real_faults_raise_exactly_their_alerts() -> None:
    command = [sys.executable, "-m", "chaos", "alerts-short"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(name in done.stdout for name in SHORT)
