"""What happened to an order, for `tonne order show` and the dashboard.

A package that does something to orders has a `timeline.py` with functions of the type `TimelineSource`. They return
an entry for each thing that happened, in any order, and are listed in `sources_of` in apps/lookup/order_view.py:

    async def refund_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]: ...

Mails and audit entries are found by `subject_id`: the order's, and those of all entries (invoices, refunds). Give each
entry the id of its object, and `enqueue` the id of the object that a mail is about.
"""

from datetime import datetime

from msgspec import Struct


class TimelineEntry(Struct, frozen=True, kw_only=True):
    """`kind` is the kind of object: charge, invoice, mail. `text` says what happened to it, without the time.

    `actor` is who did it, in the words of the audit log; None if a worker did. `is_planned`: it has not happened yet,
    but will at this time unless something happens before.
    """

    at: datetime
    kind: str
    text: str
    actor: str | None = None
    subject_id: str | None = None
    is_planned: bool = False


def entries_of(
    kind: str, subject_id: str, *happened: tuple[datetime | None, str] | tuple[datetime | None, str, str | None]
) -> list[TimelineEntry]:
    """An entry for each thing that happened to one object: when (None if it has not), what, and the actor."""
    return [
        TimelineEntry(at=at, kind=kind, text=text, actor=actor[0] if actor else None, subject_id=subject_id)
        for at, text, *actor in happened
        if at is not None
    ]
