"""Witnesses cosign checkpoints before they are published, so that nobody can be shown another log than the others.

A witness (c2sp.org/tlog-witness) stores the last checkpoint that it has seen of a log and cosigns only what continues
it. One that does not respond delays one checkpoint by at most 5 seconds. From then on it is asked in the background,
with a back-off, until it cosigns again.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import ClassVar

import aiohttp
import structlog
import yarl

from tonne import __version__
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings, WitnessAddress
from tonne.platform.values.context import Clock
from tonne.platform.values.urls import is_loopback
from tonne.supply.transparency import witness_store
from tonne.supply.transparency.log_store import add_cosignature
from tonne.supply.transparency.witness_outcomes import Cosigned, NotCosigned, WitnessProblem
from tonne_verify.base64_strict import encode_base64
from tonne_verify.errors import NotProven
from tonne_verify.notes import DASH, Checkpoint, check_signatures, split_note

# For all requests to one witness about one checkpoint, with their proofs.
ASK_WITHIN_S = 5.0
# A witness may have cosigned meanwhile for another worker, so its size can change once more after the first 409.
MAX_REQUESTS = 3
MAX_RESPONSE_BYTES = 64 * 1024
# The clocks of witnesses may differ from ours by this much.
MAX_CLOCK_DIFFERENCE_S = 600
_SIZE = re.compile(r"(0|[1-9][0-9]{0,18})\n", re.ASCII)
_CONNECTION_ERRORS = (TimeoutError, aiohttp.ClientError, ssl.SSLError, ConnectionError)

# Returns the hashes of the consistency proof from a smaller tree to that of the checkpoint.
Prove = Callable[[int], Awaitable[Sequence[bytes]]]


class WitnessClient:
    """Keeps connections alive between checkpoints. Create and close it in the running loop."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        proxy = yarl.URL(settings.egress_proxy)
        self._proxy = proxy.with_user(None) if settings.egress_proxy else None
        # The value of Proxy-Authorization; None if the proxy needs no password.
        self._proxy_password = aiohttp.encode_basic_auth(proxy.user, proxy.password or "") if proxy.user else None
        ca_file = settings.log_witness_ca_file
        self._session = aiohttp.ClientSession(
            # True is the context of aiohttp: it has read the certificates of the system at its import.
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca_file) if ca_file else True),
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=ASK_WITHIN_S),
            headers={"User-Agent": f"Tonne/{__version__}", "Accept-Encoding": "identity"},
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, witness: WitnessAddress, note: str, known_size: int, prove: Prove) -> Cosigned | NotCosigned:
        """Ask for a cosignature of a signed checkpoint. Only failures of `prove` raise.

        `known_size` is the last tree that the witness cosigned, as far as we know: it corrects us.
        """
        try:
            async with asyncio.timeout(ASK_WITHIN_S):
                return await self._converse(witness, note, known_size, prove)
        except _CONNECTION_ERRORS as error:
            return _not_reached(error)

    async def find_obstacle(self, witness: WitnessAddress) -> str | None:
        """Why the witness cannot be reached; None if it responds. A request without a checkpoint changes nothing."""
        try:
            async with asyncio.timeout(ASK_WITHIN_S):
                await self._post(witness.url, "")
        except _CONNECTION_ERRORS as error:
            return _not_reached(error).detail
        return None

    async def _converse(
        self, witness: WitnessAddress, note: str, known_size: int, prove: Prove
    ) -> Cosigned | NotCosigned:
        size = Checkpoint.parse(split_note(note)[0]).size
        # What we remember is larger than the tree only after it went back. The witness then says so itself.
        known_size = min(known_size, size)
        for _ in range(MAX_REQUESTS):
            hashes = await prove(known_size) if 0 < known_size < size else ()
            status, text = await self._post(witness.url, format_request(known_size, hashes, note))
            if status == 200:
                return self._read_cosignature(witness, note, text, size)
            if status != 409:
                return _refusal(status)
            found = _SIZE.fullmatch(text)
            if found is None:
                return NotCosigned(WitnessProblem.RESPONSE_INVALID, "409 without the size of its tree")
            witness_size = int(found[1])
            if witness_size > size:
                detail = f"it has seen {witness_size} entries, and this tree has {size}"
                return NotCosigned(WitnessProblem.LARGER_TREE, detail)
            if witness_size == known_size == size:
                return NotCosigned(WitnessProblem.OTHER_TREE, f"it has seen another tree of {size} entries")
            known_size = witness_size
        return NotCosigned(WitnessProblem.RESPONSE_INVALID, f"409 to each of {MAX_REQUESTS} requests")

    async def _post(self, url: str, body: str) -> tuple[int, str]:
        target = yarl.URL(f"{url}/add-checkpoint")
        # A witness on this machine is not behind the proxy.
        proxy = None if is_local(target) else self._proxy
        password = {"Proxy-Authorization": self._proxy_password} if proxy and self._proxy_password else None
        async with self._session.post(
            target,
            data=body.encode(),
            headers={"Content-Type": "text/plain"},
            allow_redirects=False,
            proxy=proxy,
            proxy_headers=password,
        ) as response:
            read = await response.content.read(MAX_RESPONSE_BYTES)
            while not response.content.at_eof() and len(read) < MAX_RESPONSE_BYTES:
                read += await response.content.read(MAX_RESPONSE_BYTES - len(read))
            if not response.content.at_eof():
                response.close()
            return response.status, read.decode("utf-8", "replace")

    def _read_cosignature(self, witness: WitnessAddress, note: str, lines: str, size: int) -> Cosigned | NotCosigned:
        """The line of the witness's key among those returned. Lines of other keys are ignored, also of its name."""
        text, _ = split_note(note)
        problem = f"no signature of {witness.key.name} in the response"
        for line in lines.splitlines(keepends=True):
            if not line.startswith(f"{DASH} {witness.key.name} "):
                continue
            try:
                opened = check_signatures(f"{text}\n{line}", [witness.key])
            except NotProven as error:
                problem = str(error)
                continue
            if not opened.signatures:
                continue
            at = opened.signatures[0].at
            if at is not None and abs(at - self._clock().timestamp()) <= MAX_CLOCK_DIFFERENCE_S:
                return Cosigned(line, size)
            problem = f"its time differs from ours by more than {MAX_CLOCK_DIFFERENCE_S} s"
        return NotCosigned(WitnessProblem.COSIGNATURE_INVALID, problem)


