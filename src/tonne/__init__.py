"""Tonne sells carbon offsets as orders."""

import gc

__version__ = "0.1.0"

# Searching modules for garbage while they are imported would take an eighth of the time. Later, reference counting
# frees nearly everything.
gc.set_threshold(50_000, 20, 50)
