"""Requests made up from the OpenAPI document, many more of them. In a file of its own: making them up takes long."""

import pytest
from hypothesis import settings

from tests.http.docs.documented import answers_as_documented, furnished_server, schema

__all__ = ["furnished_server"]


@pytest.mark.soak
@schema.parametrize()
@settings(max_examples=600)
def test_every_operation_answers_as_documented_for_long(case, furnished_server):
    answers_as_documented(case, furnished_server)
