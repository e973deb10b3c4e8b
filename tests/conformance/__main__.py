"""make conformance: the whole suite, with its real waits, against a service that is started for it."""

import sys
import tempfile
from pathlib import Path

from tests.conformance.own_installation import own_installation
from tonne_conformance.cli import main


def run(given: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="tonne-conformance-") as folder, own_installation(Path(folder)) as own:
        options = own.options
        address = ["--url", options.url, "--key", options.key, "--live-key", options.live_key]
        receiver = ["--receiver", options.receiver.base_url, "--certificate-dir", str(Path(folder) / "certificates")]
        return main([*address, *receiver, *given])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
