"""python -m bench.peer.server DATABASE_URL PORT"""

import gc
import sys

import uvicorn

from bench.peer.app import create_app
from tests.support.processes import HOST


def main() -> None:
    url, port = sys.argv[1:]
    app = create_app(url)
    # Objects of the start-up need no collection; a service that allocates little in cycles needs few of them.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    uvicorn.run(app, host=HOST, port=int(port), loop="uvloop", http="httptools", log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
