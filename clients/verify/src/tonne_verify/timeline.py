"""In which order did things happen? What a certificate claims is compared with what others confirm.

Statements and signatures have the times that the seller gave them. The time of a witness is that of its cosignature:
the entry existed then. Days of retirements have no time zone.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from tonne_verify.agreement import check_shape
from tonne_verify.errors import NotProven
from tonne_verify.evidence import ProvenEntry
from tonne_verify.openings import StatementKind
from tonne_verify.policy import NONE, Policy
from tonne_verify.report import Verdict
from tonne_verify.times import Signing, parse_time

MAX_DELAY = timedelta(hours=48)
# Time zones, and clocks that differ.
ONE_DAY = timedelta(days=1)


def check_times(
    entries: Sequence[ProvenEntry], policy: Policy, max_delay: timedelta, signing: Signing | None = None
) -> tuple[Verdict, str]:
    """Of one certificate, whose own entry is the first, with its retirements."""
    try:
        return _compare_times(entries, policy, max_delay, signing)
    except NotProven as error:
        return Verdict.FAILS, str(error)


def _compare_times(
    entries: Sequence[ProvenEntry], policy: Policy, max_delay: timedelta, signing: Signing | None
) -> tuple[Verdict, str]:
    """Raises NotProven if the times contradict each other."""
    issued, stamped_at = entries[0], None if signing is None else signing.stamped_at
    claimed = parse_time(issued.facts.get("issued_at"))
    retirements = [each for each in entries if each.kind is StatementKind.RETIREMENT]
    _check_retirements([*check_shape(issued.facts)["lines"], *(each.facts for each in retirements)], claimed)
    logged = parse_time(issued.opening.statement["at"])
    # The certificate is proven when its retirements are, too.
    cosigned = [_cosigned_at(each, policy) for each in (issued, *retirements)]
    confirmed = [each for each in cosigned if each is not None]
    if confirmed and min(confirmed) < claimed - ONE_DAY:
        raise NotProven(f"It claims {_show(claimed)}, but a witness had cosigned it by {_show(min(confirmed))}.")
    is_confirmed = len(confirmed) == len(cosigned)
    proven = max(confirmed) if is_confirmed else stamped_at
    late = logged if proven is None else max(logged, proven)
    if late > claimed + max_delay:
        return Verdict.NOT_PROVEN, f"It claims {_show(claimed)}, and is proven since {_show(late)} only."
    # The file may have been made long after the entry, but its signature must not be dated back either.
    if signing is not None and stamped_at is not None and stamped_at > signing.signed_at + max_delay:
        sentence = f"Its signature is dated {_show(signing.signed_at)}, and is proven since {_show(stamped_at)} only."
        return Verdict.NOT_PROVEN, sentence
    if is_confirmed and proven is not None:
        return Verdict.HOLDS, f"It claims {_show(claimed)}, and was cosigned by {_show(proven)}."
    stamp = "" if proven is None else f" It was stamped at {_show(proven)}, by an authority that was not checked."
    return Verdict.NOT_CHECKED, f"It claims {_show(claimed)}. No witness confirms since when it exists.{stamp}"


def describe_times(entries: Sequence[ProvenEntry], policy: Policy, signing: Signing) -> str:
    """What happened when, in order. The certificate's own entry is the first."""
    retired = [date.fromisoformat(str(line["retired_on"])) for line in check_shape(entries[0].facts)["lines"]]
    times = [
        ("key since", signing.key_since),
        ("signed", signing.signed_at),
        ("stamped", signing.stamped_at),
        ("logged", parse_time(entries[0].opening.statement["at"])),
        ("cosigned", _cosigned_at(entries[0], policy)),
    ]
    found = [(at, f"{word} {_show(at)}") for word, at in times if at is not None]
    found += [(datetime.combine(day, datetime.min.time(), UTC), f"retired {day}") for day in set(retired)]
    return f"In order: {', '.join(words for _, words in sorted(found))}."


def _cosigned_at(entry: ProvenEntry, policy: Policy) -> datetime | None:
    """When the demanded witnesses had cosigned a checkpoint with the entry."""
    if policy.quorum == NONE:
        return None
    times = {each.key: each.at for each in entry.signatures if each.at is not None}
    for at in sorted(set(times.values())):
        if policy.has_quorum({key for key, cosigned_at in times.items() if cosigned_at <= at}):
            try:
                return datetime.fromtimestamp(at, UTC)
            except (OverflowError, ValueError, OSError):
                raise NotProven(f"The time {at} of a cosignature is out of range.") from None
    return None


def _check_retirements(lines: Iterable[Any], claimed: datetime) -> None:
    for line in lines:
        try:
            retired_on = date.fromisoformat(str(line.get("retired_on")))
        except ValueError:
            raise NotProven(f"{line.get('retired_on')!r} is not the day of a retirement.") from None
        if datetime.combine(retired_on, datetime.min.time(), UTC) > claimed + ONE_DAY:
            raise NotProven(f"It claims {_show(claimed)}, but a retirement that it states is dated {retired_on}.")


def _show(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
