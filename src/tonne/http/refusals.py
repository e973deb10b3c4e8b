"""The error that a caller gets for an exception."""

from tonne.base.errors import TonneError
from tonne.db.errors import REPEATABLE, ServiceHeld, is_database_unavailable, is_service_held
from tonne.http.errors import InternalError, ServiceUnavailable


def refusal_for(error: BaseException) -> TonneError:
    if isinstance(error, TonneError):
        return error
    if isinstance(error, Exception):
        if is_service_held(error):
            return ServiceHeld()
        if is_database_unavailable(error) or isinstance(error, REPEATABLE):
            return ServiceUnavailable()
    return InternalError()
