"""`python -m tonne_verify` is the command `tonne-verify`."""

import sys

from tonne_verify.cli import main

sys.exit(main())
