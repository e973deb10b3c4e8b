"""Requests to a witness over TLS, and what is made of its responses."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.log_oracle import consistency_proof, tree_root
from tests.support.receivers import hang, reply, response, send
from tests.support.tls import Authority
from tests.support.witness import Witness, witnessing
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError, WitnessAddress
from tonne.supply.transparency import witnesses
from tonne.supply.transparency.witness_outcomes import Cosigned, NotCosigned, WitnessProblem
from tonne.supply.transparency.witnesses import WitnessClient
from tonne_verify.notes import Checkpoint, NoteKey, VerifierKey, open_note

ORIGIN = "offsets.example/log"
ENTRIES = [bytes([number]) * 32 for number in range(9)]


class SmallLog:
    """A log in memory that signs checkpoints."""

    def __init__(self, entries: Sequence[bytes] = ENTRIES) -> None:
        self.key = NoteKey(ORIGIN, Ed25519PrivateKey.generate())
        self.entries = entries

    def note(self, size: int) -> str:
        text = Checkpoint(ORIGIN, size, tree_root(self.entries[:size])).text
        return f"{text}\n{self.key.sign(text)}"


@pytest.fixture
def log() -> SmallLog:
    return SmallLog()


@pytest.fixture
async def witness(log: SmallLog, tmp_path: Path) -> AsyncIterator[Witness]:
    async with witnessing(tmp_path, Authority(tmp_path).context()) as witness:
        witness.follow(ORIGIN, log.key.vkey)
        yield witness


class Asking:
    """Asks the witness for a cosignature of a tree of this size."""

    def __init__(self, witness: Witness, log: SmallLog, client: WitnessClient) -> None:
        self._witness, self._client = witness, client
        self.log = log

    async def __call__(self, size: int, known_size: int = 0) -> Cosigned | NotCosigned:
        async def prove(old_size: int) -> list[bytes]:
            return consistency_proof(old_size, self.log.entries[:size])

        address = WitnessAddress(self._witness.url, VerifierKey.parse(self._witness.vkey))
        return await self._client.ask(address, self.log.note(size), known_size, prove)


@pytest.fixture
async def ask(witness: Witness, log: SmallLog, tmp_path: Path) -> AsyncIterator[Asking]:
    settings = Settings(log_witness_ca_file=str(tmp_path / "authority.pem"))
    client = WitnessClient(settings, lambda: datetime.now(UTC))
    yield Asking(witness, log, client)
    await client.close()


def _problem(outcome: Cosigned | NotCosigned) -> WitnessProblem:
    assert isinstance(outcome, NotCosigned), outcome
    return outcome.problem


async def test_a_witness_cosigns_every_growth_and_corrects_what_we_remember(ask: Asking, witness: Witness) -> None:
    for size, known_size in ((1, 0), (4, 1), (7, 4), (7, 7), (9, 3)):
        outcome = await ask(size, known_size)
        assert isinstance(outcome, Cosigned)
        assert outcome.size == size
        note = open_note(ask.log.note(size) + outcome.line, [VerifierKey.parse(witness.vkey), ask.log.key.public])
        assert {each.key.name: each.at is None for each in note.signatures} == {ORIGIN: True, witness.name: False}
    assert witness.last_seen(ORIGIN) == (9, tree_root(ENTRIES))
    # The last tree was asked for twice: 409 said that the witness knew 7 entries.
    assert [body.split("\n", 1)[0] for body in witness.bodies] == ["old 0", "old 1", "old 4", "old 7", "old 3", "old 7"]


async def test_a_witness_that_has_seen_another_tree_is_an_alarm(ask: Asking, witness: Witness) -> None:
    assert isinstance(await ask(8), Cosigned)
    larger = await ask(5, 8)
    ask.log.entries = [*ENTRIES[:3], b"rewritten", *ENTRIES[4:]]
    other, inconsistent = await ask(8, 8), await ask(9, 8)
    assert [_problem(each) for each in (larger, other, inconsistent)] == [
        WitnessProblem.LARGER_TREE,
        WitnessProblem.OTHER_TREE,
        WitnessProblem.INCONSISTENT,
    ]
    assert all(isinstance(each, NotCosigned) and each.problem.is_alarm for each in (larger, other, inconsistent))
    assert isinstance(larger, NotCosigned)
    assert larger.detail == "it has seen 8 entries, and this tree has 5"
    assert witness.last_seen(ORIGIN) == (8, tree_root(ENTRIES[:8]))


async def test_refusals_and_wrong_responses_are_no_cosignature(ask: Asking, witness: Witness, log: SmallLog) -> None:
    text = log.note(3).partition("\n\n")[0] + "\n"
    other = Witness(witness.folder, "witness.example/other")
    now = int(time.time())
    line = witness.cosign(text)
    flipped = bytearray(base64.b64decode(line.split(" ")[2]))
    flipped[-1] ^= 1
    cases = [
        (reply(400), WitnessProblem.REFUSED),
        (reply(403), WitnessProblem.SIGNATURE_REFUSED),
        (reply(404), WitnessProblem.UNKNOWN_LOG),
        (reply(422), WitnessProblem.INCONSISTENT),
        (reply(503), WitnessProblem.REFUSED),
        (reply(302, Location="https://witness.example/"), WitnessProblem.REFUSED),
        (reply(409, b"seven\n"), WitnessProblem.RESPONSE_INVALID),
        (reply(409, b"007\n"), WitnessProblem.RESPONSE_INVALID),
        (reply(200), WitnessProblem.COSIGNATURE_INVALID),
        (reply(200, other.cosign(text).encode()), WitnessProblem.COSIGNATURE_INVALID),
        (reply(200, witness.cosign(text.replace("3\n", "4\n", 1)).encode()), WitnessProblem.COSIGNATURE_INVALID),
        (reply(200, witness.cosign(text, now - 3600).encode()), WitnessProblem.COSIGNATURE_INVALID),
        (reply(200, witness.cosign(text, now + 3600).encode()), WitnessProblem.COSIGNATURE_INVALID),
        (
            reply(200, f"— {witness.name} {base64.b64encode(flipped).decode()}\n".encode()),
            WitnessProblem.COSIGNATURE_INVALID,
        ),
        (send(b"not HTTP\r\n\r\n"), WitnessProblem.UNREACHABLE),
    ]
    for wrong, problem in cases:
        witness.replies.append(wrong)
        assert _problem(await ask(3)) == problem
    # Lines of other keys do no harm.
    witness.replies.append(reply(200, (other.cosign(text) + line).encode()))
    assert await ask(3) == Cosigned(line, 3)
    witness.logs.clear()
    assert _problem(await ask(3)) == WitnessProblem.UNKNOWN_LOG
    witness.follow(ORIGIN, NoteKey(ORIGIN, Ed25519PrivateKey.generate()).vkey)
    assert _problem(await ask(3)) == WitnessProblem.SIGNATURE_REFUSED


async def test_a_witness_that_never_agrees_on_a_size_is_asked_three_times(ask: Asking, witness: Witness) -> None:
    witness.replies += [reply(409, b"1\n"), reply(409, b"2\n"), reply(409, b"1\n")]
    assert _problem(await ask(5)) == WitnessProblem.RESPONSE_INVALID
    assert len(witness.bodies) == 3


async def test_silence_and_endless_responses_end_in_time(
    ask: Asking, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witnesses, "ASK_WITHIN_S", 0.3)

    async def drip_forever(writer: asyncio.StreamWriter) -> None:
        writer.write(response(200, b"")[:-2].replace(b"Length: 0", b"Length: 1000000") + b"\r\n")
        while True:
            writer.write(b"\n")
            await asyncio.sleep(0.01)

    for silent in (hang, drip_forever):
        witness.replies.append(silent)
        started = time.monotonic()
        assert _problem(await ask(3)) == WitnessProblem.TIMEOUT
        assert time.monotonic() - started < 3


async def test_certificates_are_checked(log: SmallLog, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = Settings(log_witness_ca_file=str(authority.ca_file))
    for kind in ("wrong_name", "unknown_authority"):
        async with witnessing(tmp_path, authority.context(kind)) as witness:
            witness.follow(ORIGIN, log.key.vkey)
            client = WitnessClient(settings, lambda: datetime.now(UTC))
            assert _problem(await Asking(witness, log, client)(3)) == WitnessProblem.UNREACHABLE
            assert witness.bodies == []
            await client.close()


async def test_requests_take_the_egress_proxy_except_on_this_machine(log: SmallLog, tmp_path: Path) -> None:
    settings = Settings(egress_proxy="http://127.0.0.1:1")
    client = WitnessClient(settings, lambda: datetime.now(UTC))
    async with witnessing(tmp_path, None) as witness:
        witness.follow(ORIGIN, log.key.vkey)
        assert isinstance(await Asking(witness, log, client)(3), Cosigned)
        witness.url = "https://witness.example.com"
        outcome = await Asking(witness, log, client)(4)
    await client.close()
    assert isinstance(outcome, NotCosigned)
    assert "127.0.0.1:1" in outcome.detail


def test_settings_name_witnesses_by_address_and_key(tmp_path: Path) -> None:
    witness, second = Witness(tmp_path), Witness(tmp_path, "witness.example/w2")
    text = f"https://witness.example/submit/ {witness.vkey}, http://127.0.0.1:8000 {second.vkey}"
    assert [(each.url, each.key.vkey) for each in load_settings({"TONNE_LOG_WITNESSES": text}).witnesses] == [
        ("https://witness.example/submit", witness.vkey),
        ("http://127.0.0.1:8000", second.vkey),
    ]
    log_key = NoteKey("witness.example/w1", Ed25519PrivateKey.generate()).vkey
    for wrong, said in (
        ("https://witness.example", "is not an address and a key"),
        (f"http://witness.example {witness.vkey}", "must start with https://"),
        (f"ftp://witness.example {witness.vkey}", "cannot be used"),
        (f"https://witness.example?a=b {witness.vkey}", "query"),
        (f"https://witness.example {log_key}", "must be of type 4 or 6"),
        (f"https://witness.example {witness.vkey[:-8]}AAAAAAAA", "does not match its id"),
        (f"https://a.example {witness.vkey}, https://b.example {witness.vkey}", "same name"),
    ):
        with pytest.raises(SettingsError, match=said):
            load_settings({"TONNE_LOG_WITNESSES": wrong})
    with pytest.raises(SettingsError, match="there is no file"):
        load_settings({"TONNE_LOG_WITNESS_CA_FILE": str(tmp_path / "missing.pem")})
