"""Settings that are read from files named by environment variables."""

import base64
from pathlib import Path

import msgspec
import pytest

from tonne.platform.settings.load_settings import MAX_FILE_BYTES, load_settings, setting_files, with_settings
from tonne.platform.settings.settings import SETTING_NAMES, Settings, SettingsError

URL = "postgresql://tonne:a-password@db.example.com/tonne"


def _file(folder: Path, content: str | bytes, name: str = "value") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


def _refusal(environ: dict[str, str]) -> str:
    with pytest.raises(SettingsError) as refusal:
        load_settings(environ)
    assert "a-password" not in str(refusal.value)
    return str(refusal.value)


def test_every_setting_can_be_read_from_a_file(tmp_path: Path) -> None:
    for field in msgspec.structs.fields(Settings):
        if str(field.default):
            path = _file(tmp_path, f"{field.default}\n")
            variable = f"TONNE_{field.name.upper()}_FILE"
            assert getattr(load_settings({variable: path}), field.name) == field.default


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\n\n"])
def test_line_breaks_at_the_end_are_removed_and_nothing_else(tmp_path: Path, ending: str) -> None:
    key = base64.b64encode(bytes(32)).decode()
    assert load_settings({"TONNE_SECRET_KEY_FILE": _file(tmp_path, key + ending)}).secret_key == key
    assert load_settings({"TONNE_SELLER_NAME_FILE": _file(tmp_path, f" A  B {ending}")}).seller_name == " A  B "


def test_the_file_of_a_variable_wins_over_the_settings_file(tmp_path: Path) -> None:
    config = _file(tmp_path, 'port = 9000\ndatabase_url = "postgresql://other/"\n', "tonne.toml")
    settings = load_settings({"TONNE_CONFIG": config, "TONNE_DATABASE_URL_FILE": _file(tmp_path, URL)})
    assert (settings.database_url, settings.port) == (URL, 9000)


def test_a_setting_whose_own_name_ends_in_file_is_not_a_file_of_another(tmp_path: Path) -> None:
    bundle = _file(tmp_path, "certificates", "ca.pem")
    assert load_settings({"TONNE_WEBHOOK_CA_FILE": bundle}).webhook_ca_file == bundle
    path = _file(tmp_path, bundle)
    assert load_settings({"TONNE_WEBHOOK_CA_FILE_FILE": path}).webhook_ca_file == bundle
    assert list(setting_files({"TONNE_WEBHOOK_CA_FILE": bundle}, SETTING_NAMES)) == []


def test_a_value_and_a_file_for_the_same_setting_are_refused(tmp_path: Path) -> None:
    both = {"TONNE_DATABASE_URL": URL, "TONNE_DATABASE_URL_FILE": _file(tmp_path, URL)}
    for environ in (both, dict(reversed(both.items())), {**both, "TONNE_DATABASE_URL": ""}):
        assert _refusal(environ) == ("Both TONNE_DATABASE_URL and TONNE_DATABASE_URL_FILE are set: remove one of them.")


def test_operations_15_a_port_that_kubernetes_sets_is_no_second_value(tmp_path: Path) -> None:
    path = _file(tmp_path, "9000")
    assert load_settings({"TONNE_PORT": "tcp://10.96.0.7:8080", "TONNE_PORT_FILE": path}).port == 9000


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    for path, reason in (
        (str(tmp_path / "absent"), "No such file or directory"),
        (str(tmp_path), "Is a directory"),
        ("", "Is a directory"),
        ("a\0b", "embedded null byte"),
        (_file(tmp_path, b"\xff\xfe", "binary"), "not UTF-8"),
        (_file(tmp_path, "\n", "empty"), "is empty"),
        (_file(tmp_path, b"x" * (MAX_FILE_BYTES + 1), "large"), "too large"),
    ):
        sentence = _refusal({"TONNE_DATABASE_URL_FILE": path})
        assert "TONNE_DATABASE_URL_FILE" in sentence
        assert repr(path) in sentence
        assert reason in sentence


@pytest.mark.parametrize("name", ["TONNE_CONFIG_FILE", "TONNE_API_KEY_FILE", "TONNE_FILE", "TONNE_PROT_FILE"])
def test_a_file_of_something_that_is_no_setting_is_refused(name: str) -> None:
    assert name in _refusal({name: "/dev/null"})


def test_an_invalid_value_in_a_file_is_refused_like_one_in_the_variable(tmp_path: Path) -> None:
    path = _file(tmp_path, "mysql://tonne:a-password@db.example.com/tonne")
    assert "TONNE_DATABASE_URL must be a URL" in _refusal({"TONNE_DATABASE_URL_FILE": path})


def test_child_processes_get_the_settings_of_their_parent_and_not_its_files(tmp_path: Path) -> None:
    environ = with_settings(
        {"TONNE_DATABASE_URL_FILE": _file(tmp_path, "postgresql://other/"), "TONNE_DRAIN_S": "9"},
        database_url=URL,
        drain_s="0",
    )
    settings = load_settings(environ)
    assert (settings.database_url, settings.drain_s) == (URL, 0)
