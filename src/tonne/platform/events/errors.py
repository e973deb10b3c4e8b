from tonne.platform.values.errors import Kind, TonneError


class EventNotFound(TonneError, kind=Kind.NOT_FOUND, code="event_not_found"):
    """There is no such event in this organisation and mode.

    See `GET /v1/events`.
    """

    message = "There is no such event."


class EventsRemoved(TonneError, kind=Kind.CONFLICT, code="events_removed"):
    """A webhook is rewound to events that were removed, or `GET /v1/events` is asked for events after a `sequence` or
    cursor of which some were removed; the message names the last removed `sequence` and the position of the
    earliest event.

    Give a later `sequence`; read what you missed in another way, such as `GET /v1/orders`.
    """

    message = "Events of that time were removed, because they are older than the operator keeps them."


class SequenceInvalid(TonneError, kind=Kind.INVALID, code="event_sequence_invalid"):
    """A `sequence` is not a timestamp such as `2026-11-15T10:00:00.123Z`.

    Pass the `sequence` of an event unchanged.
    """

    message = "A sequence is a timestamp such as 2026-11-15T10:00:00.123Z."
