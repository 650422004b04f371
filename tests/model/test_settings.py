"""Settings: one definition each; flag over environment over file over default; mistakes are reported, not ignored."""

import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from sqew.errors import BadSetting
from sqew.settings import (
    DEFINITIONS,
    FILE_NAMES,
    Settings,
    as_markdown,
    find_file,
    placed,
    resolve,
    switch,
    text,
    unused,
)

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a settings file and returns its path."""

    def write(name, content):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def from_environment(**environ):
    return resolve({}, environ, None)


def test_a_flag_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default(write):
    file = write("sqew.toml", "max_batch = 1\nmax_depth = 1\nmax_attempts = 1\n")
    environ = {"SQEW_MAX_BATCH": "2", "SQEW_MAX_DEPTH": "2"}

    settings = resolve({"max_batch": "3"}, environ, file)

    assert (settings.max_batch, settings.max_depth, settings.max_attempts, settings.event_log_keep) == (3, 2, 1, 10)


def test_each_value_tells_where_it_came_from(write):
    file = write("sqew.yaml", "durability: fast\n")

    sources = resolve({"db": "a.db"}, {"LOG_LEVEL": "debug", "SQEW_MAX_BATCH": "7"}, file).sources

    assert sources["db"] == "flag --db"
    assert sources["log_level"] == "environment LOG_LEVEL"
    assert sources["max_batch"] == "environment SQEW_MAX_BATCH"
    assert sources["durability"] == f"file {file}: durability"
    assert sources["busy_timeout_ms"] == "default"
    assert sources.keys() == DEFINITIONS.keys()


def test_a_flag_that_was_not_given_leaves_the_value_alone():
    settings = resolve({"db": None}, {"SQEW_DB": "env.db"}, None)

    assert settings.db == "env.db"


def test_nothing_given_is_all_defaults():
    assert resolve({}, {"PATH": "/bin", "HOME": "/root"}, None) == Settings(
        sources=dict.fromkeys(DEFINITIONS, "default")
    )


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_default_is_itself_an_allowed_value_in_every_place(name, write):
    setting = DEFINITIONS[name]
    default = setting.default
    toml = (
        f'"{default}"' if isinstance(default, str) else setting.show(default) if isinstance(default, bool) else default
    )

    resolved = [
        resolve({name: default}, {}, None),
        resolve({name: str(default)}, {}, None),
        resolve({}, {setting.variable: str(default)}, None),
        resolve({}, {}, write("sqew.toml", f"{name} = {toml}\n")),
        resolve({}, {}, write("sqew.yaml", f"{name}: {toml}\n")),
    ]

    assert [getattr(settings, name) for settings in resolved] == [default] * len(resolved)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_default_can_be_given_as_it_is_shown(name):
    setting = DEFINITIONS[name]

    assert setting.parse(setting.show(setting.default), "here") == setting.default


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("event_log_max_bytes", "64MiB", 64 << 20),
        ("event_log_max_bytes", "64 mib", 64 << 20),
        ("event_log_max_bytes", "5MB", 5_000_000),
        ("event_log_max_bytes", "1.5 GiB", 3 << 29),
        ("max_body_bytes", "512", 512),
        ("cache_kib", "2048", 2_048),
        ("cache_kib", "2MiB", 2_048),
        ("cache_kib", "131072B", 128),
        ("visibility_ms", "30s", 30_000),
        ("visibility_ms", "0.25s", 250),
        ("visibility_ms", "5m", 300_000),
        ("visibility_ms", "250", 250),
        ("visibility_ms", "0", 0),
        ("archive_retention_ms", "2d", 172_800_000),
    ],
)
def test_sizes_and_durations_may_have_a_unit(name, written, value):
    assert getattr(resolve({name: written}, {}, None), name) == value


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("delivery_retries", "soon"),
        ("delivery_retries", "10s, 31d"),
        ("delivery_retries", "0"),
        ("base_url", "queue.example.com"),
        ("base_url", "ftp://queue.example.com"),
        ("base_url", "https://"),
        ("base_url", "https://queue.example.com/?a=1"),
        ("base_url", "https://queue.example.com/a b"),
        ("base_url", "https://user:secret@queue.example.com"),
        ("account_id", "12345"),
        ("account_id", "12345678901x"),
        ("account_id", ""),
    ],
)
def test_a_text_that_can_not_be_meant_was_found_out_when_it_was_used(name, given):
    with pytest.raises(BadSetting, match=rf"^{name} can't be '.*' \(flag --{name.replace('_', '-')}\): it must be "):
        resolve({name: given}, {}, None)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("delivery_retries", ""),
        ("delivery_retries", "500, 1s 5m"),
        ("base_url", ""),
        ("base_url", "http://localhost:8888"),
        ("base_url", "https://queue.example.com/sqew/"),
        ("base_url", "http://[::1]:8888"),
        ("account_id", "123456789012"),
    ],
)
def test_a_text_of_the_right_form_is_taken_as_it_is(name, given):
    assert getattr(resolve({name: given}, {}, None), name) == given


def test_values_are_shown_in_the_largest_unit_that_is_exact_and_binary():
    size, duration = DEFINITIONS["max_body_bytes"], DEFINITIONS["visibility_ms"]

    assert [size.show(n) for n in (0, 5_000, 5_120, 1 << 20)] == ["0 B", "5000 B", "5 KiB", "1 MiB"]
    assert [duration.show(n) for n in (0, 1_500, 90_000, 7_200_000)] == ["0 ms", "1500 ms", "90 s", "2 h"]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("max_batch", "lots"),
        ("max_batch", ""),
        ("max_batch", "1.5"),
        ("max_batch", "5s"),
        ("max_batch", 0),
        ("max_batch", 100_001),
        ("max_batch", -1),
        ("max_batch", "-1"),
        ("max_batch", True),
        ("max_batch", 2.0),
        ("max_batch", [1]),
        ("max_batch", "٣"),
        ("max_batch", "9" * 5_000),
        ("visibility_ms", "5 parsecs"),
        ("visibility_ms", "13h"),
        ("visibility_ms", "0.1ms"),
        ("visibility_ms", "MiB"),
        ("cache_kib", "70000B"),
        ("durability", "durably"),
        ("durability", 1),
        ("log_level", 3),
        ("db", ""),
        ("db", 5),
        ("db", "a\0b"),
        ("db", "postgres://host/queue"),
    ],
)
def test_a_wrong_value_is_refused_with_the_setting_the_source_and_what_is_allowed(name, given):
    with pytest.raises(BadSetting) as caught:
        resolve({name: given}, {}, None)

    sentence = str(caught.value)
    assert sentence.startswith(f"{name} can't be ")
    assert f"(flag {DEFINITIONS[name].flag})" in sentence
    assert DEFINITIONS[name].allowed in sentence
    assert len(sentence) < 250


def test_a_wrong_value_names_the_variable_or_the_key_it_came_from(write):
    file = write("sqew.toml", "max_depth = 0\n")

    with pytest.raises(BadSetting, match=r"max_depth can't be 0 \(file .*sqew\.toml: max_depth\): .* from 1 to 500"):
        resolve({}, {}, file)
    with pytest.raises(
        BadSetting, match=r"log_level can't be 'loud' \(environment LOG_LEVEL\): .* debug, info, warning"
    ):
        from_environment(LOG_LEVEL="loud")


def test_a_wrong_value_is_refused_even_where_a_stronger_one_replaces_it(write):
    file = write("sqew.toml", "max_batch = 0\n")

    with pytest.raises(BadSetting, match="max_batch"):
        resolve({"max_batch": 5}, {}, file)


def test_choices_may_be_written_in_capitals():
    assert from_environment(LOG_LEVEL="WARNING").log_level == "warning"


def test_an_alias_is_weaker_than_the_setting_s_own_variable():
    assert from_environment(DB_PATH="alias.db").db == "alias.db"
    assert from_environment(DATABASE="alias.db").db == "alias.db"
    assert from_environment(DB_PATH="alias.db", SQEW_DB="own.db").db == "own.db"


def test_an_alias_is_not_even_looked_at_where_the_own_variable_is_set():
    assert from_environment(LOG_LEVEL="other_program=trace", SQEW_LOG_LEVEL="error").log_level == "error"


@pytest.mark.parametrize("variable", ["SQEW_BIND", "LISTEN_ADDR", "QUEUE_ADDRESS"])
@pytest.mark.parametrize(
    ("given", "host", "port"),
    [
        ("0.0.0.0", "0.0.0.0", 8_888),
        ("10.0.0.1:80", "10.0.0.1", 80),
        (" localhost:80\n", "localhost", 80),
        (":80", "0.0.0.0", 80),
        ("::", "::", 8_888),
        ("::1", "::1", 8_888),
        ("[::1]", "::1", 8_888),
        ("[::1]:80", "::1", 80),
        ("", "127.0.0.1", 8_888),
    ],
)
def test_an_address_to_listen_at_may_leave_the_port_open(variable, given, host, port):
    settings = from_environment(**{variable: given})

    assert (settings.host, settings.port) == (host, port)


def test_a_bare_number_in_the_visibility_alias_counts_seconds():
    assert from_environment(QUEUE_DEFAULT_VISIBILITY_TIMEOUT="45").visibility_ms == 45_000
    assert from_environment(QUEUE_DEFAULT_VISIBILITY_TIMEOUT="45ms").visibility_ms == 45
    assert from_environment(SQEW_VISIBILITY_MS="45").visibility_ms == 45


DATABASE = "postgresql://app:hush@db.example.com/queues"


def test_the_connections_of_the_alias_are_all_that_a_server_has():
    """Check that the alias counts two more: the connections that notify others and do upkeep."""
    assert from_environment(QUEUE_MAX_CONNECTIONS="10").database_connections == Settings().database_connections == 8
    assert from_environment(QUEUE_MAX_CONNECTIONS="40").database_connections == 38
    assert from_environment(QUEUE_MAX_CONNECTIONS="1").database_connections == 1
    with pytest.raises(BadSetting, match="environment QUEUE_MAX_CONNECTIONS"):
        from_environment(QUEUE_MAX_CONNECTIONS="many")


def test_the_linger_of_the_alias_counts_milliseconds():
    assert from_environment(QUEUE_LINGER_MS="5").linger_ms == 5


def test_what_others_call_their_database_is_used_by_who_is_meant_to_alone():
    """Check DATABASE_URL: it was ignored, and the server made a new file for queues believed to be in the database."""
    environ = {"DATABASE_URL": DATABASE}

    assert resolve({}, environ, None).database_url == ""
    shared = resolve({}, environ, None, shared=True)
    assert shared.database_url == DATABASE
    assert shared.sources["database_url"] == "environment DATABASE_URL"


def test_what_others_call_their_database_is_weaker_than_the_settings_file(write):
    file = write("sqew.toml", 'database_url = "postgresql://own.example.com/queues"\n')

    settings = resolve({}, {"DATABASE_URL": DATABASE}, file, shared=True)

    assert settings.database_url == "postgresql://own.example.com/queues"


def test_the_url_of_a_database_may_name_the_driver_of_another_program():
    given = resolve({"database_url": "postgresql+psycopg://app:pw@db/queues"}, {}, None).database_url

    assert given == "postgresql://app:pw@db/queues"


@pytest.mark.parametrize(
    ("flags", "environ", "place", "words"),
    [
        ({}, {}, "queue.db", None),
        ({}, {"DATABASE_URL": DATABASE}, DATABASE, None),
        ({}, {"DATABASE_URL": "postgres://db.example.com/q"}, "postgres://db.example.com/q", None),
        ({}, {"DATABASE_URL": "mysql://db.example.com/shop"}, "queue.db", "it names no PostgreSQL database"),
        ({"db": "own.db"}, {"DATABASE_URL": "mysql://db.example.com/shop"}, "own.db", None),
        ({"db": "own.db"}, {"DATABASE_URL": DATABASE}, "own.db", "in own.db (flag --db)"),
        ({"db": "own.db"}, {"SQEW_DATABASE_URL": DATABASE}, "own.db", "in own.db (flag --db)"),
        ({}, {"SQEW_DB": "own.db", "DATABASE_URL": DATABASE}, "own.db", "in own.db (environment SQEW_DB)"),
        ({}, {"SQEW_DB": "own.db", "SQEW_DATABASE_URL": DATABASE}, DATABASE, "The file that environment SQEW_DB names"),
        ({"database_url": DATABASE}, {"DB_PATH": "own.db"}, DATABASE, "The file that environment DB_PATH names"),
    ],
)
def test_a_server_says_which_of_two_places_it_uses(flags, environ, place, words):
    settings, notices = placed(resolve(flags, environ, None, shared=True), environ)

    assert (settings.database_url or settings.db) == place
    assert len(notices) == (words is not None)
    assert words is None or words in notices[0]
    assert "hush" not in "".join(notices)


@pytest.mark.parametrize(
    ("flags", "environ", "words"),
    [
        ({"db": "own.db", "database_url": DATABASE}, {}, "Give one of the two"),
        ({}, {"DB_PATH": "own.db", "DATABASE_URL": DATABASE}, "DB_PATH names a file and DATABASE_URL a database"),
    ],
)
def test_two_places_of_which_neither_is_meant_more_are_refused(flags, environ, words):
    with pytest.raises(BadSetting, match=words):
        placed(resolve(flags, environ, None, shared=True), environ)


@pytest.mark.parametrize(
    ("environ", "notices"),
    [
        (
            {"QUEUE_LINGERS_MS": "5"},
            ["The environment variable QUEUE_LINGERS_MS sets nothing here (did you mean 'QUEUE_LINGER_MS'?)."],
        ),
        ({"QUEUE_SERVICE_HOST": "10.0.0.1", "QUEUE_PORT": "tcp://10.0.0.1:80", "QUEUE_PORT_80_TCP": "x"}, []),
        (
            {"PORT": "80", "SQEW_PORT": "8000"},
            ["The environment variable PORT is not used: port is what environment SQEW_PORT says."],
        ),
        ({"PORT": "80", "SQEW_PORT": "80"}, []),
        (
            {"LOG_LEVEL": "app=1", "SQEW_LOG_LEVEL": "error"},
            ["The environment variable LOG_LEVEL is not used: log_level is what environment SQEW_LOG_LEVEL says."],
        ),
    ],
)
def test_a_variable_that_seems_to_set_something_and_does_not_is_told(environ, notices):
    assert unused(environ, resolve({}, environ, None)) == notices


def test_an_empty_variable_is_not_set_unless_empty_means_something(write):
    file = write("sqew.toml", 'db = "file.db"\nevent_log = "events.jsonl"\n')

    settings = resolve({}, {"SQEW_DB": "", "DATABASE": "", "SQEW_EVENT_LOG": ""}, file)

    assert settings.db == "file.db"
    assert settings.event_log == ""


@pytest.mark.parametrize(("name", "content"), [("sqew.toml", "durabilty = 'fast'"), ("sqew.yml", "durabilty: fast")])
def test_an_unknown_key_in_a_file_is_refused_with_the_nearest_name(write, name, content):
    with pytest.raises(BadSetting, match=rf"{name} has a key 'durabilty'.*did you mean 'durability'"):
        resolve({}, {}, write(name, content))


def test_an_unknown_sqew_variable_is_refused_with_the_nearest_name():
    with pytest.raises(BadSetting, match=r"SQEW_MAX_BACH.*did you mean 'SQEW_MAX_BATCH'"):
        from_environment(SQEW_MAX_BACH="5")


def test_an_unknown_flag_is_refused_with_the_nearest_name():
    with pytest.raises(BadSetting, match=r"'durabilty'.*did you mean 'durability'"):
        resolve({"durabilty": "fast"}, {}, None)


def test_the_variable_that_names_the_file_is_known():
    assert from_environment(SQEW_CONFIG="elsewhere.toml") == from_environment()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("sqew.toml", "db = ", "can't be understood"),
        ("sqew.toml", "max_batch = 1\nmax_batch = 2", "can't be understood"),
        ("sqew.toml", "[db]\nfile = 'a'", "db can't be {'file': 'a'}"),
        ("sqew.yaml", "max_batch: 1\nmax_batch: 2", "sets max_batch twice"),
        ("sqew.yaml", "db: [", "can't be understood"),
        ("sqew.yaml", "[" * 5_000, "can't be understood"),
        ("sqew.yaml", "- db", "must be a list of lines such as"),
        ("sqew.yaml", "just words", "must be a list of lines such as"),
        ("sqew.yaml", "yes: 1", "a key 'True' that is not a setting"),
        ("sqew.yaml", "? [a, b]\n: 1", "can't be understood|not a setting"),
        ("sqew.yaml", "!!python/object/apply:os.getcwd []", "can't be understood"),
        ("sqew.toml", b"db = '\xff'", "not UTF-8"),
        ("sqew.ini", "db=a", "must end in .toml, .yaml or .yml"),
    ],
)
def test_a_file_that_is_no_settings_file_is_refused_with_its_name(write, name, content, complaint):
    file = write(name, content)

    with pytest.raises(BadSetting, match=complaint) as caught:
        resolve({}, {}, file)

    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("sqew.yaml", "db: a\nauth_token: sEcret: x"),
        ("sqew.yaml", "db: a\nauth_token: *sEcret"),
        ("sqew.yaml", "db: a\nauth_token: !sEcret x"),
        ("sqew.yaml", "db: a\nauth_token: !sEcret!x y"),
        ("sqew.yaml", "db: a\nauth_token: [sEcret}"),
        ("sqew.toml", "db = 'a'\nauth_token = sEcret"),
        ("sqew.toml", "db = 'a'\nauth_token = 'sEcret' x"),
    ],
)
def test_a_token_in_a_file_with_a_mistake_was_shown(write, name, content):
    with pytest.raises(BadSetting, match="line 2, column") as caught:
        resolve({}, {}, write(name, content))

    assert "sEcret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("content", ["", "# nothing yet\n", "---\n"])
def test_an_empty_file_sets_nothing(write, content):
    assert resolve({}, {}, write("sqew.yaml", content)) == resolve({}, {}, None)


def test_a_file_may_begin_with_a_byte_order_mark(write):
    assert resolve({}, {}, write("sqew.toml", b"\xef\xbb\xbfmax_batch = 3\n")).max_batch == 3


def test_a_chosen_file_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(BadSetting, match=r"gone\.toml can't be read: No such file"):
        resolve({}, {}, tmp_path / "gone.toml")

    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(BadSetting, match=r"folder\.toml can't be read: Is a directory"):
        resolve({}, {}, tmp_path / "folder.toml")


def test_the_file_chosen_by_flag_wins_over_the_variable_and_that_over_the_folder(tmp_path):
    (tmp_path / "sqew.toml").touch()

    assert find_file("a.toml", {"SQEW_CONFIG": "b.toml"}, tmp_path) == Path("a.toml")
    assert find_file(None, {"SQEW_CONFIG": "b.toml"}, tmp_path) == Path("b.toml")
    assert find_file(None, {"SQEW_CONFIG": ""}, tmp_path) == tmp_path / "sqew.toml"


@pytest.mark.parametrize("name", FILE_NAMES)
def test_the_folder_s_own_file_is_found(tmp_path, name):
    assert find_file(None, {}, tmp_path) is None

    (tmp_path / name).touch()

    assert find_file(None, {}, tmp_path) == tmp_path / name


def test_two_files_in_one_folder_are_refused_rather_than_one_ignored(tmp_path):
    (tmp_path / "sqew.toml").touch()
    (tmp_path / "sqew.yml").touch()

    with pytest.raises(BadSetting, match=r"sqew\.toml and sqew\.yml.*--config"):
        find_file(None, {}, tmp_path)


def test_a_tilde_is_the_home_folder_in_files_and_variables(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")

    assert from_environment(SQEW_DB="~/queue.db").db == "/home/ann/queue.db"
    assert from_environment(SQEW_DB="./a~b.db").db == "./a~b.db"
    assert from_environment(SQEW_DB="~no-such-user/queue.db").db == "~no-such-user/queue.db"
    assert find_file("~/sqew.toml", {}, Path()) == Path("/home/ann/sqew.toml")


def test_text_and_switches_can_be_set():
    host, insecure = text("An address."), switch("Whether to.")

    assert host.parse("::1", "here") == "::1"
    assert [insecure.parse(given, "here") for given in (True, "yes", "1", "Off", False)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    with pytest.raises(BadSetting, match="true or false"):
        insecure.parse("perhaps", "here")


def test_every_setting_has_its_own_names_and_a_sentence_of_documentation():
    names = [s.variable for s in DEFINITIONS.values()]
    # A variable that holds HOST:PORT is of two settings, a part of each.
    names += [f"{alias.name}{alias.part}" for s in DEFINITIONS.values() for alias in s.aliases]

    assert len(names) == len(set(names))
    assert "SQEW_CONFIG" not in names
    assert all(setting.doc.endswith(".") for setting in DEFINITIONS.values())


def test_the_settings_page_is_current():
    assert PAGE.read_text() == as_markdown(), "run `python3 dev docs`"


def test_importing_settings_loads_no_parser_and_no_command_line_library():
    code = "import sys, sqew.settings; print({'yaml', 'tomllib', 'click'} & set(sys.modules))"

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "set()"


@pytest.mark.parametrize(("given", "rate"), [("0", 0), ("0.25", 0.25), (".5", 0.5), ("1.0", 1), (1, 1), (0.1, 0.1)])
def test_a_fraction_is_a_number_from_0_to_1(given, rate):
    assert resolve({"otlp_sample_rate": given}, {}, None).otlp_sample_rate == rate


@pytest.mark.parametrize("given", ["1.1", "-0.1", "10%", "nan", "1e-3", "", True, None.__class__])
def test_what_is_no_fraction_is_refused(given):
    with pytest.raises(BadSetting, match="it must be a number from 0 to 1"):
        resolve({"otlp_sample_rate": given}, {}, None)


def test_the_seed_s_names_for_traces_are_understood():
    settings = from_environment(OTLP_ENABLED="true", OTLP_ENDPOINT="http://collector:4317", OTLP_SAMPLE_RATE="0.5")

    assert (settings.otlp_enabled, settings.otlp_endpoint, settings.otlp_sample_rate) == (
        True,
        "http://collector:4317",
        0.5,
    )


def test_what_kubernetes_says_of_a_service_named_sqew_is_not_taken_for_settings():
    environ = {
        "SQEW_PORT": "tcp://10.0.0.1:8888",
        "SQEW_SERVICE_HOST": "10.0.0.1",
        "SQEW_SERVICE_PORT": "8888",
        "SQEW_PORT_8888_TCP_ADDR": "10.0.0.1",
    }

    assert resolve({}, environ, None).port == DEFINITIONS["port"].default


def test_a_log_level_may_be_written_as_a_filter():
    assert resolve({}, {"LOG_LEVEL": "beyond_queue=debug,warning"}, None).log_level == "warning"
    assert resolve({}, {"LOG_LEVEL": "beyond_queue=trace"}, None).log_level == "debug"
    assert resolve({}, {"LOG_LEVEL": "off"}, None).log_level == "error"


@pytest.mark.parametrize("given", ["token\n", " token ", "token"])
def test_blanks_around_a_token_were_part_of_it_for_some_dialects(given):
    assert from_environment(SQEW_AUTH_TOKEN=given).auth_token == "token"
    assert Settings(auth_token=given).auth_token == "token"


def test_a_token_of_nothing_but_blanks_is_not_taken_for_none():
    assert from_environment(SQEW_AUTH_TOKEN=" \n").auth_token == " \n"


def test_a_database_where_a_file_is_named_was_refused_with_its_password_and_without_a_way_out():
    with pytest.raises(BadSetting) as refused:
        from_environment(DATABASE="postgresql://app:hush@db.example.com/queues")

    assert "postgresql://app@db.example.com/queues" in str(refused.value)
    assert "--database-url (SQEW_DATABASE_URL)" in str(refused.value)
    assert "hush" not in str(refused.value)
