"""URLs of databases, as libpq understands them."""

import ssl

import pytest

from sqew.errors import BadSetting, StoreUnusable
from sqew.settings import resolve
from sqew.stores.postgres.errors import translate
from sqew.stores.postgres.urls import CONNECT_WITHIN_S, DatabaseAddress, address

PLACE = "postgresql://app@db.example.com/queues"


def test_a_url_that_asyncpg_understands_is_left_as_it_is():
    url = f"{PLACE}?sslmode=require&application_name=a%20b&target_session_attrs=any"

    assert address(url) == DatabaseAddress(url, CONNECT_WITHIN_S)


def test_a_timeout_for_the_connection_is_kept():
    assert address(f"{PLACE}?connect_timeout=9&sslmode=require") == DatabaseAddress(f"{PLACE}?sslmode=require", 9)


def test_what_does_nothing_is_left_out_and_named():
    read = address(f"{PLACE}?keepalives=1&channel_binding=prefer&options=-c%20geqo%3Doff&keepalives_idle=30")

    assert read == DatabaseAddress(
        f"{PLACE}?options=-c%20geqo%3Doff", CONNECT_WITHIN_S, ("channel_binding", "keepalives", "keepalives_idle")
    )


@pytest.mark.parametrize(
    "asked", ["channel_binding=require", "require_auth=scram-sha-256", "gssencmode=require", "hostaddr=10.0.0.1"]
)
def test_what_would_be_less_safe_without_is_refused(asked):
    with pytest.raises(BadSetting, match=f"asks for {asked}, which can't be kept here. Leave it out"):
        address(f"{PLACE}?{asked}")


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey", "sslcrl"])
def test_a_file_that_is_not_there_is_named(tmp_path, name):
    with pytest.raises(BadSetting) as refused:
        address(f"{PLACE}?sslmode=verify-full&{name}={tmp_path}/nothing", "database_listen_url")

    assert f"database_listen_url names {tmp_path}/nothing as {name}, which can't be read: No such" in str(refused.value)


def test_what_is_wrong_with_a_certificate_is_not_taken_for_a_database_that_is_away():
    error = ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed certificate")

    refused = translate(error, PLACE)

    assert type(refused) is StoreUnusable
    assert "self-signed certificate" in str(refused)


@pytest.mark.parametrize("query", ["port=many", "port=0", "port=5432,99999", "connect_timeout=soon", "sslmode"])
def test_parameters_that_make_no_sense_are_refused(query):
    with pytest.raises(BadSetting, match=r"^database_url has "):
        address(f"{PLACE}?{query}")


@pytest.mark.parametrize("hosts", ["host:99999", "host:0", "one:5432,two:65536", "[::1]:70000"])
def test_a_port_that_there_cant_be_is_a_bad_setting(hosts):
    with pytest.raises(BadSetting, match="with a port up to 65535"):
        resolve({"database_url": f"postgresql://{hosts}/queues"}, {}, None)


@pytest.mark.parametrize(
    "place", ["app:tr0mb[ne@host", "app:tr0mb]ne@host", "app:tr0mb0ne@[::::]", "app:tr0mb0ne@[1.2.3.4]"]
)
def test_brackets_that_stand_around_no_address_are_a_bad_setting_that_shows_no_password(place):
    with pytest.raises(BadSetting, match="special characters of the password percent-encoded") as refused:
        resolve({"database_url": f"postgresql://{place}/queues"}, {}, None)

    assert "tr0mb" not in str(refused.value)


@pytest.mark.parametrize("hosts", ["host:65535", "one:1,two", "[::1]:5432,[2001:db8::99999]", "[::1]"])
def test_a_port_that_there_can_be_is_taken(hosts):
    url = f"postgresql://{hosts}/queues"

    assert resolve({"database_url": url}, {}, None).database_url == url
