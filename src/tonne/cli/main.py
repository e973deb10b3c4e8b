"""The `tonne` command."""

from importlib import import_module

import click

from tonne import __version__

# In the order of `tonne --help`. The one-line helps are here so that printing them imports no command.
COMMANDS = {
    "serve": "Run the whole service: database, API and worker.",
    "api": "Run an API process.",
    "worker": "Run a worker process.",
    "migrate": "Apply pending database migrations.",
    "secrets": "Manage the keys that encrypt webhook secrets in the database.",
    "doctor": "Check the data, and list what waits too long.",
    "org": "Manage organisations, the clients of this service.",
    "account": "Manage accounts and client accounts, which place the orders.",
    "key": "Create, list and revoke API keys.",
    "link": "Manage offset links, the public payment pages of an account.",
    "page": "Manage the public Sustainability pages of accounts.",
    "estimate": "Record emission estimates to place orders for.",
    "catalogue": "Manage projects, bundles, prices and supply.",
    "lot": "List, export and withdraw lots of credits.",
    "order": "Cancel orders on behalf of a client.",
    "card": "Manage the stored cards of accounts.",
    "invoice": "List, settle, resend and export invoices.",
    "mail": "Look at the mails in the outbox.",
    "retirement": "Export credits to retire and import confirmations.",
    "listen": "Forward test events to a webhook receiver on your machine.",
}


# The module of each command in `tonne.cli`, and its name there.
_PLACES = {
    "serve": "serve:serve",
    "api": "serve:api",
    "worker": "serve:worker",
    "migrate": "serve:migrate",
    "secrets": "secrets:secrets",
    "doctor": "doctor:doctor",
    "org": "organisations:org",
    "account": "accounts:account",
    "key": "keys:key",
    "link": "links:link_group",
    "page": "pages:page_group",
    "estimate": "estimates:estimate",
    "catalogue": "catalog:catalogue",
    "lot": "lots:lot",
    "order": "orders:order",
    "card": "cards:card",
    "invoice": "invoices:invoice",
    "mail": "mails:mail",
    "retirement": "retirements:retirement",
    "listen": "listen:listen",
}


class LazyGroup(click.Group):
    """Imports a command only when it runs: importing all of them takes more than a second."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        return _load(cmd_name)


def _load(name: str) -> click.Command | None:
    if name not in _PLACES:
        return None
    module, _, attribute = _PLACES[name].partition(":")
    command: click.Command = getattr(import_module(f"tonne.cli.{module}"), attribute)
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tonne")
def main() -> None:
    """Tonne sells carbon offsets as orders.

    Settings come from environment variables (TONNE_PORT, TONNE_DATA_DIR, TONNE_DATABASE_URL, ...) or from the TOML
    file named by TONNE_CONFIG. tonne.example.toml documents all of them. Without TONNE_DATABASE_URL, Tonne starts an
    embedded PostgreSQL in its data folder.

    To try it out, run: tonne serve --demo
    """
