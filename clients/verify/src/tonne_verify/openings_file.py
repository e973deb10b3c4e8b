"""The openings of all entries of a log, which a seller hands to an auditor (`tonne log openings`)."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tonne_verify.canonical import read_json
from tonne_verify.errors import NotProven
from tonne_verify.ledger import Ledger
from tonne_verify.log_reader import LogReader
from tonne_verify.merkle import Range, leaf_hash
from tonne_verify.notes import Checkpoint
from tonne_verify.openings import Opening

MAX_LINE = 1_000_000


@dataclass(slots=True)
class LogOpenings:
    """What the file says about one log: the entry at each position, and how many there are of each kind."""

    entries: dict[int, bytes] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class OpeningsFile:
    """What the file says, by the origins of the logs, and what all logs of a mode claim together."""

    logs: dict[str, LogOpenings] = field(default_factory=dict)
    ledgers: dict[str, Ledger] = field(default_factory=dict)


def read_openings(path: Path) -> OpeningsFile:
    """Raises NotProven if a line cannot be read, or its names were changed."""
    found = OpeningsFile()
    try:
        with path.open("rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
                try:
                    _add(found, line)
                except NotProven as error:
                    raise NotProven(f"{path}, line {number}: {error}") from None
    except OSError as error:
        raise NotProven(f"{path} cannot be read: {error.strerror}.") from None
    return found


def _add(found: OpeningsFile, line: bytes) -> None:
    value = read_json(line)
    opening = Opening.from_json(value)
    opening.check()
    origin, position = value.get("origin"), value.get("position")
    if not isinstance(origin, str) or not isinstance(position, int):
        raise NotProven("The line does not say which entry of which log it opens.")
    log = found.logs.setdefault(origin, LogOpenings())
    if position in log.entries:
        raise NotProven(f"Entry {position} is opened twice.")
    log.entries[position] = opening.commitment()
    log.kinds[opening.statement["kind"]] += 1
    ledger = found.ledgers.setdefault(str(opening.statement["mode"]), Ledger(has_all=True))
    ledger.add(f"entry {position} of {origin}", opening, origin, position)


def check_openings(reader: LogReader, head: Checkpoint, openings: LogOpenings) -> tuple[str, bool]:
    """Returns what was checked, in words, and whether the file explains all entries. Raises NotProven."""
    tree, newest = Range(), max(openings.entries, default=-1)
    if newest >= head.size:
        raise NotProven(f"The file opens entry {newest}, but the log has {head.size} entries.")
    unexplained = []
    for position, entry in enumerate(reader.entries(0, head.size)):
        tree.append(leaf_hash(entry))
        stated = openings.entries.get(position)
        if stated is not None and stated != entry:
            raise NotProven(f"Entry {position} states something else than the file.")
        # Entry 0 of a reopened log is a checkpoint, which explains itself.
        if stated is None and len(entry) == 32:
            unexplained.append(position)
    if tree.root() != head.root:
        raise NotProven("The entries changed during the audit. Try again.")
    if unexplained and unexplained[0] < newest:
        raise NotProven(
            f"The file does not explain {len(unexplained)} entries. The first one is entry {unexplained[0]}."
        )
    if not unexplained:
        return f"The file explains all entries up to {head.size - 1}: {_count(openings.kinds)}.", True
    return f"The file does not explain the last {len(unexplained)} of {head.size} entries: get a new file.", False


def _count(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
