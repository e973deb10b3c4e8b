"""The error that a caller gets for an exception."""

import structlog

from tonne.platform.db.errors import REPEATABLE, ServiceHeld, is_database_unavailable, is_service_held, log_outage
from tonne.platform.http.errors import InternalError, ServiceUnavailable
from tonne.platform.values.errors import TonneError

_log = structlog.get_logger()


def refusal_for(error: BaseException) -> TonneError:
    if isinstance(error, TonneError):
        return error
    if isinstance(error, Exception):
        if is_service_held(error):
            return ServiceHeld()
        if is_database_unavailable(error) or isinstance(error, REPEATABLE):
            return ServiceUnavailable()
    return InternalError()


def refusal_of_item(error: BaseException, failure_event: str) -> TonneError:
    """Of one item of a batch. The others go on, so an error of ours is logged here; an outage not for every item."""
    refusal = refusal_for(error)
    if isinstance(refusal, (InternalError, ServiceUnavailable)) and not log_outage(error):
        _log.error(failure_event, exc_info=error)
    return refusal
