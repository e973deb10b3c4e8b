"""Errors of the journal."""

from tonne.platform.values.errors import Kind, TonneError


class PayoutChanged(TonneError, kind=Kind.CONFLICT, code="payout_changed"):
    """On the command line: a payout was imported before with another date, amount or fee.

    Check the file: an imported payout cannot change.
    """

    message = "The payout was imported before with other values."


class PayoutNotFound(TonneError, kind=Kind.NOT_FOUND, code="payout_not_found"):
    """On the command line: no payout has this id in the currency of the transfer.

    Run `tonne payout list`.
    """

    message = "No payout has this id in the currency of the transfer: `tonne payout list` lists them."


class PayoutNotMatched(TonneError, kind=Kind.CONFLICT, code="payout_not_matched"):
    """On the command line: the payout is matched already, or has another amount than the transfer.

    Run `tonne payout list` and `tonne transfer list`.
    """

    message = "The payout and the transfer do not match."