def _not_reached(error: Exception) -> NotCosigned:
    if isinstance(error, TimeoutError):
        return NotCosigned(WitnessProblem.TIMEOUT, f"no response within {ASK_WITHIN_S:g} s")
    return NotCosigned(WitnessProblem.UNREACHABLE, (str(error) or type(error).__name__)[:300])


def format_request(old_size: int, hashes: Sequence[bytes], note: str) -> str:
    proof = "".join(f"{encode_base64(each)}\n" for each in hashes)
    return f"old {old_size}\n{proof}\n{note}"


def is_local(url: yarl.URL) -> bool:
    return url.host == "localhost" or is_loopback(url.host or "")


def _refusal(status: int) -> NotCosigned:
    match status:
        case 403:
            return NotCosigned(WitnessProblem.SIGNATURE_REFUSED, "it does not know the key that signed the checkpoint")
        case 404:
            return NotCosigned(WitnessProblem.UNKNOWN_LOG, "it does not follow this log")
        case 422:
            return NotCosigned(WitnessProblem.INCONSISTENT, "the tree that it has seen is not the beginning of ours")
        case _:
            return NotCosigned(WitnessProblem.REFUSED, f"status {status}")


FIRST_PAUSE_S = 10.0
LONGEST_PAUSE_S = 600.0
# Longer than it takes to ask: meanwhile no other worker asks the same witness.
LEASE = timedelta(seconds=30)

# The hashes of the consistency proof of a log, from the smaller size to the larger.
ConsistencyProof = Callable[[Connection, int, int, int], Awaitable[Sequence[bytes]]]

_log = structlog.get_logger()


