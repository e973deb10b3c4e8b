"""Audits the logs of a seller: nothing that was published may change."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from tonne_verify.audit_state import AuditState, SeenLog
from tonne_verify.download import check_url, fetch
from tonne_verify.errors import NotFetched, NotProven
from tonne_verify.forks import describe_fork, find_fork
from tonne_verify.issuer import Issuer, IssuerLog
from tonne_verify.ledger import Ledger
from tonne_verify.log_reader import LogReader
from tonne_verify.merkle import HASH_SIZE, Range, leaf_hash
from tonne_verify.notes import Checkpoint, Note, VerifierKey, split_note
from tonne_verify.openings_file import LogOpenings, OpeningsFile, check_openings, read_openings
from tonne_verify.policy import Policy
from tonne_verify.report import Report, Verdict
from tonne_verify.tiles import TILE_WIDTH, range_plan, tile_of
from tonne_verify.trust import load_policy

# A checkpoint with more is taken for a mistake.
MAX_NEW_ENTRIES = 200_000_000


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Keys count if the file `issuer` or the policy has them, or an earlier audit trusted them. Nothing else does.

    `openings` is what the entries state.
    """

    state: Path
    issuer: Path | None = None
    openings: Path | None = None
    whole: bool = False
    policy: Path | None = None


def audit(url: str, options: AuditOptions) -> Report:
    """Audits the logs at a website, or those of one mode if the URL is that of a log. Never raises NotProven."""
    url = url.rstrip("/")
    report = Report(url)
    try:
        policy = load_policy(options.policy)
        report.policy = policy.name
        state = AuditState.load(options.state, url)
        openings = OpeningsFile() if options.openings is None else read_openings(options.openings)
        _Audit(report, state, _choose(url, _read_issuer(url, options)), options, policy).run()
        for origin, log in openings.logs.items():
            _explain_entries(report, state.logs.get(origin), origin, log)
        for origin, seen in state.logs.items() if options.openings is not None else ():
            # A file that is empty, or leaves out a whole log of its mode.
            if origin not in openings.logs and (seen.mode in openings.ledgers or not openings.ledgers):
                _explain_entries(report, seen, origin, LogOpenings())
        for mode, ledger in openings.ledgers.items():
            _count(report, mode, ledger)
        state.save(options.state)
    except NotProven as error:
        report.unreadable = str(error)
    return report


def _explain_entries(report: Report, seen: SeenLog | None, origin: str, openings: LogOpenings) -> None:
    name = f"openings of {origin}"
    if seen is None:
        report.add(name, Verdict.NOT_CHECKED, "This log was not audited.")
        return
    try:
        sentence, is_complete = check_openings(LogReader(seen.url), seen.head, openings)
    except NotFetched as error:
        report.add(name, Verdict.NOT_CHECKED, str(error))
        report.incomplete = True
    except NotProven as error:
        report.add(name, Verdict.FAILS, str(error))
    else:
        report.add(name, Verdict.HOLDS if is_complete else Verdict.NOT_PROVEN, sentence)


def _count(report: Report, mode: str, ledger: Ledger) -> None:
    conflicts = ledger.find_conflicts()
    for sentence in conflicts:
        report.add(f"count of {mode}", Verdict.FAILS, sentence)
    if not conflicts:
        numbers = f"Certificates: {len(ledger.counted)}, retirements: {len(ledger.retirements)}."
        report.add(f"count of {mode}", Verdict.HOLDS, f"{numbers} No tonne is counted twice.")


def _read_issuer(url: str, options: AuditOptions) -> Issuer:
    if options.issuer is not None:
        try:
            return Issuer.parse(options.issuer.read_bytes())
        except OSError as error:
            raise NotProven(f"{options.issuer} cannot be read: {error.strerror}.") from None
    parts = urlsplit(check_url(url))
    return Issuer.parse(fetch(f"{parts.scheme}://{parts.netloc}/.well-known/tonne-issuer.json"))


