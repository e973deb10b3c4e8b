from tonne.base.errors import Kind, TonneError


class EventNotFound(TonneError, kind=Kind.NOT_FOUND, code="event_not_found"):
    message = "There is no such event."


class SequenceInvalid(TonneError, kind=Kind.INVALID, code="event_sequence_invalid"):
    message = "A sequence is a timestamp such as 2026-11-15T10:00:00.123Z."
