"""Settings: their sources, precedence and validation."""

import ipaddress
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tonne.platform.settings.load_settings import kubernetes_variables, load_settings
from tonne.platform.settings.settings import Settings, SettingsError


def _file(folder: Path, text: str) -> str:
    path = folder / "tonne.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def _refusal(environ: dict[str, str]) -> str:
    """The message of the SettingsError, which is one line."""
    with pytest.raises(SettingsError) as refusal:
        load_settings(environ)
    sentence = str(refusal.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def test_without_file_and_environment_the_defaults_apply() -> None:
    assert load_settings({"PATH": "/usr/bin", "HOME": "/root"}) == Settings()


def test_the_environment_wins_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    path = _file(tmp_path, 'port = 9000\nbrand = "Acme"\nkey_refresh_s = 0.5\n')
    settings = load_settings({"TONNE_CONFIG": path, "TONNE_PORT": "9001"})
    assert settings.port == 9001
    assert settings.brand == "Acme"
    assert settings.key_refresh_s == 0.5
    assert settings.host == "127.0.0.1"


def test_every_setting_can_be_set_by_its_variable() -> None:
    for field in msgspec.structs.fields(Settings):
        default = field.default
        # A value that is valid whatever the setting: its own default, spelled as the environment spells things.
        assert getattr(load_settings({f"TONNE_{field.name.upper()}": str(default)}), field.name) == default


def test_numbers_in_the_environment_are_read_as_numbers() -> None:
    settings = load_settings(
        {"TONNE_STATEMENT_TIMEOUT_S": "2.5", "TONNE_API_PROCESSES": "4", "TONNE_WORKER_POLL_S": "1"}
    )
    assert (settings.statement_timeout_s, settings.api_processes, settings.worker_poll_s) == (2.5, 4, 1.0)


@pytest.mark.parametrize("name", ["TONNE_PROT", "TONNE_", "TONNE_DATABASE", "TONNE_PORT_", "TONNE_port"])
def test_a_variable_that_is_no_setting_is_refused_by_name(name: str) -> None:
    """A misspelt variable that is silently ignored leaves the operator with a default and no hint."""
    sentence = _refusal({name: "1"})
    assert name in sentence
    assert "tonne.example.toml" in sentence


# What Kubernetes 1.31 sets for the Services `tonne` (ports http and metrics) and `tonne-api`.
_SERVICE_LINKS = {
    "TONNE_SERVICE_HOST": "10.96.0.7",
    "TONNE_SERVICE_PORT": "8080",
    "TONNE_SERVICE_PORT_HTTP": "8080",
    "TONNE_SERVICE_PORT_METRICS": "9090",
    "TONNE_PORT": "tcp://10.96.0.7:8080",
    "TONNE_PORT_8080_TCP": "tcp://10.96.0.7:8080",
    "TONNE_PORT_8080_TCP_PROTO": "tcp",
    "TONNE_PORT_8080_TCP_PORT": "8080",
    "TONNE_PORT_8080_TCP_ADDR": "10.96.0.7",
    "TONNE_API_SERVICE_HOST": "10.96.0.8",
    "TONNE_API_SERVICE_PORT": "80",
    "TONNE_API_PORT": "tcp://10.96.0.8:80",
    "TONNE_API_PORT_80_TCP": "tcp://10.96.0.8:80",
    "TONNE_API_PORT_80_TCP_PROTO": "tcp",
    "TONNE_API_PORT_80_TCP_PORT": "80",
    "TONNE_API_PORT_80_TCP_ADDR": "10.96.0.8",
}


def test_operations_15_variables_of_a_kubernetes_service_are_ignored(tmp_path: Path) -> None:
    assert load_settings(_SERVICE_LINKS) == Settings()
    assert kubernetes_variables(_SERVICE_LINKS) == sorted(_SERVICE_LINKS)
    path = _file(tmp_path, "port = 9000\n")
    assert load_settings({**_SERVICE_LINKS, "TONNE_CONFIG": path}).port == 9000
    assert load_settings({**_SERVICE_LINKS, "TONNE_PORT": "9001"}).port == 9001


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TONNE_PORT", "http://10.96.0.7:8080"),
        ("TONNE_PORTS", "tcp://10.96.0.7:8080"),
        ("TONNE_API_PORT", "8080"),
        ("TONNE_PORT_HTTP", "8080"),
        ("TONNE_SERVICE", "tonne"),
        ("TONNE_SERVICE_NAME", "tonne"),
    ],
)
def test_operations_15_variables_that_only_look_like_those_of_kubernetes_are_refused(name: str, value: str) -> None:
    assert kubernetes_variables({name: value}) == []
    assert name.removeprefix("TONNE_").lower() in _refusal({name: value}).lower()