def _choose(url: str, issuer: Issuer) -> list[IssuerLog]:
    if not urlsplit(url).path:
        return list(issuer.logs)
    modes = {log.mode for log in issuer.logs if log.url.rstrip("/") == url}
    if not modes:
        known = ", ".join(log.url for log in issuer.logs)
        raise NotProven(f"The issuer file lists no log at {url}. It lists {known or 'none'}.")
    return [log for log in issuer.logs if log.mode in modes]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


class _Audit:
    def __init__(
        self, report: Report, state: AuditState, logs: Sequence[IssuerLog], options: AuditOptions, policy: Policy
    ) -> None:
        self._report = report
        self._state = state
        self._logs = logs
        self._whole = options.whole
        self._path = options.state
        self._policy = policy
        seen = {key.public for log in state.logs.values() for key in log.verifier_keys}
        given = () if options.issuer is None else (key.public for log in logs for key in log.keys)
        self._trusted = {*seen, *given, *(log.key.public for log in policy.logs)}
        self._trusts_all = options.issuer is not None

    def run(self) -> None:
        before = set(self._state.logs)
        # A new log may continue a known one. What that one serves afterwards is no longer comparable.
        for log in self._logs:
            if log.origin not in before:
                self._audit(log)
                self._attempt_previous(log, is_alarm=bool(before))
        for log in self._logs:
            if log.origin in before:
                self._attempt_previous(log, is_alarm=True)
        for log in self._logs:
            if log.origin in before:
                self._audit(log)
        for origin in sorted(before - {log.origin for log in self._logs}):
            self._fail(origin, "The issuer file no longer lists this log. Ask the seller why.", "")
        for fork in self._state.forks:
            sentence = f"{describe_fork(fork['evidence'])} The evidence is in {fork['file']}: publish it."
            self._report.add(fork["evidence"]["origin"], Verdict.FAILS, sentence)

    def _audit(self, log: IssuerLog) -> None:
        seen = self._state.logs.get(log.origin)
        if seen is not None and seen.continued_by is not None:
            self._check_final(log, seen)
            return
        if seen is None and not self._trusts_all and not self._trusted_keys(log):
            self._report.add(log.origin, Verdict.NOT_PROVEN, _ask_for_trust(log))
            return
        note = ""
        try:
            note = LogReader(log.url).checkpoint()
            opened = self._open(log, note)
            sentence = _check_log(log, seen, opened, whole=self._whole)
        except NotFetched as error:
            is_new = error.status == 404 and not note and seen is None
            sentence = "It has published no checkpoint yet." if is_new else str(error)
            self._report.add(log.origin, Verdict.NOT_CHECKED, sentence)
            self._report.incomplete = self._report.incomplete or not is_new
        except NotProven as error:
            self._fail(log.origin, str(error), note)
            self._look_for_fork(log, seen, note)
        else:
            self._report.add(log.origin, Verdict.HOLDS, sentence)
            self._check_witnesses(log, opened)
            self._keep(log, seen, note)

    def _check_witnesses(self, log: IssuerLog, opened: Note) -> None:
        cosigners = {each.key for each in opened.signatures}
        if not self._policy.has_quorum(cosigners):
            sentence = (
                f"{self._policy.name} demands a cosignature of {self._policy.describe()} of the newest checkpoint."
            )
            self._report.add(log.origin, Verdict.NOT_PROVEN, sentence)

    def _trusted_keys(self, log: IssuerLog) -> list[VerifierKey]:
        return [key for key in log.keys if key.public in self._trusted]

    def _open(self, log: IssuerLog, note: str) -> Note:
        opened = log.open_checkpoint(note, self._policy.witness_keys)
        if opened.text == log.final:
            return opened
        if not opened.is_signed_by(self._trusted_keys(log)):
            raise NotProven(
                "It is signed with a new key. Ask the seller whether the key was changed; then audit once with --issuer"
                " and the new issuer file."
            )
        return opened

    def _keep(self, log: IssuerLog, seen: SeenLog | None, note: str) -> None:
        trusted = [key.vkey for key in self._trusted_keys(log)]
        keys = list(dict.fromkeys([*(seen.keys if seen is not None else ()), *trusted]))
        self._state.logs[log.origin] = SeenLog(log.url, log.mode, keys, note, _now())

    def _check_final(self, log: IssuerLog, seen: SeenLog) -> None:
        """The issuer file must not state another end of a closed log than the one that was seen."""
        sentence = f"It was closed, and {seen.continued_by} continues it. You saw {seen.head.size} entries."
        if log.final is not None and seen.final is not None and log.final != split_note(seen.final)[0]:
            sentence += " The issuer file now states another last checkpoint than its continuation names."
            self._fail(log.origin, sentence, seen.final)
        else:
            self._report.add(log.origin, Verdict.NOT_CHECKED, sentence)

    def _look_for_fork(self, log: IssuerLog, seen: SeenLog | None, note: str) -> None:
        """If what was seen and what is shown now are both signed, and do not agree, others can be convinced."""
        if seen is None or not note:
            return
        try:
            evidence = find_fork(LogReader(log.url), seen.checkpoint, note, seen.verifier_keys)
        except NotProven:
            return
        if evidence is not None:
            self._state.add_fork(evidence, self._path)

    def _attempt_previous(self, log: IssuerLog, *, is_alarm: bool) -> None:
        new = self._state.logs.get(log.origin)
        others = [each for origin, each in self._state.logs.items() if origin != log.origin]
        open_ones = [each for each in others if each.mode == log.mode and each.continued_by is None]
        if new is None or new.continued_by is not None or new.head.size == 0 or not open_ones:
            return
        try:
            self._find_previous(log, new, is_alarm=is_alarm)
        except NotFetched as error:
            self._report.add(log.origin, Verdict.NOT_PROVEN, f"The closed log cannot be compared: {error}")
        except NotProven as error:
            self._fail(log.origin, f"The closed log does not lead to the checkpoint that this one names. {error}", "")

    def _find_previous(self, log: IssuerLog, new: SeenLog, *, is_alarm: bool) -> None:
        """Entry 0 of a reopened log is the last signed checkpoint of the log that it continues."""
        first = next(LogReader(log.url).entries(0, min(new.head.size, TILE_WIDTH)))
        named = _read_head(first, self._logs)
        if named is None:
            return
        old = self._state.logs.get(named.origin)
        if old is None:
            sentence = f"It continues the log {named.origin}, which you have not seen."
            self._report.add(log.origin, Verdict.NOT_CHECKED, sentence)
            return
        if old.continued_by is not None:
            return
        known, final = old.head, first.decode()
        sentence = f"It was closed, and {log.origin} continues it from the checkpoint with {named.size} entries."
        evidence = None
        # The closed log may be gone, so it is not read if that is not necessary.
        if (named.size, named.root) != (known.size, known.root) and named.size >= known.size:
            evidence = find_fork(LogReader(old.url), old.checkpoint, final, old.verifier_keys)
        if evidence is not None:
            self._state.add_fork(evidence, self._path)
            self._fail(named.origin, f"{sentence} That is another tree than you saw.", final)
        elif named.size < known.size:
            # The checkpoint that was seen stays in the state, so that this is found at every audit.
            sentence += f" That is not what you saw: a checkpoint with {known.size} entries. Some of them are left out."
            self._fail(named.origin, sentence, final)
            return
        elif is_alarm:
            sentence += " Ask the seller why: entries that only the closed log had may have been entered again."
            self._fail(named.origin, sentence, final)
        old.continued_by, old.final = log.origin, final

    def _fail(self, origin: str, sentence: str, checkpoint: str) -> None:
        self._report.add(origin, Verdict.FAILS, sentence)
        self._state.add_alarm(_now(), origin, sentence, checkpoint)


