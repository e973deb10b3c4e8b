"""What sellers disclose of their logs, and whether it is really in them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from urllib.parse import urlsplit

from tonne_verify.download import check_url, fetch, read_lines
from tonne_verify.errors import NotFetched, NotProven
from tonne_verify.issuer import Issuer, IssuerLog
from tonne_verify.log_reader import LogReader
from tonne_verify.merkle import check_inclusion, leaf_hash
from tonne_verify.notes import Checkpoint
from tonne_verify.tiles import inclusion_plan

MAX_PAGE = 100_000_000


@dataclass(frozen=True, slots=True)
class Disclosures:
    """Of a seller: its logs by their origins. None for a file, whose lines may name any log."""

    logs: dict[str, IssuerLog] | None
    sources: tuple[str, ...]


def find_disclosures(source: str) -> Disclosures:
    """`source` is a file, or the address of a site, of a log or of a file of lines. Raises NotProven."""
    if not source.startswith(("https://", "http://")) or source.endswith(".jsonl"):
        return Disclosures(None, (source,))
    parts = urlsplit(check_url(source.rstrip("/")))
    issuer = Issuer.parse(fetch(f"{parts.scheme}://{parts.netloc}/.well-known/tonne-issuer.json"))
    logs = [each for each in issuer.logs if each.mode == "live" and parts.path in ("", urlsplit(each.url).path)]
    # Nobody may speak for the log of somebody else.
    logs = [each for each in logs if each.origin.partition("/")[0] == parts.netloc]
    if not logs:
        raise NotProven(f"The issuer file of {parts.netloc} lists no log at {source}.")
    return Disclosures(
        {each.origin: each for each in logs}, tuple(each.retirements for each in logs if each.retirements is not None)
    )


def read_disclosures(found: Disclosures) -> Iterator[tuple[str, bytes]]:
    """The lines, each with its place. A seller's are in pages; the one behind the last is not found."""
    for source in found.sources:
        for page in count():
            address = source if found.logs is None else f"{source}?page={page}"
            try:
                lines = read_lines(source) if found.logs is None else fetch(address, MAX_PAGE).splitlines()
            except NotFetched as error:
                if found.logs is not None and error.status == 404:
                    break
                raise
            for number, line in enumerate(lines, start=1):
                yield f"{address}, line {number}", line
            if found.logs is None:
                break


@dataclass(slots=True)
class OpenLogs:
    """The logs whose sellers were asked. Each checkpoint is fetched once."""

    logs: dict[str, IssuerLog] = field(default_factory=dict)
    heads: dict[str, Checkpoint] = field(default_factory=dict)

    def check(self, origin: str, position: int, entry: bytes) -> None:
        """Raises NotFetched if nobody said where the log is, and NotProven if it does not have the entry there."""
        log = self.logs.get(origin)
        if log is None:
            raise NotFetched(f"{origin} was not compared: give the address of its seller instead of a file.")
        reader = LogReader(log.url)
        if origin not in self.heads:
            self.heads[origin] = Checkpoint.parse(log.open_checkpoint(reader.checkpoint()).text)
        head = self.heads[origin]
        if head.origin != origin:
            raise NotProven(f"The checkpoint is that of another log, {head.origin}.")
        plan = inclusion_plan(position, head.size)
        check_inclusion(leaf_hash(entry), position, head.size, plan.compute(reader.tiles(plan.tiles)), head.root)
