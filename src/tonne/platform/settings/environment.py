"""Settings in environment variables: by value (`TONNE_PORT`) or in files (`TONNE_SECRET_KEY_FILE`)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PREFIX, FILE_SUFFIX = "TONNE_", "_FILE"
CONFIG_VARIABLE = "TONNE_CONFIG"
DATABASE_URL_VARIABLE = "TONNE_DATABASE_URL"
# Used by commands that call the API. They are not settings of the service.
API_KEY_VARIABLE, API_URL_VARIABLE = "TONNE_API_KEY", "TONNE_API_URL"
LISTEN_VARIABLE = "TONNE_LISTEN_SECRET"
_NOT_SETTINGS = {CONFIG_VARIABLE, API_KEY_VARIABLE, API_URL_VARIABLE, LISTEN_VARIABLE}
# More than any setting needs. A variable that names a device or a log must not fill the memory.
MAX_FILE_BYTES = 100_000
# Kubernetes sets these in every container of a namespace that has a Service named `tonne` or `tonne-…`.
_SERVICE_VARIABLE = re.compile(
    r"TONNE_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_SERVICE_ADDRESS_VARIABLE = re.compile(r"TONNE_([A-Z0-9_]+_)?PORT")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://[^/]+")


class VariableInvalid(Exception):
    """The message names the variable and says what to do. It never repeats a value."""


def read_variables(environ: Mapping[str, str], settings: Iterable[str]) -> dict[str, str]:
    """The values of the settings in the environment and in the files that it names. Raises VariableInvalid."""
    setting_of = {variable_of(name): name for name in settings}
    values = {}
    for variable, text in environ.items():
        if not variable.startswith(PREFIX) or variable in _NOT_SETTINGS or _is_from_kubernetes(variable, text):
            continue
        if variable in setting_of:
            values[setting_of[variable]] = text
            continue
        without_suffix = variable.removesuffix(FILE_SUFFIX)
        if without_suffix == variable or without_suffix not in setting_of:
            raise VariableInvalid(f"{variable} is not a setting of Tonne: see tonne.example.toml for the list.")
        if without_suffix in environ and not _is_from_kubernetes(without_suffix, environ[without_suffix]):
            raise VariableInvalid(f"Both {without_suffix} and {variable} are set: remove one of them.")
        values[setting_of[without_suffix]] = _read(variable, text)
    return values


def variable_of(setting: str) -> str:
    return f"{PREFIX}{setting.upper()}"


def setting_files(environ: Mapping[str, str], settings: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """The variables that name the file of a setting, with that file."""
    variables = {variable_of(name) for name in settings}
    for variable, text in environ.items():
        if variable not in variables and variable.removesuffix(FILE_SUFFIX) in variables:
            yield variable, Path(text)


def with_settings(environ: Mapping[str, str], **settings: str) -> dict[str, str]:
    """The environment of a process that uses these settings, however they were given to its parent."""
    values = {variable_of(name): text for name, text in settings.items()}
    files = {variable + FILE_SUFFIX for variable in values}
    return {name: text for name, text in environ.items() if name not in files} | values


def kubernetes_variables(environ: Mapping[str, str]) -> list[str]:
    """The variables that Kubernetes sets for a Service of our name. They are not settings and are ignored."""
    return sorted(name for name, text in environ.items() if _is_from_kubernetes(name, text))


def _is_from_kubernetes(variable: str, text: str) -> bool:
    if _SERVICE_VARIABLE.fullmatch(variable):
        return True
    # TONNE_PORT is also a setting: only its value tells the two apart.
    return bool(_SERVICE_ADDRESS_VARIABLE.fullmatch(variable) and _SERVICE_ADDRESS.fullmatch(text))


def _read(variable: str, path: str) -> str:
    """Without the line break at the end, which editors and `openssl rand` add."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise VariableInvalid(
            f"The file {path!r} in {variable} cannot be read: {reason}. Check the path, and that the user of Tonne may "
            "read the file."
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise VariableInvalid(f"The file {path!r} in {variable} is too large: a setting has at most 100 KB.")
    try:
        text = content.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise VariableInvalid(
            f"The file {path!r} in {variable} is not UTF-8 text: write the value as you would in the variable."
        ) from error
    if not text:
        raise VariableInvalid(f"The file {path!r} in {variable} is empty: write the value into it.")
    return text
