"""Forks: named with both signed heads, kept as evidence that convinces others, and never forgotten."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.verify import dishonest_seller
from tests.verify.dishonest_seller import Retirement, tell
from tests.verify.lies import HONEST, OTHER, changed
from tests.verify.seller import COSIGNED_AT, NAMES, NUMBER, certificate_facts, make_opening, retirement_facts
from tests.verify.test_merkle import make_tiles, naive_root
from tests.verify.test_monitor import Website, some_entries, website
from tonne_verify.base64_strict import encode_base64
from tonne_verify.cli import main
from tonne_verify.merkle import leaf_hash
from tonne_verify.notes import Checkpoint, NoteKey, split_note
from tonne_verify.proofs import TlogProof
from tonne_verify.tiles import inclusion_plan

__all__ = ["website"]


def heads(*notes: str) -> list[str]:
    found = [Checkpoint.parse(split_note(note)[0]) for note in notes]
    return [f"{each.size} entries with the root {encode_base64(each.root)}" for each in found]


def check_evidence(website: Website, capsys: pytest.CaptureFixture[str], *notes: str) -> dict[str, Any]:
    """An auditor who has seen nothing is convinced by the file. Returns the evidence."""
    kept = json.loads(website.state.read_text())["forks"]
    path = Path(kept[0]["file"])
    issuer = website.state.with_name("issuer.json")
    issuer.write_bytes(website.files["/.well-known/tonne-issuer.json"])
    capsys.readouterr()
    assert main([str(path), "--issuer", str(issuer)]) == 1
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("has signed two trees that do not agree", *heads(*notes)))
    # The seller no longer lists the key: it has to be compared.
    published = json.loads(issuer.read_text())
    issuer.with_name("without.json").write_text(json.dumps({**published, "logs": []}))
    assert main([str(path), "--issuer", str(issuer.with_name("without.json"))]) == 3
    shown = capsys.readouterr().out
    assert "has signed two trees that do not agree" in shown
    assert "compare it with an older issuer file of the seller." in shown
    evidence: dict[str, Any] = json.loads(path.read_text())
    assert evidence == kept[0]["evidence"]
    return evidence


@pytest.mark.parametrize("size", [20, 21, 31, 32, 64])
def test_a_fork_of_any_size_is_kept_as_evidence(
    website: Website, size: int, capsys: pytest.CaptureFixture[str]
) -> None:
    entries = some_entries(64)
    seen = website.publish(entries[:20])
    website.audit()
    forged = website.publish([*entries[:5], b"forged", *entries[6:size]])
    assert "FORK" in website.failure()
    evidence = check_evidence(website, capsys, seen, forged)
    # The seller goes back to the honest history.
    website.publish(entries)
    for _ in range(3):
        assert website.audit().exit_code == 1
    assert len(json.loads(website.state.read_text())["forks"]) == 1

    # Nobody can be accused without both signatures, or with a proof that does not lead to the signed root.
    issuer = website.state.with_name("issuer.json")
    stranger = NoteKey(f"{website.host}/log", Ed25519PrivateKey.generate())
    text = split_note(forged)[0]
    changes: list[Callable[[], dict[str, Any]]] = [
        lambda: {**evidence, "second": f"{text}\n{stranger.sign(text)}"},
        lambda: {**evidence, "second": evidence["first"]},
        lambda: {key: value for key, value in evidence.items() if key != "first"},
    ]
    if size > 20:
        honest = encode_base64(Checkpoint.parse(split_note(seen)[0]).root)
        changes += [lambda: {**evidence, "root": honest}, lambda: {**evidence, "hashes": evidence["hashes"][1:]}]
    for change in changes:
        website.state.with_name("false.json").write_text(json.dumps(change()))
        capsys.readouterr()
        assert main([str(website.state.with_name("false.json")), "--issuer", str(issuer)]) == 2
        assert "two trees" not in capsys.readouterr().out


def test_a_fork_is_not_laundered_by_reopening_the_log(website: Website, capsys: pytest.CaptureFixture[str]) -> None:
    """The seller signs another tree, closes the log with it, and continues from there."""
    entries = some_entries(40)
    seen = website.publish(entries[:20])
    website.audit()
    forged = website.publish([*entries[:5], b"forged", *entries[6:25]])
    website.publish([forged.encode(), *entries[25:]], "/log/2")
    assert "That is another tree than you saw." in website.failure()
    check_evidence(website, capsys, seen, forged)
    for _ in range(3):
        report = website.audit()
        assert report.exit_code == 1
        assert any(each.sentence.startswith("FORK") for each in report.checks)


def test_a_closed_log_must_stay_closed_where_it_was(website: Website) -> None:
    entries = some_entries(40)
    website.publish(entries[:20])
    website.audit()
    final = website.publish(entries[:25])
    website.publish([final.encode(), *entries[25:]], "/log/2")
    assert "continues it from the checkpoint with 25 entries" in website.failure()
    closed = {**website.logs[0], "final": split_note(final)[0]}
    for stated, code in ((closed, 0), ({**closed, "final": Checkpoint(str(closed["origin"]), 24, b"r" * 32).text}, 1)):
        website.files["/.well-known/tonne-issuer.json"] = json.dumps(
            website.seller.issuer_json(logs=[stated, website.logs[1]])
        ).encode()
        for _ in range(2):
            assert website.audit().exit_code == code
    # The tiles of the closed log are gone before they could be compared.
    website.state.unlink()
    website.logs.clear()
    website.publish(entries[:20])
    website.audit()
    website.publish([final.encode(), *entries[25:]], "/log/2")
    for name in [name for name in website.files if name.startswith("/log/tile/")]:
        del website.files[name]
    for _ in range(2):
        assert "cannot be compared" in " ".join(each.sentence for each in website.audit().checks)


def test_files_of_two_histories_are_kept_as_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two customers compare their certificates: the proofs contradict each other, also at different sizes."""
    (tmp_path / "issuer.json").write_text(json.dumps(dishonest_seller.issuer_file()))
    (tmp_path / "policy").write_text(dishonest_seller.policy())
    trust = ["--issuer", str(tmp_path / "issuer.json"), "--policy", str(tmp_path / "policy")]

    def run(*files: Any) -> tuple[int, str]:
        names = [str(tmp_path / f"{index}.json") for index in range(len(files))]
        for name, document in zip(names, files, strict=True):
            Path(name).write_text(json.dumps(document))
        capsys.readouterr()
        return main([*names, *trust]), capsys.readouterr().out

    more = [
        changed(OTHER, number=f"{i}", retirements=(Retirement(100 + 2 * i, 101 + 2 * i, parcel=f"{i}"),))
        for i in range(5)
    ]
    one, other = changed(OTHER, history="other"), changed(HONEST, history="other", number="IIII")
    files = tell([HONEST, *more, other, one])
    assert run(*files[:6])[0] == 0
    assert not list(tmp_path.glob("tonne-fork-*"))
    code, shown = run(files[5], files[-1])
    assert code == 1
    (path,) = tmp_path.glob("tonne-fork-*")
    assert f"The evidence is in {path.name}: publish it." in shown
    evidence = json.loads(path.read_text())
    code, shown = run(evidence)
    assert code == 1
    assert all(
        each in shown
        for each in ("has signed two trees that do not agree", *heads(evidence["first"], evidence["second"]))
    )
    # Nobody can be accused with entries of one history, of another log, or with proofs that do not hold.
    same = {**evidence, "second": evidence["first"], "entries": [evidence["entries"][0]] * 2}
    cut = {**evidence["entries"][0], "hashes": evidence["entries"][0]["hashes"][1:]}
    for false in (
        same,
        {**evidence, "entries": evidence["entries"][::-1]},
        {**evidence, "entries": [cut, evidence["entries"][1]]},
        {**evidence, "entries": evidence["entries"][:1]},
        {**evidence, "entries": 1},
    ):
        assert run(false)[0] == 2


