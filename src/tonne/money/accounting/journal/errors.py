"""Errors of the journal."""

from tonne.platform.values.errors import Kind, TonneError


class PayoutChanged(TonneError, kind=Kind.CONFLICT, code="payout_changed"):
    message = "The payout was imported before with other values."


class PayoutNotFound(TonneError, kind=Kind.NOT_FOUND, code="payout_not_found"):
    message = "No payout has this id in the currency of the transfer: `tonne payout list` lists them."


class PayoutNotMatched(TonneError, kind=Kind.CONFLICT, code="payout_not_matched"):
    message = "The payout and the transfer do not match."
