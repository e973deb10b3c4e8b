"""Tonne sells carbon offsets as orders."""

__version__ = "0.1.0"
