"""Verifies the certificates of Tonne, and audits its transparency log. Needs no server."""

__version__ = "0.1.0"
