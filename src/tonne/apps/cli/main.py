"""The `tonne` command."""

import gc

import click

from tonne import __version__

# In the order of `tonne --help`. The one-line helps are here so that printing them imports no command.
COMMANDS = {
    "serve": "Run the whole service: database, API and worker.",
    "api": "Run an API process.",
    "worker": "Run a worker process.",
    "migrate": "Apply pending database migrations.",
    "demo": "Print the demo's sign-ins, API key, links and first request.",
    "secrets": "Manage the keys that encrypt secrets in the database.",
    "signing-keys": "Manage the keys that sign documents, credentials and the log.",
    "check": "Check the settings and what the service needs, before it starts.",
    "backup": "Back up the embedded database while the service runs.",
    "restore": "Restore a backup into an empty data folder (TONNE_DATA_DIR).",
    "upgrade": "Move the embedded database to this release's PostgreSQL.",
    "hold": "Hold the service: it answers reads and sends nothing.",
    "resume": "End a hold, after showing what would be sent.",
    "doctor": "Check the data, and list what waits too long.",
    "archive": "List, write and verify archives of rows that are removed.",
    "log": "Manage the transparency log of retirements and certificates.",
    "verify": "Verify certificates: PDF files, or credential.json.",
    "audit": "Show who changed what, newest first.",
    "org": "Manage organisations, the clients of this service.",
    "account": "Manage accounts and client accounts, which place the orders.",
    "user": "Manage the people who sign in to the dashboard.",
    "key": "Create, list, rotate and revoke API keys.",
    "link": "Manage offset links, the public payment pages of an account.",
    "page": "Manage the public Sustainability pages of accounts.",
    "estimate": "Record emission estimates to place orders for.",
    "factors": "Import the emission factors that estimates are calculated with.",
    "catalogue": "Manage projects, bundles, prices and supply.",
    "picture": "Manage the pictures of projects and bundles.",
    "lot": "List, export, withdraw and invalidate lots of credits.",
    "unit": "List and close pooled units, which several orders share.",
    "hold-quota": "Manage how much supply locked quotes may hold.",
    "order": "Find and show orders, and cancel them on behalf of a client.",
    "charge": "Find and show charges of cards, and decide on mismatched ones.",
    "card": "Manage the stored cards of accounts.",
    "refund": "List, show, approve, decline, retry and settle refunds.",
    "dispute": "List and show payments that payers dispute at their banks.",
    "invoice": "List, settle, credit, resend and export invoices.",
    "mail": "Look at mails in the outbox, and retry or discard failed ones.",
    "transfer": "Assign bank transfers to invoices, or return the money.",
    "payout": "Import payouts of the card gateway and fees, for the journal.",
    "export": "Export the books: the journal and its balances.",
    "retirement": "Export credits to retire and import confirmations.",
    "person": "Export and erase the data of a person, for example on request.",
    "listen": "Forward test events to a webhook receiver on your machine.",
}


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

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        # Modules stay. Searching them for garbage would take an eighth of the time of their import.
        gc.set_threshold(50_000, 20, 50)
        return _load(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.NoSuchCommand(name, possibilities=COMMANDS, ctx=ctx)
        ctx.meta[WORDS] = list(args)
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


# ruff: noqa: PLC0415 - a command is imported when it runs, not before
def _load(name: str) -> click.Command | None:
    loaders = (_load_general, _load_tenants, _load_safety, _load_supply, _load_trade, _load_money, _load_books)
    return next((command for load in loaders if (command := load(name)) is not None), None)


def _load_general(name: str) -> click.Command | None:  # noqa: PLR0911 - one case per command
    """Commands for processes and the state of the service."""
    match name:
        case "serve":
            from tonne.apps.cli.operations.serve import serve

            return serve
        case "api":
            from tonne.apps.cli.operations.api import api

            return api
        case "worker":
            from tonne.apps.cli.operations.worker import worker

            return worker
        case "check":
            from tonne.apps.cli.check.check import check

            return check
        case "migrate":
            from tonne.apps.cli.operations.migrate import migrate

            return migrate
        case "doctor":
            from tonne.apps.cli.operations.doctor import doctor

            return doctor
        case "verify":
            from tonne.apps.cli.supply.verify import verify

            return verify
        case "log":
            from tonne.apps.cli.supply.log import log

            return log
        case "audit":
            from tonne.apps.cli.selling.audit import audit

            return audit
        case "signing-keys":
            from tonne.apps.cli.supply.signing_keys import signing_keys

            return signing_keys
        case "secrets":
            from tonne.apps.cli.operations.secrets import secrets

            return secrets
        case _:
            return None


def _load_tenants(name: str) -> click.Command | None:  # noqa: PLR0911 - one case per command
    """Commands for organisations, their people and what clients see."""
    match name:
        case "org":
            from tonne.apps.cli.selling.organisations import org

            return org
        case "account":
            from tonne.apps.cli.selling.accounts import account

            return account
        case "user":
            from tonne.apps.cli.selling.users import user

            return user
        case "key":
            from tonne.apps.cli.selling.keys import key

            return key
        case "link":
            from tonne.apps.cli.channels.links import link_group

            return link_group
        case "page":
            from tonne.apps.cli.channels.pages import page_group

            return page_group
        case _:
            return None


def _load_safety(name: str) -> click.Command | None:
    """Commands for copies of the database, and for personal data."""
    match name:
        case "archive":
            from tonne.apps.cli.operations.archive import archive

            return archive
        case "backup" | "restore":
            from tonne.apps.cli.operations import backup

            return backup.backup if name == "backup" else backup.restore_command
        case "person":
            from tonne.apps.cli.operations.persons import person

            return person
        case "upgrade":
            from tonne.apps.cli.operations.upgrade import upgrade

            return upgrade
        case "hold" | "resume":
            from tonne.apps.cli.operations import hold

            return hold.hold if name == "hold" else hold.resume
        case _:
            return None


def _load_supply(name: str) -> click.Command | None:
    """Commands for lots and the units taken from them."""
    match name:
        case "lot":
            from tonne.apps.cli.supply.lots import lot

            return lot
        case "picture":
            from tonne.apps.cli.selling.pictures import picture

            return picture
        case "unit":
            from tonne.apps.cli.supply.units import unit

            return unit
        case "hold-quota":
            from tonne.apps.cli.selling.hold_quotas import hold_quota

            return hold_quota
        case _:
            return None


def _load_trade(name: str) -> click.Command | None:  # noqa: PLR0911 - one case per command
    """Commands for what is sold and retired."""
    match name:
        case "estimate":
            from tonne.apps.cli.selling.estimates import estimate

            return estimate
        case "factors":
            from tonne.apps.cli.selling.factors import factors

            return factors
        case "catalogue":
            from tonne.apps.cli.selling.catalog import catalogue

            return catalogue
        case "order":
            from tonne.apps.cli.selling.orders import order

            return order
        case "retirement":
            from tonne.apps.cli.supply.retirements import retirement

            return retirement
        case "demo":
            from tonne.apps.cli.operations.demo import print_again

            return print_again
        case "listen":
            from tonne.apps.cli.channels.listen import listen

            return listen
        case _:
            return None


def _load_money(name: str) -> click.Command | None:  # noqa: PLR0911 - one case per command
    """Commands for what is billed, paid, refunded and mailed."""
    match name:
        case "charge":
            from tonne.apps.cli.money.charges import charge

            return charge
        case "card":
            from tonne.apps.cli.money.cards import card

            return card
        case "invoice":
            from tonne.apps.cli.money.invoices import invoice

            return invoice
        case "transfer":
            from tonne.apps.cli.money.transfers import transfer

            return transfer
        case "mail":
            from tonne.apps.cli.operations.mails import mail

            return mail
        case "refund" | "dispute":
            from tonne.apps.cli.money.refunds import dispute_group, refund_group

            return refund_group if name == "refund" else dispute_group
        case _:
            return None


def _load_books(name: str) -> click.Command | None:
    """Commands for the accountant."""
    match name:
        case "payout":
            from tonne.apps.cli.money.payouts import payout

            return payout
        case "export":
            from tonne.apps.cli.money.exports import export_group

            return export_group
        case _:
            return None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tonne")
def main() -> None:
    """Tonne sells carbon offsets as orders.

    Settings come from environment variables (TONNE_PORT, TONNE_DATA_DIR, TONNE_DATABASE_URL, ...) or from the TOML
    file named by TONNE_CONFIG. tonne.example.toml documents all of them. Without TONNE_DATABASE_URL, Tonne starts an
    embedded PostgreSQL in its data folder.

    To try it out, run: tonne serve --demo
    """