def test_a_file_is_compared_with_what_an_auditor_saw(
    website: Website, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The auditor has seen a tree of 30 entries. The certificate is in the same one, in a later one, or in another."""
    origin, witness = f"{website.host}/log", website.seller.witness
    key = NoteKey(origin, website.seller.credential_key)
    issued = make_opening("certificate.issued", NUMBER, certificate_facts(), NAMES)
    openings = [issued, make_opening("retirement", "par_1", retirement_facts())]
    own = [each.commitment() for each in openings]

    def prove(entries: list[bytes]) -> str:
        leaves = [leaf_hash(each) for each in entries]
        text = Checkpoint(origin, len(leaves), naive_root(leaves)).text
        note = f"{text}\n{key.sign(text)}{witness.cosign(text, COSIGNED_AT)}"
        tiles, evidence = make_tiles(leaves), []
        for opening in openings:
            index = entries.index(opening.commitment())
            hashes = tuple(inclusion_plan(index, len(leaves)).compute(tiles))
            proof = TlogProof(index, hashes, note).format()
            evidence.append({"type": "TransparencyLogEntry", **opening.to_json(), "proof": proof})
        path = tmp_path / "credential.json"
        path.write_text(json.dumps(website.seller.credential(evidence=evidence)))
        return str(path)

    others = some_entries(40)
    (tmp_path / "policy").write_text(f"witness w {witness.vkey}\nquorum w\n")

    def run(entries: list[bytes]) -> tuple[int, str]:
        trust = ["--issuer", str(tmp_path / "issuer.json"), "--policy", str(tmp_path / "policy")]
        capsys.readouterr()
        return main([prove(entries), *trust, "--state", str(website.state)]), capsys.readouterr().out

    website.publish(others[:1])
    (tmp_path / "issuer.json").write_bytes(website.files["/.well-known/tonne-issuer.json"])
    assert run([*others[:5], *own])[0] == 2, "there is no state"
    seen = [*others[:10], *own, *others[10:28]]
    website.publish(seen)
    website.audit()
    for entries, told in (
        (seen, "The entry is also in the tree with 30 entries"),
        (seen[:13], "The entry is also in the tree with 30 entries"),
    ):
        code, shown = run(entries)
        assert (code, told in shown) == (0, True), shown
    # A later tree, whose tiles the log serves now.
    later = [*others[:30], *own, *others[30:]]
    website.state.unlink()
    website.publish(others[:30])
    website.audit()
    website.publish(later)
    code, shown = run(later)
    assert (code, "The tree continues the one with 30 entries" in shown) == (0, True), shown
    website.publish(others[:30])
    # The log promised the entry, and shows the auditor a tree without it.
    for promised in ([*others[:8], *own], [*others[:10], *own, *others[10:28]]):
        code, shown = run(promised)
        assert (code, "has signed two trees that do not agree" in shown) == (1, True), shown
        (path,) = tmp_path.glob("tonne-fork-*")
        assert main([str(path), "--issuer", str(tmp_path / "issuer.json")]) == 1
        path.unlink()
    website.files.clear()
    assert run([*others[:8], *own])[0] == 2
