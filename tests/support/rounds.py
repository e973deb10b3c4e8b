"""How long random tests run: `make test-random` runs them ten times as long as `make test`."""

import os

ROUNDS = int(os.environ.get("ROUNDS") or 1)
IS_LONG = ROUNDS > 1
