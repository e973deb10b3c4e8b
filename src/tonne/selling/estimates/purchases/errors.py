from tonne.platform.values.errors import Kind, TonneError


class TransactionFactorNotFound(TonneError, kind=Kind.INVALID, code="transaction_factor_not_found"):
    """No emission factors for transactions were imported, or none for this merchant category or country.

    The message says what there is; `region_fallback` `always` also uses factors for the world.
    """

    message = (
        "No emission factors for transactions were imported, so this cannot be calculated. The operator of this "
        "service can import a set; docs/estimates.md describes its file."
    )


class ExchangeRateNotFound(TonneError, kind=Kind.INVALID, code="exchange_rate_not_found"):
    """There is no current exchange rate between the currency of a transaction and that of the factor.

    Send the value in another currency.
    """

    message = "There is no exchange rate for this currency. Convert the value, and send it in another currency."
