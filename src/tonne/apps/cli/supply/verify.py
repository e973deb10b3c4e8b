"""tonne verify"""

import sys
from pathlib import Path

import click

# A missing file is reported like other unreadable ones.
FILE = click.Path(path_type=Path)


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@click.option(
    "--issuer",
    required=True,
    type=FILE,
    help="The seller's public keys, from https://HOST/.well-known/tonne-issuer.json.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.option("--online", is_flag=True, help="Ask the seller whether certificates and keys are still valid.")
def verify(files: tuple[Path, ...], issuer: Path, *, as_json: bool, online: bool) -> None:
    """Verify certificates: PDF files, or credential.json.

    Needs no database and no settings. The exit code is 0 if everything that was checked holds, 1 if something does not,
    and 2 if a file cannot be read. The package tonne-verify does the same without this service.
    """
    from tonne_verify.run import VerifyOptions, run_verify  # noqa: PLC0415 - it imports pyHanko

    sys.exit(run_verify(files, VerifyOptions(issuer, as_json, online), click.echo))
