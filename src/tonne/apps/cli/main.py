"""The `tonne` command."""

import click

from tonne import __version__
from tonne.apps.cli.help_pages import read_help_pages, write_help

# In the order of `tonne --help`.
COMMANDS = (
    "serve",
    "api",
    "worker",
    "migrate",
    "demo",
    "secrets",
    "signing-keys",
    "check",
    "backup",
    "restore",
    "upgrade",
    "hold",
    "resume",
    "doctor",
    "archive",
    "urls",
    "log",
    "verify",
    "audit",
    "org",
    "account",
    "user",
    "key",
    "link",
    "page",
    "history",
    "estimate",
    "factors",
    "catalogue",
    "picture",
    "lot",
    "unit",
    "hold-quota",
    "order",
    "charge",
    "card",
    "refund",
    "dispute",
    "invoice",
    "mail",
    "transfer",
    "payout",
    "export",
    "retirement",
    "person",
    "listen",
)
WORDS = "words"
# What an id names by its prefix, and the command for it.
IDS = {
    "org": ("an organisation", "tonne org show"),
    "acc": ("an account", "tonne account show"),
    "ord": ("an order", "tonne order show"),
    "chg": ("a charge", "tonne charge show"),
    "inv": ("an invoice", "tonne order list"),
    "trf": ("a transfer", "tonne transfer show"),
    "rfd": ("a refund", "tonne refund show"),
    "dsp": ("a dispute", "tonne dispute show"),
    "lnk": ("an offset link", "tonne link show"),
    "lot": ("a lot", "tonne lot show"),
    "mail": ("a mail", "tonne mail show"),
    "chk": ("a checkout", "tonne order list"),
}


def hint_of(words: list[str]) -> str:
    """Where an id belongs that was given to another command, for the message of a command that failed."""
    for word in words[1:]:
        kind, command = IDS.get(word.partition("_")[0], ("", ""))
        if "_" in word and command and command.split()[1] != words[0] and not word.startswith("-"):
            return f" {word} is {kind}: use `{command} {word}`."
    return ""


class LazyGroup(click.Group):
    """Imports a command only when it runs: importing all of them takes more than a second."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_help(read_help_pages()[""], ctx.command_path, formatter)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        return _load_operations(cmd_name) or _load_sales(cmd_name) or _load_supply_and_money(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[WORDS] = list(args)
        # Completing what was typed neither prints nor fails.
        if not ctx.resilient_parsing:
            if args[0] not in COMMANDS and not args[0].startswith("-"):
                raise click.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
            if args[-1] in ctx.help_option_names:
                _print_help(ctx, args[:-1])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except click.UsageError:
            raise
        except click.ClickException as error:
            hint = hint_of(ctx.meta.get(WORDS, [])) if "There is no" in error.message else ""
            if not hint:
                raise
            raise click.ClickException(f"{error.message}{hint}") from error


def _print_help(ctx: click.Context, words: list[str]) -> None:
    """Print the help of a command and exit. Other words than those of a command are left to Click."""
    page = read_help_pages().get(" ".join(words))
    if page is not None:
        formatter = ctx.make_formatter()
        write_help(page, " ".join((ctx.command_path, *words)), formatter)
        click.echo(formatter.getvalue(), nl=False)
        ctx.exit()


# ruff: noqa: C901, PLC0415, PLR0912 - one case per command, which is imported when it runs, not before
def _load_operations(name: str) -> click.Command | None:
    """Commands for processes, the state of the service and its data."""
    command: click.Command | None = None
    match name:
        case "serve":
            from tonne.apps.cli.operations.serve import serve as command
        case "api":
            from tonne.apps.cli.operations.api import api as command
        case "worker":
            from tonne.apps.cli.operations.worker import worker as command
        case "migrate":
            from tonne.apps.cli.operations.migrate import migrate as command
        case "demo":
            from tonne.apps.cli.operations.demo import print_again as command
        case "secrets":
            from tonne.apps.cli.operations.secrets import secrets as command
        case "check":
            from tonne.apps.cli.check.check import check as command
        case "backup":
            from tonne.apps.cli.operations.backup import backup as command
        case "restore":
            from tonne.apps.cli.operations.backup import restore_command as command
        case "upgrade":
            from tonne.apps.cli.operations.upgrade import upgrade as command
        case "hold":
            from tonne.apps.cli.operations.hold import hold as command
        case "resume":
            from tonne.apps.cli.operations.hold import resume as command
        case "doctor":
            from tonne.apps.cli.operations.doctor import doctor as command
        case "archive":
            from tonne.apps.cli.operations.archive import archive as command
        case "urls":
            from tonne.apps.cli.operations.urls import urls as command
        case "mail":
            from tonne.apps.cli.operations.mails import mail as command
        case "person":
            from tonne.apps.cli.operations.persons import person as command
    return command


def _load_sales(name: str) -> click.Command | None:
    """Commands for clients, what they see, and what is sold."""
    command: click.Command | None = None
    match name:
        case "audit":
            from tonne.apps.cli.selling.audit import audit as command
        case "org":
            from tonne.apps.cli.selling.organisations import org as command
        case "account":
            from tonne.apps.cli.selling.accounts import account as command
        case "user":
            from tonne.apps.cli.selling.users import user as command
        case "key":
            from tonne.apps.cli.selling.keys import key as command
        case "link":
            from tonne.apps.cli.channels.links import link_group as command
        case "page":
            from tonne.apps.cli.channels.pages import page_group as command
        case "history":
            from tonne.apps.cli.selling.history import history as command
        case "estimate":
            from tonne.apps.cli.selling.estimates import estimate as command
        case "factors":
            from tonne.apps.cli.selling.factors import factors as command
        case "catalogue":
            from tonne.apps.cli.selling.catalog import catalogue as command
        case "picture":
            from tonne.apps.cli.selling.pictures import picture as command
        case "hold-quota":
            from tonne.apps.cli.selling.hold_quotas import hold_quota as command
        case "order":
            from tonne.apps.cli.selling.orders import order as command
        case "listen":
            from tonne.apps.cli.channels.listen import listen as command
    return command


def _load_supply_and_money(name: str) -> click.Command | None:
    """Commands for credits, and for what is billed, paid, refunded and booked."""
    command: click.Command | None = None
    match name:
        case "signing-keys":
            from tonne.apps.cli.supply.signing_keys import signing_keys as command
        case "log":
            from tonne.apps.cli.supply.log import log as command
        case "verify":
            from tonne.apps.cli.supply.verify import verify as command
        case "lot":
            from tonne.apps.cli.supply.lots import lot as command
        case "unit":
            from tonne.apps.cli.supply.units import unit as command
        case "charge":
            from tonne.apps.cli.money.charges import charge as command
        case "card":
            from tonne.apps.cli.money.cards import card as command
        case "refund":
            from tonne.apps.cli.money.refunds import refund_group as command
        case "dispute":
            from tonne.apps.cli.money.refunds import dispute_group as command
        case "invoice":
            from tonne.apps.cli.money.invoices import invoice as command
        case "transfer":
            from tonne.apps.cli.money.transfers import transfer as command
        case "payout":
            from tonne.apps.cli.money.payouts import payout as command
        case "export":
            from tonne.apps.cli.money.exports import export_group as command
        case "retirement":
            from tonne.apps.cli.supply.retirements import retirement as command
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