def _ask_for_trust(log: IssuerLog) -> str:
    commands = "".join(f" `tonne-verify trust add log {key.vkey} {log.url}`" for key in log.keys)
    return (
        "You have not trusted its key, so nothing was read. Compare the key with what the seller tells you elsewhere,"
        f" then run{commands or ' the audit with --issuer'}."
    )


def _read_head(entry: bytes, logs: Sequence[IssuerLog]) -> Checkpoint | None:
    """The checkpoint of another log that an entry is, if its signature is right."""
    try:
        origin = Checkpoint.parse(split_note(entry.decode())[0]).origin
        log = next((log for log in logs if log.origin == origin), None)
        return None if log is None else Checkpoint.parse(log.open_checkpoint(entry.decode()).text)
    except (NotProven, UnicodeDecodeError):
        return None


def _check_log(log: IssuerLog, seen: SeenLog | None, opened: Note, *, whole: bool) -> str:
    """Returns what was checked, in words."""
    head = Checkpoint.parse(opened.text)
    names = sorted({each.key.name for each in opened.signatures if each.key not in log.keys})
    cosigned = f" Cosigned by {', '.join(names)}." if names else ""
    if head.origin != log.origin:
        raise NotProven(f"The checkpoint is that of another log, {head.origin}.")
    if seen is None:
        _check_entries(log, head, start=0, known=None)
        return f"{head.size} entries, all read. This is the first audit: later changes will be noticed.{cosigned}"
    known = seen.head
    _compare_heads(seen, known, head)
    _check_entries(log, head, start=0 if whole else known.size, known=known)
    rest = "All entries were read again." if whole else "The others are those that you have seen before."
    return f"{head.size} entries, {head.size - known.size} of them new since {seen.seen_at}. {rest}{cosigned}"


