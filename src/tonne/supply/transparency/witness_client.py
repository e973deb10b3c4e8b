"""Requests to witnesses (c2sp.org/tlog-witness).

A witness stores the last checkpoint that it has seen of a log and cosigns only what continues it.
"""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Sequence

import aiohttp
import yarl

from tonne import __version__
from tonne.platform.settings.settings import Settings
from tonne.platform.settings.witness_settings import WitnessAddress
from tonne.platform.values.context import Clock
from tonne.platform.values.urls import is_loopback
from tonne.supply.transparency.witness_outcomes import Cosigned, NotCosigned, WitnessProblem
from tonne_verify.base64_strict import encode_base64
from tonne_verify.errors import NotProven
from tonne_verify.notes import DASH, Checkpoint, open_note, split_note

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
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=settings.log_witness_ca_file or None)),
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=ASK_WITHIN_S),
            headers={"User-Agent": f"Tonne/{__version__}"},
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
        """The line of the witness's key among those returned. Lines of other keys are ignored."""
        text, _ = split_note(note)
        for line in lines.splitlines(keepends=True):
            if not line.startswith(f"{DASH} {witness.key.name} "):
                continue
            try:
                opened = open_note(f"{text}\n{line}", [witness.key])
            except NotProven as error:
                return NotCosigned(WitnessProblem.COSIGNATURE_INVALID, str(error))
            at = opened.signatures[0].at
            if at is None or abs(at - self._clock().timestamp()) > MAX_CLOCK_DIFFERENCE_S:
                return NotCosigned(
                    WitnessProblem.COSIGNATURE_INVALID,
                    f"its time differs from ours by more than {MAX_CLOCK_DIFFERENCE_S} s",
                )
            return Cosigned(line, size)
        return NotCosigned(WitnessProblem.COSIGNATURE_INVALID, f"no signature of {witness.key.name} in the response")


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
