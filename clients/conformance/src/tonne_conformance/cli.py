"""tonne-conformance"""

import argparse
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import httpx

from tonne_conformance.certificate import CertificateFiles, make_certificate
from tonne_conformance.file_reports import write_reports
from tonne_conformance.options import DEFAULT_REDIRECT_URL, Options, ReceiverAddress, settings_for
from tonne_conformance.run import ALL_CHECKS, Outcome, Result, UnknownCheck, Verdict, chosen, run
from tonne_conformance.sections.unproven import UNPROVEN
from tonne_conformance.text_report import failure_lines, markdown, text_report

DEFAULT_RECEIVER = "127.0.0.1:9443"
CERTIFICATE_FOLDER = Path.home() / ".tonne-conformance"
INTERRUPTED = 130
EPILOG = """\
exit codes: 0 nothing failed, 1 a check failed, 2 wrong usage, or the service cannot be reached.

With the live key the suite only reads. Orders, payments, cancellations and webhooks are made in test mode,
and the webhooks are deleted at the end.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.list:
        print(markdown(ALL_CHECKS, UNPROVEN), end="")
        return 0
    try:
        options = _options(given)
        chosen(options.only)
    except (ValueError, UnknownCheck) as error:
        parser.error(str(error))
    certificate = options.certificate or make_certificate(given.certificate_dir, options.receiver.host)
    settings = settings_for(options.receiver, certificate)
    if given.print_settings:
        print("".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()), end="")
        return 0
    if not options.url or not options.key:
        parser.error("--url and --key are required.")
    return _run(options, certificate, settings)


def _run(options: Options, certificate: CertificateFiles, settings: dict[str, str]) -> int:
    print(f"The receiver listens at {':'.join(map(str, options.receiver.listen))}, for {options.receiver.base_url}.")
    if settings:
        print("The service must run with these settings:")
        print("".join(f"  {name}={value}\n" for name, value in settings.items()))
    # Of SIGINT, too: it is ignored in processes that a shell starts in the background.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        httpx.get(f"{options.url}/orders", timeout=10)
        result = run(options, certificate, _progress())
    except KeyboardInterrupt:
        print("Interrupted. The webhooks of this run were deleted.", file=sys.stderr)
        return INTERRUPTED
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        print(f"tonne-conformance: {options.url} or the receiver cannot be used: {error}", file=sys.stderr)
        return 2
    return _report(result, options)


def _report(result: Result, options: Options) -> int:
    print(f"\n{text_report(result)}", end="")
    if options.report_dir is not None:
        paths = write_reports(result, options.report_dir)
        print(f"Reports: {', '.join(str(path) for path in paths)}")
    return result.exit_code


def _progress() -> Callable[[Outcome], None]:
    """Prints failures as they come, and a dot for every other check."""

    def show(outcome: Outcome) -> None:
        if outcome.verdict is Verdict.FAILED:
            print("\n" + "\n".join(failure_lines(outcome)))
        else:
            print("." if outcome.verdict is Verdict.PASSED else "s", end="", flush=True)

    return show


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _options(given: argparse.Namespace) -> Options:
    certificate = None
    if (given.certificate is None) != (given.certificate_key is None):
        raise ValueError("--certificate and --certificate-key belong together.")
    if given.certificate is not None:
        certificate = CertificateFiles(given.certificate, given.certificate_key)
    return Options(
        url=given.url.rstrip("/"),
        key=given.key,
        live_key=given.live_key,
        receiver=ReceiverAddress.parse(given.receiver, given.listen),
        certificate=certificate,
        only=tuple(given.only),
        brand=given.brand,
        redirect_url=given.redirect_url,
        fast=given.fast,
        patient=given.patient,
        report_dir=given.report_dir,
        threads=given.threads,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tonne-conformance",
        description="Prove that an installation keeps every sentence of its interface.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--url", default="", help="the base address, such as https://offsets.example.com/v1")
    add("--key", default="", help="an API key of test mode")
    add("--live-key", default="", help="an API key of live mode; the suite only reads with it")
    add("--receiver", default=DEFAULT_RECEIVER, help="where the service reaches the suite: HOST:PORT or an https URL")
    add("--listen", default="", help="where the suite listens, if not at the address of --receiver: HOST:PORT")
    add("--certificate", type=Path, help="the certificate chain of the receiver, in PEM; otherwise one is made")
    add("--certificate-key", type=Path, help="the key of that certificate, in PEM")
    add("--certificate-dir", type=Path, default=CERTIFICATE_FOLDER, help="the folder of certificates that are made")
    add("--redirect-url", default=DEFAULT_REDIRECT_URL, help="an address that the organisation allows as redirect")
    add("--brand", default="Service", help="the brand in the names of headers")
    add("--only", nargs="+", default=[], metavar="NAME", help="only these sections, modules or checks")
    add("--fast", action="store_true", help="leave out checks that wait for real limits of time")
    add("--patient", action="store_true", help="wait for the 15 minutes of a temporary id")
    add("--threads", type=int, default=16, help="how many checks run at a time")
    add("--report-dir", type=Path, help="write report.txt, junit.xml and report.html into this folder")
    add("--list", action="store_true", help="print all checks with their sentences, in Markdown")
    add("--print-settings", action="store_true", help="print the settings that a local service needs, and end")
    return parser
