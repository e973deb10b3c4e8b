"""What stops the event loop of an api process for a moment: collections of garbage, and threads that compute."""

import json
import secrets
import subprocess
import sys
from pathlib import Path

from tests.support.processes import environment

# Keeps 200,000 objects alive, as large batches do, and prints how many each collection has looked at.
_COLLECTIONS = """
import gc, json
from tonne.platform.process.memory import freeze_startup_objects
started = [[] for _ in range(300_000)]
freeze_startup_objects()
looked_at = []
gc.callbacks.append(
    lambda phase, found: phase == "start"
    and looked_at.append(sum(len(gc.get_objects(each)) for each in range(found["generation"] + 1)))
)
alive = [[] for _ in range(200_000)]
gc.callbacks.clear()
print(json.dumps(looked_at))
"""


def test_collections_of_many_live_objects_are_small() -> None:
    looked_at = json.loads(_run(_COLLECTIONS))
    assert len(looked_at) >= 30
    # Neither the objects of the start-up nor all that are alive: half a microsecond each.
    assert sorted(looked_at)[len(looked_at) // 2] <= 6_000
    assert max(looked_at) <= 40_000


def test_a_thread_that_computes_keeps_the_interpreter_for_a_millisecond_at_a_time(tmp_path: Path) -> None:
    script = "import sys; from tonne.apps.wiring.app import create_app; create_app(); print(sys.getswitchinterval())"
    settings = {
        "database_url": "postgresql://127.0.0.1/tonne",
        "data_dir": tmp_path,
        "secret_key": secrets.token_urlsafe(32),
    }
    # The usual interval is 5 ms.
    assert float(_run(script, environment(settings))) == 0.001


def _run(script: str, settings: dict[str, str] | None = None) -> str:
    done = subprocess.run([sys.executable, "-c", script], env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
