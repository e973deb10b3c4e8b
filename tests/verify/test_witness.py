"""Our witness against requests of the specification, our own client, and cosignatures with ML-DSA-44."""

import json
import re
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives.asymmetric import mldsa

from tests.support.log_oracle import consistency_proof, tree_root
from tests.verify.seller import COSIGNED_AT, Seller
from tonne.platform.settings.settings import Settings, WitnessAddress
from tonne.supply.transparency.witness_outcomes import Cosigned, NotCosigned, WitnessProblem
from tonne.supply.transparency.witnesses import WitnessClient, format_request
from tonne_verify import notes
from tonne_verify.base64_strict import decode_base64, encode_base64
from tonne_verify.cli import main
from tonne_verify.errors import NotProven
from tonne_verify.notes import Checkpoint, SignatureType, VerifierKey, check_signatures, open_note
from tonne_verify.policy import Policy
from tonne_verify.verify_file import verify_file
from tonne_verify.witness import Witness, open_key, serve_witness

ENTRIES = [bytes([number]) * 32 for number in range(12)]
# The request of c2sp.org/tlog-witness.
EXAMPLE = """\
old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

\u2014 example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+\
ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
\u2014 example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9Ed\
mHXnZdXNqlcVGlCum2Wks+49/V6265UEjw6QUXTS5Rovnzv++qbSzm9Q=
"""
# Two lines of a name, as in its response.
LINES = """\
\u2014 witness.example/w1 CMp+6LWBU0anHGH5aNDTJkH/gj79sG+T6+iP2ThYN5kr\
rDJbR1HDnucjL39QsZTSvVjyQLrdk3DXDqI5G2HgLatVs0pWh6Up69HVOw==
\u2014 witness.example/w1 I7rEps0pvK2UqkS2gSpVUDhrhVtQV9lgF6pRrWAvjJHj\
yWpW7VcE3SiOlVlbQNt64vWhO+DlkL0+UfzuOBMh9ChdMkP1vi/lCAsmlw==
"""


@pytest.fixture
def witness(seller: Seller, tmp_path: Path) -> Witness:
    return make_witness(seller, tmp_path)


def make_witness(seller: Seller, folder: Path) -> Witness:
    logs = Policy.parse(f"log {seller.log_key.vkey}\nquorum none\n".encode(), "logs")
    return Witness(open_key("witness.example/w1", folder / "key"), logs, folder / "state.json")


def request(seller: Seller, old: int, size: int, entries: list[bytes] | None = None) -> str:
    entries = entries or ENTRIES
    text = Checkpoint(seller.log_key.name, size, tree_root(entries[:size])).text
    hashes = consistency_proof(old, entries[:size]) if 0 < old < size else []
    return format_request(old, hashes, f"{text}\n{seller.log_key.sign(text)}")


def test_it_cosigns_what_continues_the_log(seller: Seller, witness: Witness, tmp_path: Path) -> None:
    other = [*ENTRIES[:3], b"other", *ENTRIES[4:]]
    for old, size, entries, status in (
        (0, 4, None, 200),
        (0, 7, None, 409),
        (4, 4, None, 200),
        (4, 4, other, 409),
        (4, 7, other, 422),
        (7, 4, None, 400),
        (4, 9, None, 200),
        (4, 5, None, 409),
    ):
        body = request(seller, old, size, entries)
        answer = witness.add_checkpoint(body)
        assert answer.status == status, (old, size, answer)
        if status == 200:
            note = body.partition("\n\n")[2] + answer.body
            assert open_note(note, [witness.key.public]).signatures[0].at
        elif status == 409:
            assert (answer.content_type, answer.body) == ("text/x.tlog.size", f"{9 if size == 5 else 4}\n")
    # It remembers after a restart, also its key.
    again = make_witness(seller, tmp_path)
    assert again.key.vkey == witness.key.vkey
    assert again.add_checkpoint(request(seller, 4, 9)).status == 409
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "state.json").write_text("{}")
    with pytest.raises(NotProven, match="not the state of a witness"):
        make_witness(seller, tmp_path)


def test_the_example_of_the_specification(seller: Seller, witness: Witness, tmp_path: Path) -> None:
    assert witness.add_checkpoint(EXAMPLE).status == 404
    key = notes.NoteKey("example.com/behind-the-sofa", seller.credential_key)
    logs = Policy.parse(f"log {key.vkey}\nquorum none\n".encode(), "logs")
    following = Witness(witness.key, logs, tmp_path / "other.json")
    assert following.add_checkpoint(EXAMPLE).status == 403
    text = EXAMPLE.partition("\n\n")[2].partition("\n\n")[0] + "\n"
    # Signatures of keys that it does not know are ignored, and it has not seen 20852014 entries.
    assert following.add_checkpoint(EXAMPLE + key.sign(text)).status == 409
    assert following.add_checkpoint(f"old 0\n\n{text}\n{key.sign(text)}").status == 200
    for wrong in ("", "old 01\n\n", EXAMPLE.replace("old ", "older "), EXAMPLE.replace("PlRN", "Pl"), "old 1\n" * 70):
        assert following.add_checkpoint(wrong).status == 400


