"""`python -m tools.docs`: build the site into the package. It does nothing if no source has changed."""

import argparse
import sys
import time

from tools.docs.build import BuildFailed, build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--force", action="store_true", help="build even if no source has changed")
    options = parser.parse_args()
    started = time.perf_counter()
    try:
        is_built = build(force=options.force)
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 1
    if is_built:
        print(f"Built the documentation in {time.perf_counter() - started:.1f} s. `make run` serves it at /docs/.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
