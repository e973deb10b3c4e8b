"""python -m tonne_conformance"""

import sys

from tonne_conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
