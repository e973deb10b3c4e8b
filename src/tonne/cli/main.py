"""The `tonne` command."""

from importlib import import_module

import click

from tonne import __version__

# Where each command lives. It is imported when it is called: the web framework takes a second to load, and listing keys
# does not need it.
COMMANDS = {
    "serve": "serve:serve",
    "api": "serve:api",
    "worker": "serve:worker",
    "migrate": "serve:migrate",
    "doctor": "doctor:doctor",
    "org": "organisations:org",
    "account": "accounts:account",
    "key": "keys:key",
    "link": "links:link_group",
    "page": "pages:page_group",
    "estimate": "estimates:estimate",
    "catalogue": "catalog:catalogue",
    "card": "cards:card",
    "invoice": "invoices:invoice",
    "retirement": "retirements:retirement",
    "listen": "listen:listen",
}


class LazyGroup(click.Group):
    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(import_module(f"tonne.cli.{module}"), attribute)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tonne")
def main() -> None:
    """Tonne sells carbon offsets as orders.

    Settings come from the environment (TONNE_PORT, TONNE_DATA_DIR, TONNE_DATABASE_URL, ...) or from the TOML file that
    TONNE_CONFIG names; tonne.example.toml documents every one. Without TONNE_DATABASE_URL an embedded PostgreSQL is
    started in the data folder.

    A newcomer runs: tonne serve --demo
    """
