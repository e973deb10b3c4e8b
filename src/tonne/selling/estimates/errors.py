from tonne.platform.values.errors import Kind, TonneError


class EstimateNotFound(TonneError, kind=Kind.NOT_FOUND, code="estimate_not_found"):
    message = "There is no such estimate. Create one with POST /v1/estimates."


class MassInvalid(TonneError, kind=Kind.INVALID, code="estimate_mass_invalid"):
    message = "The mass must be at least 1 gram and at most 100,000,000 tonnes."


class IdempotencyKeyTaken(TonneError, kind=Kind.CONFLICT, code="estimate_idempotency_already_exists"):
    message = "Another estimate has this idempotency_key. Use a new key, or send the original request again."


class EstimateVersionNotFound(TonneError, kind=Kind.NOT_FOUND, code="estimate_version_not_found"):
    message = "The estimate has no such version. Omit version to read the current one."
