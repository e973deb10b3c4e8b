"""Errors of the journal."""

from tonne.base.errors import Kind, TonneError


class PayoutChanged(TonneError, kind=Kind.CONFLICT, code="payout_changed"):
    message = "The payout was imported before with other values."
