from tonne.platform.values.errors import Kind, TonneError


class RequestNotOpen(TonneError, kind=Kind.CONFLICT, code="registry_request_not_open"):
    """On the command line and the operator's pages: a request to a registry that has its result is settled.

    `tonne registry show` says what became of it.
    """

    message = "The request to the registry is not open."


class SettlementRefused(TonneError, kind=Kind.CONFLICT, code="registry_settlement_refused"):
    """On the command line and the operator's pages: what somebody says about a request to a registry cannot be booked.

    The message says why. Compare it with the registry's page of the retirement.
    """

    message = "What became of the request cannot be booked so."
