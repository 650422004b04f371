"""W3C trace context, as a caller sends it."""

import pytest

from sqew.observe.tracing import trace_parent_of

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True)])
def test_the_last_bit_of_the_flags_says_whether_it_is_sampled(flags, sampled):
    caller = trace_parent_of(f"00-{TRACE}-{SPAN}-{flags}".encode())

    assert (caller.trace_id, caller.span_id, caller.sampled) == (int(TRACE, 16), int(SPAN, 16), sampled)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "nonsense",
        f"00-{TRACE}-{SPAN}",
        f"00-{TRACE}-{SPAN}-01-more",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-01, 00-{TRACE}-{SPAN}-01",
    ],
)
def test_a_header_that_is_not_valid_is_as_none(header):
    assert trace_parent_of(header.encode()) is None


def test_a_later_version_may_say_more():
    assert trace_parent_of(f"01-{TRACE}-{SPAN}-01-more".encode()).sampled


def test_no_header_is_no_caller():
    assert trace_parent_of(None) is None
