"""Verifies the certificates of Tonne, and audits its transparency log. Needs no server."""
