from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import open_stream
from tonne.platform.values.context import Actor, Mode, new_id
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import FeeRateInvalid, NameInvalid
from tonne.selling.accounts.model import Organisation

DEFAULT_FEE_RATE = Decimal("0.10")


async def open_organisation(
    tx: Connection, name: str, fee_rate: Decimal, *, actor: Actor, now: datetime
) -> Organisation:
    """Opens the organisation in both modes, each with its own event stream."""
    name = check_name(name)
    organisation = Organisation(new_id("org"), name, check_fee_rate(fee_rate), now)
    await store.insert_organisation(tx, organisation, fee_rate)
    for mode in Mode:
        await store.insert_mode(tx, organisation.id, mode)
        await open_stream(tx, organisation.id, mode)
    after = {"name": name, "fee_rate": fee_rate}
    await audit.record(tx, organisation.id, "organisation.opened", actor=actor, at=now, after=after)
    return organisation


def check_fee_rate(fee_rate: Decimal) -> Fraction:
    if not 0 <= fee_rate < 1 or fee_rate != round(fee_rate, 5):
        raise FeeRateInvalid
    return Fraction(fee_rate)


def check_name(name: str) -> str:
    name = name.strip()
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise NameInvalid
    return name
