"""Errors of the books."""

from tonne.platform.values.errors import Kind, TonneError


class MonthNotClosable(TonneError, kind=Kind.CONFLICT, code="month_not_closable"):
    """On the command line and the operator's pages: a month cannot be closed.

    The message says everything that is missing.
    """

    message = "The month cannot be closed."


class MonthNotReopenable(TonneError, kind=Kind.CONFLICT, code="month_not_reopenable"):
    """On the command line and the operator's pages: a month cannot be reopened.

    Only the last closed month can be reopened.
    """

    message = "The month cannot be reopened."
