"""The `tonne` command."""

import errno
import pkgutil

import click

from tonne import __version__
from tonne.apps.cli.help_pages import read_help_pages, write_help

# In the order of `tonne --help`, with the function of each.
COMMANDS = {
    "serve": "tonne.apps.cli.operations.serve:serve",
    "api": "tonne.apps.cli.operations.processes:api",
    "worker": "tonne.apps.cli.operations.processes:worker",
    "migrate": "tonne.apps.cli.operations.migrate:migrate",
    "demo": "tonne.apps.cli.demo.demo:print_again",
    "secrets": "tonne.apps.cli.operations.secrets:secrets",
    "signing-keys": "tonne.apps.cli.supply.log:signing_keys",
    "signing": "tonne.apps.cli.supply.log:signing",
    "check": "tonne.apps.cli.check.check:check",
    "backup": "tonne.apps.cli.operations.backup:backup",
    "restore": "tonne.apps.cli.operations.backup:restore_command",
    "restore-test": "tonne.apps.cli.operations.restore_test:restore_test",
    "upgrade": "tonne.apps.cli.operations.backup:upgrade",
    "hold": "tonne.apps.cli.operations.hold:hold",
    "resume": "tonne.apps.cli.operations.hold:resume",
    "doctor": "tonne.apps.cli.operations.doctor:doctor",
    "record-run": "tonne.apps.cli.operations.hold:record_run_command",
    "archive": "tonne.apps.cli.operations.archive:archive",
    "reindex": "tonne.apps.cli.operations.reindex:reindex",
    "urls": "tonne.apps.cli.operations.urls:urls",
    "log": "tonne.apps.cli.supply.log:log",
    "verify": "tonne.apps.cli.supply.log:verify",
    "login": "tonne.apps.cli.selling.login:login",
    "logout": "tonne.apps.cli.selling.login:logout",
    "audit": "tonne.apps.cli.selling.audit:audit",
    "tax": "tonne.apps.cli.selling.tax:tax",
    "rates": "tonne.apps.cli.selling.tax:rates",
    "org": "tonne.apps.cli.selling.organisations:org",
    "account": "tonne.apps.cli.selling.accounts:account",
    "user": "tonne.apps.cli.selling.users:user",
    "key": "tonne.apps.cli.selling.keys:key",
    "link": "tonne.apps.cli.channels.links:link_group",
    "page": "tonne.apps.cli.channels.pages:page_group",
    "history": "tonne.apps.cli.selling.history:history",
    "estimate": "tonne.apps.cli.selling.factors:estimate",
    "factors": "tonne.apps.cli.selling.factors:factors",
    "catalogue": "tonne.apps.cli.selling.catalog:catalogue",
    "picture": "tonne.apps.cli.selling.catalog:picture",
    "lot": "tonne.apps.cli.supply.lots:lot",
    "unit": "tonne.apps.cli.supply.lots:unit",
    "hold-quota": "tonne.apps.cli.selling.hold_quotas:hold_quota",
    "order": "tonne.apps.cli.selling.orders:order",
    "charge": "tonne.apps.cli.money.cards:charge",
    "card": "tonne.apps.cli.money.cards:card",
    "refund": "tonne.apps.cli.money.refunds:refund_group",
    "dispute": "tonne.apps.cli.money.refunds:dispute_group",
    "invoice": "tonne.apps.cli.money.invoices:invoice",
    "einvoice": "tonne.apps.cli.money.einvoices:einvoice",
    "mail": "tonne.apps.cli.operations.mails:mail",
    "transfer": "tonne.apps.cli.money.transfers:transfer",
    "payout": "tonne.apps.cli.money.payouts:payout",
    "books": "tonne.apps.cli.money.books:books",
    "export": "tonne.apps.cli.money.exports:export_group",
    "retirement": "tonne.apps.cli.supply.retirements:retirement",
    "registry": "tonne.apps.cli.supply.registries:registry",
    "person": "tonne.apps.cli.operations.persons:person",
    "listen": "tonne.apps.cli.channels.listen:listen",
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

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_help(read_help_pages()[""], ctx.command_path, formatter)

    def get_command(self, _: click.Context, cmd_name: str) -> click.Command | None:
        return pkgutil.resolve_name(COMMANDS[cmd_name]) if cmd_name in COMMANDS else None

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
        except OSError as error:
            # Of the output, or of a file whose command says no more. Click deals with a closed pipe.
            if error.errno not in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
                raise
            place = error.filename or "the output"
            raise click.ClickException(
                f"Cannot write {place}: {error.strerror}. Free space, then try again."
            ) from error


def _print_help(ctx: click.Context, words: list[str]) -> None:
    """Print the help of a command and exit. Other words than those of a command are left to Click."""
    page = read_help_pages().get(" ".join(words))
    if page is not None:
        formatter = ctx.make_formatter()
        write_help(page, " ".join((ctx.command_path, *words)), formatter)
        click.echo(formatter.getvalue(), nl=False)
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tonne")
def main() -> None:
    """Tonne sells carbon offsets as orders.

    Settings come from environment variables (TONNE_PORT, TONNE_DATA_DIR, TONNE_DATABASE_URL, ...) or from the TOML
    file named by TONNE_CONFIG. tonne.example.toml documents all of them. Without TONNE_DATABASE_URL, Tonne starts an
    embedded PostgreSQL in its data folder.

    To try it out, run: tonne serve --demo
    """