@pytest.mark.parametrize("lease", ["5", "30", "30.5", "44.9"])
def test_operations_15_a_webhook_lease_must_outlast_the_request(lease: str) -> None:
    sentence = _refusal({"TONNE_WEBHOOK_LEASE_S": lease})
    assert "TONNE_WEBHOOK_LEASE_S" in sentence
    assert "TONNE_WEBHOOK_TIMEOUT_S" in sentence
    assert load_settings({"TONNE_WEBHOOK_LEASE_S": lease, "TONNE_WEBHOOK_TIMEOUT_S": "3"}).webhook_timeout_s == 3


def test_a_webhook_lease_of_one_and_a_half_timeouts_is_accepted() -> None:
    for timeout, lease in (("30", "45"), ("0.2", "0.3"), ("0.1", "0.15"), ("1.1", "1.65")):
        settings = load_settings({"TONNE_WEBHOOK_LEASE_S": lease, "TONNE_WEBHOOK_TIMEOUT_S": timeout})
        assert settings.webhook_lease_s == float(lease)


def test_other_programs_variables_are_left_alone() -> None:
    assert load_settings({"TONNEAU": "1", "tonne_port": "1", "MY_TONNE_PORT": "1"}) == Settings()


def test_an_unknown_name_in_the_file_is_refused(tmp_path: Path) -> None:
    assert "prot" in _refusal({"TONNE_CONFIG": _file(tmp_path, "prot = 8080\n")})
    assert "server" in _refusal({"TONNE_CONFIG": _file(tmp_path, "[server]\nport = 8080\n")})


@pytest.mark.parametrize("content", [b"port = ", b"port 8080", b"\xff\xfe", b"port = 1\nport = 2\n"])
def test_a_file_that_is_not_toml_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tonne.toml"
    path.write_bytes(content)
    assert str(path) in _refusal({"TONNE_CONFIG": str(path)})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    assert str(missing) in _refusal({"TONNE_CONFIG": str(missing)})
    assert str(tmp_path) in _refusal({"TONNE_CONFIG": str(tmp_path)})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *(("TONNE_PORT", value) for value in ("", "0", "-1", "65536", "http", "80.5", "8_080", " 80", "nan")),
        *(("TONNE_BRAND", value) for value in ("", "-x", "1st", "Acme Ltd", "Acme:", "ü", "a" * 41, "a\r\nX-Evil: 1")),
        *(("TONNE_LOG_LEVEL", value) for value in ("", "INFO", "verbose", "info\n")),
        *(("TONNE_STATEMENT_TIMEOUT_S", value) for value in ("0", "-1", "nan", "inf", "601", "ten")),
        *(("TONNE_KEY_REFRESH_S", value) for value in ("-0.1", "5.1", "nan")),
        *(("TONNE_CATALOGUE_REFRESH_S", value) for value in ("-1", "61")),
        *(("TONNE_WORKER_POLL_S", value) for value in ("0", "61")),
        ("TONNE_API_PROCESSES", "0"),
        ("TONNE_API_PROCESSES", "65"),
        ("TONNE_DATABASE_CONNECTIONS", "1"),
        ("TONNE_DATABASE_CONNECTIONS", "501"),
        ("TONNE_RATE_LIMIT_PER_SECOND", "0"),
        ("TONNE_RATE_LIMIT_BURST", "0"),
        ("TONNE_FAILED_AUTH_PER_MINUTE", "0"),
        ("TONNE_FAILED_AUTH_BURST", "0"),
        *(("TONNE_PRICING_RETRY_S", value) for value in ("0", "inf", "1e300")),
        *(("TONNE_PRICING_GIVE_UP_S", value) for value in ("0", "inf", "1e300")),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_the_setting_named(variable: str, value: str) -> None:
    assert variable.removeprefix("TONNE_").lower() in _refusal({variable: value}).lower()


def test_a_wrong_type_in_the_file_is_refused(tmp_path: Path) -> None:
    assert "port" in _refusal({"TONNE_CONFIG": _file(tmp_path, 'port = "many"\n')})
    assert "host" in _refusal({"TONNE_CONFIG": _file(tmp_path, "host = [1]\n")})


@pytest.mark.parametrize(
    "url",
    [
        *("offsets.example.com", "ftp://offsets.example.com", "https://", "https:///path", "//offsets.example.com"),
        *("https://offsets.example.com?a=1", "https://offsets.example.com#a", "javascript:alert(1)", "http://[::1"),
        *("https://offsets example.com", "https://offsets.example.com/\n", "https://offsets.example.com:99999"),
    ],
)
def test_a_public_url_that_clients_could_not_follow_is_refused(url: str) -> None:
    assert "TONNE_PUBLIC_URL" in _refusal({"TONNE_PUBLIC_URL": url})


@pytest.mark.parametrize(
    "url",
    ["mysql://user:hunter2@db/tonne", "user:hunter2@db/tonne", "sqlite:///hunter2", "postgresql://u:hunter2@[::1/x"],
)
def test_a_wrong_database_url_is_refused_without_repeating_its_password(url: str) -> None:
    sentence = _refusal({"TONNE_DATABASE_URL": url})
    assert "TONNE_DATABASE_URL" in sentence
    assert "hunter2" not in sentence