class Witnesses:
    # A checkpoint covers what happened within a minute.
    EVERY_S: ClassVar[int] = 2

    def __init__(self, database: Database, settings: Settings, clock: Clock, prove: ConsistencyProof) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._prove = prove
        self._witnesses = settings.witnesses
        self._opened: WitnessClient | None = None

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()

    async def cosign(self, log_id: int, note: str) -> str:
        """The signed checkpoint with the cosignatures that arrived within 5 s. Failing witnesses are not asked.

        Call it outside of a transaction. What each witness has cosigned is stored before this returns.
        """
        async with self._database.transaction() as tx:
            states = await witness_store.read_states(tx, log_id)
            if states.keys() - {witness.key.vkey for witness in self._witnesses}:
                await witness_store.forget_others(tx, log_id, [witness.key.vkey for witness in self._witnesses])
        asked = []
        for witness in self._witnesses:
            state = states.get(witness.key.vkey)
            if state is None or state.next_attempt_at is None:
                asked.append(self._ask(log_id, note, witness, 0 if state is None else state.size))
        return note + "".join(line for line in await asyncio.gather(*asked) if line)

    async def run_once(self) -> bool:
        """A job: ask failing and new witnesses for the last checkpoint. It then is served with their cosignatures."""
        if not self._witnesses:
            return False
        by_vkey = {witness.key.vkey: witness for witness in self._witnesses}
        now = self._clock()
        async with self._database.transaction() as tx:
            latest = {each.log_id: each for each in await witness_store.read_latest_checkpoints(tx)}
            await witness_store.add_witnesses(tx, list(latest), list(by_vkey), now)
            due = await witness_store.claim_due(tx, list(latest), list(by_vkey), now=now, until=now + LEASE)
        asked = [self._ask_late(latest[log_id], by_vkey[vkey], size) for log_id, vkey, size in due]
        await asyncio.gather(*asked)
        return bool(asked)

    async def _ask_late(self, latest: witness_store.LatestCheckpoint, witness: WitnessAddress, known_size: int) -> None:
        line = await self._ask(latest.log_id, latest.note, witness, known_size)
        if line is not None:
            size = Checkpoint.parse(split_note(latest.note)[0]).size
            await self._database.commit(add_cosignature, latest.log_id, size, line)

    async def _ask(self, log_id: int, note: str, witness: WitnessAddress, known_size: int) -> str | None:
        """Ask one witness and store the outcome. Returns the cosignature."""
        size = Checkpoint.parse(split_note(note)[0]).size
        prove: Prove = partial(self._prove_from, log_id, size)
        outcome = await self._client.ask(witness, note, known_size, prove)
        async with self._database.transaction() as tx:
            if isinstance(outcome, Cosigned):
                await witness_store.record_cosignature(tx, log_id, witness.key.vkey, outcome, self._clock())
                return outcome.line
            await self._record_failure(tx, log_id, witness, outcome)
        event = _log.error if outcome.problem.is_alarm else _log.warning
        event(
            "witness_has_other_tree" if outcome.problem.is_alarm else "witness_did_not_cosign",
            witness=witness.key.name,
            log_id=log_id,
            size=size,
            problem=outcome.problem,
            detail=outcome.detail,
        )
        return None

    async def _record_failure(self, tx: Connection, log_id: int, witness: WitnessAddress, failed: NotCosigned) -> None:
        state = (await witness_store.read_states(tx, log_id)).get(witness.key.vkey)
        failures = 0 if state is None else state.failures
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
        now = self._clock()
        await witness_store.record_failure(
            tx, log_id, witness.key.vkey, failed, now=now, next_attempt_at=now + timedelta(seconds=pause_s)
        )

    async def _prove_from(self, log_id: int, size: int, old_size: int) -> Sequence[bytes]:
        return await self._database.run(self._prove, log_id, old_size, size)

    @property
    def _client(self) -> WitnessClient:
        """Opened at first use: it belongs to the running loop."""
        if self._opened is None:
            self._opened = WitnessClient(self._settings, self._clock)
        return self._opened
