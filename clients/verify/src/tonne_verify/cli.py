"""tonne-verify"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tonne_verify.monitor import AuditOptions
from tonne_verify.report import ExitCode
from tonne_verify.run import VerifyOptions, run_audit, run_verify

EPILOG = """\
exit codes: 0 everything that was checked holds, 1 something does not hold, 2 wrong usage or an unreadable file.

`tonne-verify audit --help` explains how to watch the log of a seller.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    return _audit(given[1:]) if given[:1] == ["audit"] else _verify(given)


def _verify(given: Sequence[str]) -> ExitCode:
    parser = argparse.ArgumentParser(
        prog="tonne-verify",
        description="Verify certificates: PDF files, or credential.json. Nothing is sent anywhere.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a PDF, or a credential in JSON")
    parser.add_argument(
        "--issuer",
        required=True,
        type=Path,
        help="the seller's public keys: tonne-issuer.json, from https://HOST/.well-known/tonne-issuer.json",
    )
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument(
        "--online", action="store_true", help="ask the seller whether certificates and keys are still valid"
    )
    options = parser.parse_args(given)
    return run_verify(options.files, VerifyOptions(options.issuer, options.json, options.online), print)


def _audit(given: Sequence[str]) -> ExitCode:
    parser = argparse.ArgumentParser(
        prog="tonne-verify audit",
        description="Watch the transparency log of a seller: nothing that it has published may change.",
        epilog="exit codes: 0 nothing has changed, 1 something is wrong, 2 wrong usage, or the log cannot be read.",
    )
    parser.add_argument("url", metavar="URL", help="the seller's website, or one log, such as https://HOST/log")
    parser.add_argument("--state", required=True, type=Path, help="the file that remembers what was seen; keep it")
    parser.add_argument("--issuer", type=Path, help="the seller's public keys; otherwise those seen at the first audit")
    parser.add_argument("--openings", type=Path, help="what the entries state: the file of `tonne log openings`")
    parser.add_argument("--whole", action="store_true", help="read all entries again, not only new ones")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    options = parser.parse_args(given)
    return run_audit(
        options.url,
        AuditOptions(options.state, options.issuer, options.openings, options.whole),
        print,
        as_json=options.json,
    )
