from tonne.platform.values.errors import Kind, TonneError


class FactorNotFound(TonneError, kind=Kind.NOT_FOUND, code="emission_factor_not_found"):
    message = "There is no such emission factor: GET /v1/emission-factors lists them."


class FactorIdInvalid(TonneError, kind=Kind.INVALID, code="emission_factor_id_invalid"):
    message = "There is no emission factor with this id: GET /v1/emission-factors lists them."


class UnitInvalid(TonneError, kind=Kind.INVALID, code="emission_factor_unit_mismatch"):
    message = "This unit is not known. Use the denominator_unit of the emission factor, such as kWh, km or person*km."


class UnitMismatch(TonneError, kind=Kind.INVALID, code="emission_factor_unit_mismatch"):
    message = "The unit of the activity does not fit the emission factor. Use its denominator_unit."
