from tonne.platform.values.errors import Kind, TonneError


class HoldQuotaExceeded(TonneError, kind=Kind.CONFLICT, code="hold_quota_exceeded"):
    """A quote has `hold_supply`, but the operator has granted no quota, or quotes of the account hold too much of it
    already.

    Omit `hold_supply`, ask for less, wait until other quotes expire, or ask the operator.
    """

    message = (
        "The quotes of this account may not hold that much supply. Let others expire, request a quote without "
        "hold_supply, or ask the operator for a larger quota."
    )


class HoldQuotaInvalid(TonneError, kind=Kind.INVALID, code="hold_quota_invalid"):
    """On the command line: a quota of supply that quotes may hold is not a number of tonnes above 0 and at most
    100,000,000.

    Give tonnes such as `500`, or `none`.
    """

    message = "This is not a quota. Give tonnes above 0 and at most 100,000,000, such as 500, or none."
