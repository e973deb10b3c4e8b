"""The `tonne` command."""

import click

from tonne import __version__
from tonne.cli.accounts import account
from tonne.cli.catalog import catalog
from tonne.cli.doctor import doctor
from tonne.cli.estimates import estimate
from tonne.cli.keys import key
from tonne.cli.listen import listen
from tonne.cli.organisations import org
from tonne.cli.serve import api, migrate, serve, worker


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tonne")
def main() -> None:
    """Tonne sells carbon offsets as orders.

    Settings come from the environment (TONNE_PORT, TONNE_DATA_DIR, TONNE_DATABASE_URL, ...) or from the TOML file that
    TONNE_CONFIG names; tonne.example.toml documents every one. Without TONNE_DATABASE_URL an embedded PostgreSQL is
    started in the data folder.

    A newcomer runs: tonne serve --demo
    """


for command in (serve, api, worker, migrate, doctor, org, account, key, estimate, catalog, listen):
    main.add_command(command)
