from tonne.platform.values.errors import Kind, TonneError


class FactorNotFound(TonneError, kind=Kind.NOT_FOUND, code="emission_factor_not_found"):
    """There is no emission factor with this id.

    See `GET /v1/emission-factors`.
    """

    message = "There is no such emission factor: GET /v1/emission-factors lists them."


class FactorIdInvalid(TonneError, kind=Kind.INVALID, code="emission_factor_id_invalid"):
    """An estimate names an emission factor that does not exist.

    See `GET /v1/emission-factors`.
    """

    message = "There is no emission factor with this id: GET /v1/emission-factors lists them."


class UnitInvalid(TonneError, kind=Kind.INVALID, code="emission_factor_unit_mismatch"):
    message = "This unit is not known. Use the denominator_unit of the emission factor, such as kWh, km or person*km."


class UnitMismatch(TonneError, kind=Kind.INVALID, code="emission_factor_unit_mismatch"):
    """The unit of an activity is unknown, or measures something else than the emission factor.

    Use the factor's `denominator_unit`, or a unit of the same kind.
    """

    message = "The unit of the activity does not fit the emission factor. Use its denominator_unit."
