from tonne.platform.values.errors import Kind, TonneError


class EstimateNotFound(TonneError, kind=Kind.NOT_FOUND, code="estimate_not_found"):
    """The estimate does not exist in this account and mode: 400 when an order refers to it, 404 when it is read.

    Create it with `POST /v1/estimates`, or check the key's account and mode.
    """

    message = "There is no such estimate. Create one with POST /v1/estimates."


class MassInvalid(TonneError, kind=Kind.INVALID, code="estimate_mass_invalid"):
    """The mass of an estimate is below 1 gram or above 100,000,000 tonnes, or offsetting it costs more than can be
    stored.

    Check amount and unit.
    """

    message = "The mass must be at least 1 gram and at most 100,000,000 tonnes."


class IdempotencyKeyTaken(TonneError, kind=Kind.CONFLICT, code="estimate_idempotency_already_exists"):
    """Another estimate of the account has this `idempotency_key`.

    Use a new key, or repeat the original request.
    """

    message = "Another estimate has this idempotency_key. Use a new key, or send the original request again."


class EstimateVersionNotFound(TonneError, kind=Kind.NOT_FOUND, code="estimate_version_not_found"):
    """The estimate has no version with this number.

    Omit `version` to read the current one.
    """

    message = "The estimate has no such version. Omit version to read the current one."
