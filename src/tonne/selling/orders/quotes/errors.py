from tonne.platform.values.errors import Kind, TonneError


class HoldQuotaExceeded(TonneError, kind=Kind.CONFLICT, code="hold_quota_exceeded"):
    message = (
        "The quotes of this account may not hold that much supply. Let others expire, request a quote without "
        "hold_supply, or ask the operator for a larger quota."
    )


class HoldQuotaInvalid(TonneError, kind=Kind.INVALID, code="hold_quota_invalid"):
    """Command line and operator pages only."""

    message = "This is not a quota. Give tonnes above 0 and at most 100,000,000, such as 500, or none."