@pytest.fixture
def address(witness: Witness) -> Iterator[str]:
    server = serve_witness(witness, "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/submit"
    server.shutdown()
    server.server_close()
    thread.join()


async def test_our_client_and_our_witness_understand_each_other(seller: Seller, witness: Witness, address: str) -> None:
    client = WitnessClient(Settings(), lambda: datetime.now(UTC))
    known = WitnessAddress(address, witness.key.public)

    async def ask(size: int, remembered: int, entries: list[bytes] = ENTRIES) -> Cosigned | NotCosigned:
        async def prove(old: int) -> list[bytes]:
            return consistency_proof(old, entries[:size])

        note = request(seller, 0, size, entries).partition("\n\n")[2]
        return await client.ask(known, note, remembered, prove)

    for size, remembered in ((3, 0), (8, 3), (12, 5)):
        assert isinstance(await ask(size, remembered), Cosigned)
    problems = [await ask(5, 5), await ask(12, 12, [b"x", *ENTRIES[1:]])]
    assert [each.problem for each in problems if isinstance(each, NotCosigned)] == [
        WitnessProblem.LARGER_TREE,
        WitnessProblem.OTHER_TREE,
    ]
    # Lines of other keys with its name come first, as in the example of the specification.
    text = Checkpoint(seller.log_key.name, 1, bytes(32)).text
    note, now = f"{text}\n{seller.log_key.sign(text)}", int(datetime.now(UTC).timestamp())
    own = witness.key.cosign(text, now)
    read = client._read_cosignature
    for lines in (LINES + own, own + LINES, f"\u2014 witness.example/w1 AAAA\n{own}"):
        assert read(known, note, lines, 1) == Cosigned(own, 1)
    assert isinstance(read(known, note, LINES, 1), NotCosigned)
    await client.close()


class PostQuantumWitness:
    """Signs as c2sp.org/tlog-cosignature says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = mldsa.MLDSA44PrivateKey.generate()
        self.key = VerifierKey(name, SignatureType.ML_DSA_44, self._key.public_key().public_bytes_raw())

    def cosign(self, text: str, at: int) -> str:
        origin, size, root = text.split("\n")[:3]
        message = b"subtree/v1\n\x00" + struct.pack(">B", len(self.name)) + self.name.encode() + struct.pack(">Q", at)
        message += struct.pack(">B", len(origin)) + origin.encode() + struct.pack(">QQ", 0, int(size))
        signature = struct.pack(">Q", at) + self._key.sign(message + decode_base64(root))
        return f"\u2014 {self.name} {encode_base64(self.key.id + signature)}\n"


def test_cosignatures_with_ml_dsa(seller: Seller, monkeypatch: pytest.MonkeyPatch) -> None:
    witness = PostQuantumWitness("witness.pq.example/w")
    assert VerifierKey.parse(witness.key.vkey) == witness.key
    text = Checkpoint(seller.log_key.name, 5, b"r" * 32, ("extension",)).text
    signed = f"{text}\n{seller.log_key.sign(text)}"
    (found,) = open_note(signed + witness.cosign(text, COSIGNED_AT), [witness.key]).signatures
    assert (found.key, found.at) == (witness.key, COSIGNED_AT)
    for wrong in (text.replace("\n5\n", "\n6\n"), text.replace(seller.log_key.name, "other.example/log")):
        with pytest.raises(NotProven, match="is wrong"):
            open_note(signed + witness.cosign(wrong, COSIGNED_AT), [witness.key])
    # Without a time, it does not say that the tree was the newest one.
    assert check_signatures(signed + witness.cosign(text, 0), [witness.key]).signatures == ()

    policy = Policy.parse(f"witness pq {witness.key.vkey}\nquorum pq\n".encode(), "pq.policy")
    evidence = seller.evidence()
    for each in evidence:
        checkpoint = each["proof"].split("\n\n")[1] + "\n"
        each["proof"] += witness.cosign(checkpoint, COSIGNED_AT)
    document = json.dumps(seller.credential(evidence=evidence)).encode()
    assert verify_file("x", document, seller.issuer(), policy).exit_code == 0
    # An older version of the library cannot verify it, and says so.
    monkeypatch.setattr(notes, "mldsa", None)
    report = verify_file("x", document, seller.issuer(), policy)
    assert report.exit_code == 3
    assert "ML-DSA-44 keys cannot be verified here (witness.pq.example/w)" in " ".join(report.lines())


def test_the_command(seller: Seller, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = [
        "witness",
        "--name",
        "witness.example/w1",
        "--key",
        str(tmp_path / "key"),
        "--state",
        str(tmp_path / "state"),
    ]
    assert main([*run, "--logs", str(tmp_path / "missing")]) == 2
    assert "cannot be read" in capsys.readouterr().out
    (tmp_path / "logs").write_text(f"log {seller.log_key.vkey}\nquorum none\n")
    assert main([*run, "--logs", str(tmp_path / "logs"), "--host", "192.0.2.1"]) == 2
    assert re.search("The address cannot be used", capsys.readouterr().out)
