"""The HTML report: it says what the text report says, in six languages, and never more than the exit code."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.support.processes import ROOT
from tests.verify.seller import SUBJECT, Seller
from tonne_verify import __version__
from tonne_verify.cli import main
from tonne_verify.html_report import HEADLINES
from tonne_verify.languages import LANGUAGES, PLACEHOLDER, Language, templates
from tonne_verify.report import ExitCode

SOURCE = ROOT / "clients" / "verify" / "src" / "tonne_verify"
# Other commands, whose findings are not in the report, and the report itself.
OTHER_COMMANDS = {
    "audit_state.py",
    "cli.py",
    "disclosures.py",
    "double_sales.py",
    "formulas.py",
    "html_report.py",
    "log_reader.py",
    "monitor.py",
    "openings_file.py",
    "pack.py",
    "pack_tables.py",
    "policy.py",
    "tiles.py",
    "trust.py",
    "witness.py",
}
SENTENCE = re.compile(r"[.:;!] |[.!]$")
# The text around sentences, patterns, and what ends the program before there is a report.
NO_SENTENCES = re.compile(
    r"  cannot be checked: |  Result: |\(\?P<|"
    r"The issuer no longer publishes |publishes the keys of|The address cannot be used"
)


def text_of(node: ast.AST) -> str | None:
    """A string with `{}` for each value; None if it is none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    return None