def _compare_heads(seen: SeenLog, known: Checkpoint, head: Checkpoint) -> None:
    if head.size < known.size:
        raise NotProven(
            f"It shows an older checkpoint with {head.size} entries; at {seen.seen_at} it had {known.size}. If that"
            " stays so for some minutes, published entries were removed, or somebody replays an old state to you."
        )
    if head.size == known.size and head.root != known.root:
        raise NotProven(
            f"FORK: it has signed two different trees of {head.size} entries, so it shows different histories to"
            " different people."
        )


def _check_entries(log: IssuerLog, head: Checkpoint, *, start: int, known: Checkpoint | None) -> None:
    """Recomputes the root from the entries.

    The tiles have the hashes of the entries before `start`: their root must be the one that was seen at that size.
    """
    if head.size - start > MAX_NEW_ENTRIES:
        raise NotProven(f"The checkpoint claims {head.size} entries, more than this program reads at once.")
    reader, tree = LogReader(log.url), Range()
    if start:
        plan = range_plan(start, head.size)
        tree = Range(start, plan.compute(reader.tiles(plan.tiles)))
    _check_known(tree, known)
    for entry in reader.entries(start, head.size):
        tree.append(leaf_hash(entry))
        _check_known(tree, known)
    if tree.root() != head.root:
        raise NotProven(_explain(reader, start, head))


def _check_known(tree: Range, known: Checkpoint | None) -> None:
    if known is not None and tree.size == known.size and tree.root() != known.root:
        raise NotProven(
            f"The first {known.size} entries are no longer those that you have seen: entries were rewritten, reordered"
            " or removed. The signed checkpoints in the state file prove it. Publish them."
        )


def _explain(reader: LogReader, start: int, head: Checkpoint) -> str:
    """Which entry is wrong, if the tiles and the entries disagree."""
    sentence = "The entries do not lead to the signed root: entries were rewritten, reordered or removed."
    leaves = b""
    for index, entry in enumerate(reader.entries(start, head.size), start=start):
        place = index % TILE_WIDTH
        if place == 0 or not leaves:
            tile = tile_of(0, index // TILE_WIDTH, head.size)
            leaves = reader.tiles([tile])[tile]
        if leaves[place * HASH_SIZE : (place + 1) * HASH_SIZE] != leaf_hash(entry):
            return f"{sentence} The first wrong one is entry {index}."
    return sentence