POOLED = {"TONNE_DATABASE_URL": "postgresql://u@pooler/db", "TONNE_DATABASE_POOLING": "transaction"}
DIRECT = {"TONNE_DATABASE_DIRECT_URL": "postgresql://u:hunter2@db/db"}


def test_operations_c_a_transaction_pooler_needs_a_direct_url() -> None:
    assert load_settings({**POOLED, **DIRECT}).database_pooling == "transaction"
    assert "TONNE_DATABASE_DIRECT_URL must be set" in _refusal(POOLED)
    assert "TONNE_DATABASE_DIRECT_URL is set without TONNE_DATABASE_URL" in _refusal(DIRECT)
    replica = {"TONNE_DATABASE_REPLICA_URL": "postgresql://u@replica/db"}
    assert "TONNE_DATABASE_REPLICA_URL is set without TONNE_DATABASE_URL" in _refusal(replica)
    wrong = {"TONNE_DATABASE_DIRECT_URL": "mysql://u:hunter2@db/db"}
    assert "hunter2" not in _refusal({**POOLED, **wrong})
    assert "statement" in _refusal({**POOLED, **DIRECT, "TONNE_DATABASE_POOLING": "statement"})


def test_both_spellings_of_a_postgresql_address_are_taken() -> None:
    for url in ("postgresql://tonne@db:5432/tonne", "postgres://tonne@db/tonne", "postgresql://postgres@/x?host=/run"):
        assert load_settings({"TONNE_DATABASE_URL": url}).database_url == url


def test_trusted_proxies_are_a_list_of_networks_and_single_addresses() -> None:
    settings = load_settings({"TONNE_TRUSTED_PROXIES": " 10.0.0.0/8, 192.0.2.7 ,,fd00::/8"})
    assert settings.proxy_networks == (
        ipaddress.ip_network("10.0.0.0/8"),
        ipaddress.ip_network("192.0.2.7/32"),
        ipaddress.ip_network("fd00::/8"),
    )
    assert load_settings({}).proxy_networks == ()


@pytest.mark.parametrize("proxies", ["10.0.0.0/33", "10.0.0.1/8", "localhost", "10.0.0.0/8;10.1.0.0/16", "*"])
def test_trusted_proxies_that_are_no_networks_are_refused(proxies: str) -> None:
    assert "TONNE_TRUSTED_PROXIES" in _refusal({"TONNE_TRUSTED_PROXIES": proxies})


@pytest.mark.parametrize(
    ("settings", "base_url"),
    [
        (Settings(), "http://localhost:8080"),
        (Settings(host="192.0.2.1", port=80), "http://192.0.2.1:80"),
        (Settings(host="0.0.0.0"), "http://localhost:8080"),  # noqa: S104 - what a client of such a server calls
        (Settings(host="::"), "http://localhost:8080"),
        (Settings(host="::1"), "http://[::1]:8080"),
        (Settings(public_url="https://offsets.example.com/"), "https://offsets.example.com"),
        (Settings(public_url="https://example.com/offsets//"), "https://example.com/offsets"),
    ],
)
def test_the_base_url_is_where_a_client_reaches_the_service(settings: Settings, base_url: str) -> None:
    assert settings.base_url == base_url


def test_the_data_folder_is_absolute_and_knows_the_home_folder() -> None:
    assert Settings().data_path == Path.cwd() / "var"
    assert Settings(data_dir="~/tonne").data_path == Path.home() / "tonne"


def test_a_data_folder_in_an_unknown_home_is_refused_in_a_sentence() -> None:
    assert "TONNE_DATA_DIR" in _refusal({"TONNE_DATA_DIR": "~nobody-has-this-name/tonne"})


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        Settings().port = 1  # type: ignore[misc]


def test_reading_settings_loads_neither_server_nor_database() -> None:
    """They are read first, so that a bad one is refused at once."""
    heavy = "{'aiohttp', 'asyncpg', 'granian'}"
    code = f"import sys, tonne.platform.settings.settings; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h1:5432,h2:5433/db?target_session_attrs=primary",
        "postgresql://u:p@h1,h2/db",
        "postgresql://postgres@/tonne?host=/tmp/socket%20folder",
    ],
)
def test_operations_14_a_database_url_may_name_several_hosts(url: str) -> None:
    assert load_settings({"TONNE_DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize("token", ["short", "with a space in between", "ümlaute-sind-nicht-erlaubt", "x" * 251])
def test_a_metrics_token_that_could_be_guessed_or_not_sent_is_refused(token: str) -> None:
    message = _refusal({"TONNE_METRICS_TOKEN": token})
    assert "TONNE_METRICS_TOKEN" in message
    assert token not in message


def test_the_metrics_need_a_port_of_their_own() -> None:
    assert "TONNE_METRICS_PORT" in _refusal({"TONNE_METRICS_PORT": "8080"})
    assert load_settings({"TONNE_METRICS_PORT": "9464"}).metrics_host == "127.0.0.1"
