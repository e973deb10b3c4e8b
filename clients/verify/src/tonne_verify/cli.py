"""tonne-verify"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tonne_verify import __version__
from tonne_verify.languages import LANGUAGES
from tonne_verify.monitor import AuditOptions
from tonne_verify.report import ExitCode
from tonne_verify.run import VerifyOptions, run_audit, run_monitor, run_pack, run_trust, run_verify, run_witness
from tonne_verify.trust import own_policy

CODES = """\
exit codes: 0 proven, 1 false, 2 unreadable or wrong usage, 3 not proven, 4 a test. Of several files, the first of
1, 2, 3, 4, 0 that occurs.
"""
EPILOG = f"""\
{CODES}
`tonne-verify trust --help` explains how to name witnesses that you trust, `tonne-verify audit --help` how to watch the
log of a seller, `tonne-verify pack --help` how to check the tables of an audit pack, `tonne-verify monitor --help` how
to find credits that were sold twice, `tonne-verify witness --help` how to be a witness.
"""
POLICY = (
    "whom you trust: logs, witnesses and a quorum (c2sp.org/tlog-policy); otherwise whom you named with `trust add`"
)


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands = {"audit": _audit, "monitor": _monitor, "pack": _pack, "trust": _trust, "witness": _witness}
    if given and given[0] in commands:
        return commands[given[0]](given[1:])
    return _verify(given)


def _parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=name, description=description, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def _verify(given: Sequence[str]) -> ExitCode:
    parser = _parser(
        "tonne-verify", "Verify certificates: PDF files, or credential.json. Nothing is sent anywhere.", EPILOG
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a PDF, or a credential in JSON")
    parser.add_argument(
        "--issuer",
        required=True,
        type=Path,
        help="the seller's public keys: tonne-issuer.json, from https://HOST/.well-known/tonne-issuer.json",
    )
    parser.add_argument("--policy", metavar="FILE", type=Path, help=POLICY)
    parser.add_argument(
        "--accept-no-witness",
        action="store_true",
        help="if no witness is named, accept that only the seller vouches for its log",
    )
    parser.add_argument(
        "--max-delay",
        metavar="HOURS",
        type=int,
        default=48,
        help="how much later than it claims a certificate may be cosigned; default 48",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument(
        "--online", action="store_true", help="ask the seller whether certificates and keys are still valid"
    )
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="compare the proofs with what `tonne-verify audit --state FILE` has seen; asks the log for its tiles",
    )
    parser.add_argument("--report", metavar="OUT.html", type=_page, help="also write a page for an auditor's file")
    parser.add_argument("--language", choices=LANGUAGES, default="en", help="of the page; default en")
    parser.add_argument("--version", action="version", version=f"tonne-verify {__version__}")
    options = parser.parse_args(given)
    return run_verify(
        options.files,
        VerifyOptions(
            options.issuer,
            options.json,
            options.online,
            options.policy,
            options.accept_no_witness,
            options.max_delay,
            options.report,
            options.language,
            options.state,
        ),
        print,
    )


def _page(text: str) -> Path:
    """Another name is more likely that of a file to verify, which must not be overwritten."""
    if not text.endswith(".html"):
        raise argparse.ArgumentTypeError(f"`{text}` is not the name of a page to write: end it with .html.")
    return Path(text)


def _pack(given: Sequence[str]) -> ExitCode:
    parser = _parser(
        "tonne-verify pack",
        "Compute every figure in the tables of an audit pack again, from the certificates in it. Nothing is sent.",
        "Of the certificates it checks only who signed them: verify the same file with `tonne-verify FILE`, too.",
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the ZIP file")
    parser.add_argument("--issuer", required=True, type=Path, help="the seller's public keys: tonne-issuer.json")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(given)
    return run_pack(options.file, options.issuer, print, as_json=options.json)


def _trust(given: Sequence[str]) -> ExitCode:
    parser = _parser(
        "tonne-verify trust",
        "Name a log or a witness that you trust. Ask its operator for the key, not the seller.",
        f"Without --policy, the keys are kept in {own_policy()}.",
    )
    parser.add_argument("action", choices=["add"])
    parser.add_argument("kind", choices=["witness", "log"])
    parser.add_argument("key", help="its public key, written name+id+key")
    parser.add_argument("url", nargs="?", help="its address, if you know it")
    parser.add_argument("--policy", metavar="FILE", type=Path, help="the policy to write")
    options = parser.parse_args(given)
    return run_trust(options.kind, options.key, options.url, options.policy, print)


def _witness(given: Sequence[str]) -> ExitCode:
    parser = _parser(
        "tonne-verify witness",
        "Be a witness of logs (c2sp.org/tlog-witness): cosign each checkpoint that continues what you have seen.",
        "Behind a web server with HTTPS. Keep the state: with an older copy you would cosign a second history.",
    )
    parser.add_argument("--name", required=True, help="your name in cosignatures, such as witness.example.com/w1")
    parser.add_argument("--key", metavar="FILE", required=True, type=Path, help="the private key; made if missing")
    parser.add_argument(
        "--logs", metavar="FILE", required=True, type=Path, help="a policy whose `log` lines you follow"
    )
    parser.add_argument("--state", metavar="FILE", required=True, type=Path, help="the last checkpoint of each log")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at; default 127.0.0.1")
    parser.add_argument("--port", type=int, default=8090, help="the port; default 8090")
    options = parser.parse_args(given)
    address = (options.host, options.port)
    return run_witness(options.name, options.key, options.logs, options.state, address=address, echo=print)


def _monitor(given: Sequence[str]) -> ExitCode:
    parser = _parser(
        "tonne-verify monitor",
        "Find serial numbers that several sellers, or one twice, have retired. Reads what they disclose.",
        CODES,
    )
    parser.add_argument(
        "logs",
        metavar="LOG",
        nargs="+",
        help="a seller's website or one log of it, such as https://HOST/log: its issuer file says what it discloses. Or"
        " a file: what `tonne log openings --retirements` writes",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(given)
    return run_monitor(options.logs, print, as_json=options.json)


def _audit(given: Sequence[str]) -> ExitCode:
    parser = _parser(
        "tonne-verify audit",
        "Watch the transparency log of a seller: nothing that it has published may change.",
        CODES,
    )
    parser.add_argument("url", metavar="URL", help="the seller's website, or one log, such as https://HOST/log")
    parser.add_argument("--state", required=True, type=Path, help="the file that remembers what was seen; keep it")
    parser.add_argument("--issuer", type=Path, help="the seller's public keys, which you trust from then on")
    parser.add_argument("--policy", metavar="FILE", type=Path, help=POLICY)
    parser.add_argument("--openings", type=Path, help="what the entries state: the file of `tonne log openings`")
    parser.add_argument("--whole", action="store_true", help="read all entries again, not only new ones")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(given)
    return run_audit(
        options.url,
        AuditOptions(options.state, options.issuer, options.openings, options.whole, options.policy),
        print,
        as_json=options.json,
    )
