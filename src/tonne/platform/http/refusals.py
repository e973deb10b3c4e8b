"""The error that a caller gets for an exception."""

from tonne.platform.db.errors import REPEATABLE, ServiceHeld, is_database_unavailable, is_service_held
from tonne.platform.http.errors import InternalError, ServiceUnavailable
from tonne.platform.values.errors import TonneError


def refusal_for(error: BaseException) -> TonneError:
    if isinstance(error, TonneError):
        return error
    if isinstance(error, Exception):
        if is_service_held(error):
            return ServiceHeld()
        if is_database_unavailable(error) or isinstance(error, REPEATABLE):
            return ServiceUnavailable()
    return InternalError()
