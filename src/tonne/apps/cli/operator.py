"""Who runs a command: the user of the personal token of `tonne login`, or only a user of the operating system."""

import os
import pwd
import socket
import stat
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import click
from msgspec import Struct

from tonne.platform.process.private_files import create_private_folder, write_private_file
from tonne.platform.values.context import Actor, ActorKind, By, is_id

# What the kernel has for processes that do not belong to a login, such as those of containers.
_NO_LOGIN = 2**32 - 1
_NOT_VALID = "Your login has expired or was revoked. Run `tonne login` again, or `tonne logout` to go on without it."


class Login(Struct, frozen=True):
    """What `tonne login` keeps. Whether the token belongs to the user is proved before a command does anything."""

    user_id: str
    token: str


class CommandLine:
    """Read when it is needed: the file may be refused, and most commands that only read do not ask."""

    @property
    def login(self) -> Login | None:
        return read_login()

    @property
    def unbound(self) -> Actor:
        """Also for what the service itself does."""
        return operator(os.environ)

    @property
    def actor(self) -> Actor:
        login, unbound = self.login, self.unbound
        if login is None:
            return unbound
        claims = " ".join(filter(None, (unbound.name, unbound.address)))
        return Actor(ActorKind.USER, login.user_id, claims)

    def at(self, moment: datetime) -> By:
        return self.actor.at(moment)

    def now(self) -> By:
        return self.actor.now()


def operator(environment: Mapping[str, str]) -> Actor:
    """The effective user of this process and the host. What else the environment claims decides nothing.

    The user comes from the system, not from $USER: that is missing in containers and cron jobs, and anyone can set it.
    """
    user = _user_name(os.geteuid())
    claims = {"SUDO_USER": environment.get("SUDO_USER"), "loginuid": _login_user()}
    said = " ".join(f"{name}={claim[:100]}" for name, claim in claims.items() if claim and claim != user)
    return Actor(ActorKind.CLI, f"{user}@{socket.gethostname()}", said or None)


def _login_user() -> str | None:
    try:
        uid = int(Path("/proc/self/loginuid").read_text("ascii"))
    except (OSError, ValueError):
        return None
    return None if uid == _NO_LOGIN else _user_name(uid)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # Containers may run as a user that has no entry in /etc/passwd.
        return f"uid {uid}"


def login_file() -> Path:
    folder = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(folder) / "tonne" / "login"


def read_login() -> Login | None:
    """Raises ClickException for a file that another user owns or may read: the token may be known, or not ours."""
    path = login_file()
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            found, text = os.fstat(file.fileno()), file.read(1000)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise click.ClickException(f"{path} cannot be read ({error}). Remove it, then run `tonne login`.") from error
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise click.ClickException(
            f"{path} must belong to you, and nobody else may read it. Revoke its token on the page You, remove the "
            "file, then run `tonne login`."
        )
    user_id, _, token = text.strip().partition(" ")
    if not is_id("usr", user_id):
        raise click.ClickException(_NOT_VALID)
    return Login(user_id, token)


def write_login(login: Login) -> None:
    path = login_file()
    create_private_folder(path.parent)
    write_private_file(path, f"{login.user_id} {login.token}\n".encode())


def refuse_login() -> click.ClickException:
    return click.ClickException(_NOT_VALID)
