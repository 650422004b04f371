"""Values quoted in refusals: shortened, with both quotes."""

import pytest

from sqew.client import EnvelopeVerifier
from sqew.errors import BadPattern, BadSetting, BadSignature, BadValue, shortened
from sqew.matching.routing import check_pattern
from sqew.rules.values import check_int, shown
from sqew.settings import resolve


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("x" * 58, repr("x" * 58)),
        ("x" * 59, "'" + "x" * 55 + "...'"),
        (b"x" * 100, "b'" + "x" * 54 + "...'"),
        (["x"] * 100, "['x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x', ...]"),
        (10**70, "1" + "0" * 56 + "..."),
    ],
)
def test_a_long_value_lost_what_closes_it(value, told):
    assert shown(value) == told
    assert len(told) <= 60


def test_a_sentence_may_have_room_for_more():
    assert shortened(repr("x" * 100), 80) == "'" + "x" * 75 + "...'"


def _number(text):
    check_int("count", text, 1, 5)


def _setting(text):
    resolve({"port": text}, {}, None)


def _envelope(text):
    EnvelopeVerifier(cert_hosts=["a"]).verify({"SignatureVersion": text, **dict.fromkeys(_FIELDS, "")})


_FIELDS = ("Type", "MessageId", "TopicArn", "Message", "Timestamp", "Signature", "SigningCertURL")


@pytest.mark.parametrize(
    ("refuse", "error"),
    [(_number, BadValue), (check_pattern, BadPattern), (_setting, BadSetting), (_envelope, BadSignature)],
)
def test_a_refusal_lost_the_closing_quote_of_a_long_value(refuse, error):
    with pytest.raises(error, match=r"'!+\.\.\.'"):
        refuse("!" * 100)
