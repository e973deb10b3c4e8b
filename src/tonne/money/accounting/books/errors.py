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


class ChartIncomplete(TonneError, kind=Kind.CONFLICT, code="chart_incomplete"):
    """On the command line and the operator's pages: an export needs the number of an account that the chart lacks.

    Add the accounts that the message names to your chart, and import it with `tonne books chart import`.
    """

    message = "The chart of accounts is not complete."
