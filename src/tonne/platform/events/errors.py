from tonne.platform.values.errors import Kind, TonneError


class EventNotFound(TonneError, kind=Kind.NOT_FOUND, code="event_not_found"):
    message = "There is no such event."


class EventsRemoved(TonneError, kind=Kind.CONFLICT, code="events_removed"):
    message = "Events of that time were removed, because they are older than the operator keeps them."


class SequenceInvalid(TonneError, kind=Kind.INVALID, code="event_sequence_invalid"):
    message = "A sequence is a timestamp such as 2026-11-15T10:00:00.123Z."
