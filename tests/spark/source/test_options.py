"""The options of ``format("sqew")``: their meanings, refusals, and the words of these."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sqew.errors import BadName, BadSetting, BadValue
from sqew.spark.source import SqewDataSource
from sqew.spark.source.options import Options, options_of

SERVER = {"url": "http://127.0.0.1:8888", "queue": "orders"}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SQEW_URL", raising=False)
    monkeypatch.delenv("SQEW_AUTH_TOKEN", raising=False)


def _refused(**given: str) -> str:
    with pytest.raises(BadSetting) as refused:
        options_of(given)
    return str(refused.value)


def test_options_have_their_defaults() -> None:
    options = options_of(SERVER)

    assert options.target.urls == ("http://127.0.0.1:8888",)
    assert (options.queue, options.format, options.messages_per_trigger) == ("orders", "json", 100_000)
    assert (options.lease_ms, options.hold_ms) == (3_600_000, 30_000)


def test_names_come_in_small_letters() -> None:
    options = options_of({**SERVER, "jobid": "nightly", "numpartitions": "7", "maxmessagespertrigger": "5"})

    assert (options.job_id, options.partitions, options.messages_per_trigger) == ("nightly", 7, 5)


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    sentence = _refused(**SERVER, jobib="nightly")

    assert "There is no option 'jobib' (did you mean 'jobId'?)" in sentence


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("archive", "maybe", "true or false"),
        ("numpartitions", "0", "from 1 to 10000"),
        ("numpartitions", "many", "from 1 to 10000"),
        ("maxmessagespertrigger", "-1", "a whole number from 1"),
        ("leaseseconds", "1.5", "a whole number from 1"),
        ("format", "jsn", "did you mean 'json'?"),
        ("consumer", "", "a text of 1 to"),
        ("jobid", "x\0y", "NUL"),
    ],
)
def test_a_bad_value_is_refused_with_what_is_allowed(option: str, value: str, says: str) -> None:
    sentence = _refused(**SERVER, **{option: value})

    assert says in sentence


def test_somewhere_must_be_given() -> None:
    sentence = _refused(queue="orders")

    assert sentence.startswith("Say where the queue is: option 'url'")


def test_a_queue_must_be_given_and_be_a_name() -> None:
    assert _refused(url="http://127.0.0.1:8888") == "Say which queue: option 'queue'."
    with pytest.raises(BadName, match="can't be a queue's name"):
        options_of({**SERVER, "queue": "no such\nname"})


def test_a_file_and_a_server_are_not_given_together() -> None:
    assert "Give one of the two" in _refused(**SERVER, path="queue.db")


def test_several_servers_are_separated_by_commas() -> None:
    options = options_of({**SERVER, "url": "http://one:8888, http://two:8888"})

    assert options.target.urls == ("http://one:8888", "http://two:8888")


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BadValue) as refused:
        options_of({**SERVER, "url": "http://me:s3cr3t@host:8888"})

    assert "s3cr3t" not in str(refused.value)


def test_the_environment_says_what_no_option_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQEW_URL", "http://elsewhere:8888")
    monkeypatch.setenv("SQEW_AUTH_TOKEN", "of-the-environment")

    options = options_of({"queue": "orders"})

    assert options.target.urls == ("http://elsewhere:8888",)
    assert options.target.token == "of-the-environment"


def test_a_token_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("of-a-file\n")

    options = options_of({**SERVER, "tokenfile": str(tmp_path / "token")})

    assert options.target.token == "of-a-file"


def test_a_token_file_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    assert "No such file" in _refused(**SERVER, tokenfile=str(tmp_path / "none"))
    assert "There is no token in" in _refused(**SERVER, tokenfile=str(tmp_path / "empty"))
    assert "not both" in _refused(**SERVER, tokenfile=str(tmp_path / "empty"), token="t")


def test_the_token_is_never_shown() -> None:
    source = SqewDataSource({**SERVER, "token": "s3cr3t"})
    options = options_of({**SERVER, "token": "s3cr3t"})

    shown = f"{source!r} {source} {options!r} {options.target!r} {vars(source)} {pickle.loads(pickle.dumps(options))!r}"

    assert "s3cr3t" not in shown
    assert pickle.loads(pickle.dumps(options)).target.token == "s3cr3t"


def _for(**given: str) -> Options:
    return options_of({**SERVER, **given})


def test_an_option_of_another_use_is_refused() -> None:
    with pytest.raises(BadSetting, match="Option 'jobId' is for batch writes, not for batch reads"):
        _for(jobid="nightly").check_use("batch read")
    with pytest.raises(BadSetting, match="Option 'format' is for batch writes and streaming writes"):
        _for(format="text").check_use("streaming read")


def test_a_streaming_read_needs_a_consumer() -> None:
    with pytest.raises(BadSetting, match="needs the option 'consumer'"):
        _for().check_use("streaming read")


def test_a_streaming_write_takes_what_spark_passes_on() -> None:
    _for(checkpointlocation="/tmp/here", queryname="orders").check_use("streaming write")