def sentences_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {id(inner) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for inner in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            skipped.add(id(node.value))
        # The results of other commands, and patterns.
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in {"AUDIT_RESULTS", "MONITOR_RESULTS"}:
            skipped |= {id(inner) for inner in ast.walk(node)}
    found = {text_of(node) for node in ast.walk(tree) if id(node) not in skipped}
    return {re.sub(r"\{\w+\}", "{}", each) for each in found if each and SENTENCE.search(each) and " " in each.strip()}


def paths() -> list[Path]:
    apart = {SOURCE / name for name in OTHER_COMMANDS}
    return [path for path in SOURCE.rglob("*.py") if path not in apart and "languages" not in path.parts]


class Reader(HTMLParser):
    """The tags and texts of a page, and the addresses that it would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.headlines: list[str] = []
        self._in: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"src", "href", "action", "data"}]
        self._in.append(tag)

    def handle_data(self, text: str) -> None:
        if self._in[-1:] == ["h1"]:
            self.headlines.append(text)
            self._in.append("")


def read(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


def verify(folder: Path, *arguments: str) -> tuple[int, str]:
    """With the policy and the issuer file in the folder. Returns the exit code and the page."""
    trust = ["--issuer", str(folder / "issuer.json"), "--policy", str(folder / "policy")]
    page = folder / "page.html"
    code = main([*arguments, *trust, "--report", str(page)])
    return code, page.read_text(encoding="utf-8") if page.exists() else ""


@pytest.fixture
def seller(tmp_path: Path) -> Seller:
    found = Seller()
    (tmp_path / "issuer.json").write_text(json.dumps(found.issuer_json()))
    (tmp_path / "policy").write_text(found.policy_text())
    (tmp_path / "c.json").write_text(json.dumps(found.credential()))
    return found


def test_every_sentence_has_every_language() -> None:
    for template in templates():
        assert set(template.translations) == set(LANGUAGES), template.english
        for code in LANGUAGES[1:]:
            used = PLACEHOLDER.findall(template.translations[code])
            assert set(used) <= set(template.kinds), (template.english, code)
            assert template.translations[code].strip() or template.english == ""
    english = [each.english for each in templates()]
    assert len(english) == len(set(english))
    assert {each.value for each in HEADLINES} == {0, 1, 2, 3, 4}


def test_no_sentence_of_the_text_report_lacks_a_translation() -> None:
    # A sentence may be put together from several: its parts are compared.
    known = "\n".join(PLACEHOLDER.sub("{}", each.english) for each in templates())
    found = {each for path in paths() for each in sentences_of(path)}
    assert len(found) > 150
    missing = {
        each
        for each in found
        if not NO_SENTENCES.search(each) and not all(part.strip() in known for part in each.split("{}"))
    }
    assert missing == set()


@pytest.mark.usefixtures("seller")
@pytest.mark.parametrize("code", LANGUAGES)
def test_it_says_in_each_language_what_is_proven_and_needs_nothing_else(tmp_path: Path, code: str) -> None:
    exit_code, page = verify(tmp_path, str(tmp_path / "c.json"), "--language", code)
    assert exit_code == 0
    reader = read(tmp_path / "page.html")
    assert reader.headlines == [Language(code).say("Proven")]
    assert reader.tags.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert reader.addresses == []
    assert "url(" not in page
    assert "@import" not in page
    for digest in ("SHA-256", __version__, "7XKD-M2QH-9RTV-4WNC", "issuer.json", "policy"):
        assert digest in page
    # Only the small print is English.
    told = re.findall(r'<span lang="en">(.*?)</span>', page)
    assert code == "en" or told == []


def test_what_a_file_says_is_text(seller: Seller, tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\N{RIGHT-TO-LEFT OVERRIDE}"
    path = tmp_path / "<b>&.json"
    path.write_text(json.dumps(seller.credential(credentialSubject={**SUBJECT, "beneficiary": name})))
    _, page = verify(tmp_path, str(path))
    assert "<script" not in page
    assert "<b>" not in page
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_value_is_not_taken_for_a_sentence() -> None:
    german = Language("de")
    fact = german.sentence("Certificate A: 1 t CO2e for Acme. The seller lists it as valid.")
    assert fact == "Zertifikat A: 1 t CO2e für Acme. The seller lists it as valid."
    assert german.sentences("Nobody wrote this. " * 30 + "The seller lists it as valid.") is None
    assert german.sentences("a: " * 10_000 + "The seller lists it as valid.") is None
    two = "p demands a cosignature of w; there is none. x cosigned, but only the seller names this key."
    found = german.sentences(two)
    assert found is not None
    assert found.endswith("es gibt keine. x hat mitunterzeichnet, aber nur der Verkäufer nennt diesen Schlüssel.")


@pytest.mark.usefixtures("seller")
def test_it_is_written_beside_the_text_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate = tmp_path / "c.json"
    with pytest.raises(SystemExit):
        main([str(certificate), "--issuer", "i", "--report", str(certificate)])
    capsys.readouterr()
    (tmp_path / "page.html").mkdir()
    trust = ["--issuer", str(tmp_path / "issuer.json"), "--policy", str(tmp_path / "policy")]
    assert main([str(certificate), *trust, "--json", "--report", str(tmp_path / "page.html")]) == 2
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["exit_code"] == 0
    assert "page.html cannot be written" in printed.err


def test_several_files_have_a_summary_with_totals_and_conflicts(seller: Seller, tmp_path: Path) -> None:
    (tmp_path / "unreadable.json").write_text("?")
    (tmp_path / "c.pdf").write_bytes(seller.pdf())
    code, page = verify(tmp_path, *(str(tmp_path / name) for name in ("c.json", "c.pdf", "unreadable.json")))
    assert code == 2
    assert "<h1>Not readable</h1>" in page
    assert "Number of files: 3" in page
    assert "Proven: 2, Not readable: 1" in page
    assert "certificates: 1." in page
    # The totals are not proven as a whole.
    assert "What is proven" not in page.partition('<h2 id="f1">')[0]


@pytest.mark.usefixtures("seller")
def test_without_a_witness_it_does_not_say_cosigned(tmp_path: Path) -> None:
    (tmp_path / "policy").write_text("quorum none\n")
    code, page = verify(tmp_path, str(tmp_path / "c.json"), "--accept-no-witness")
    assert code == 0
    assert "only the seller vouches for the log" in page.partition("</header>")[0]
    assert "cosigned" not in page.partition("</header>")[0]
    code, page = verify(tmp_path, str(tmp_path / "c.json"))
    assert code == 3
    assert "<h1>Not proven</h1>" in page


def test_the_version_is_that_of_the_package() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__


def test_it_never_says_more_than_the_exit_code(tmp_path: Path) -> None:
    """Over the files of a dishonest seller, each in another language."""
    subprocess.run([sys.executable, "-m", "tests.verify.lies", tmp_path], cwd=ROOT, check=True)
    page = tmp_path / "page.html"
    seen = set()
    lies = json.loads((tmp_path / "lies.json").read_text())
    for number, (name, lie) in enumerate(sorted(lies.items())):
        language = LANGUAGES[1:][number % 5]
        files = sorted(str(each) for each in (tmp_path / name / "lie").iterdir())
        trust = ["--issuer", str(tmp_path / name / "issuer.json"), "--policy", str(tmp_path / "policy")]
        code = main([*files, *trust, "--report", str(page), "--language", language])
        assert code == lie["code"]
        say = Language(language).say
        assert read(page).headlines == [say(HEADLINES[ExitCode(code)])], name
        text = page.read_text(encoding="utf-8")
        assert '<header class="c0">' not in text
        told = re.findall(r'<span lang="en">(.*?)</span>', text)
        assert told == [], (name, told)
        # Of several files, some may be proven.
        if len(files) == 1:
            assert say("Proven to") not in text, name
        assert say("What is proven") not in text.partition('<h2 id="f1">')[0], name
        seen.add(code)
    assert {1, 3, 4} <= seen
