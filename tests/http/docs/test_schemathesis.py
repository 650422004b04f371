"""Requests made up from the OpenAPI document, right and wrong ones: the answers are as documented."""

from hypothesis import settings

from tests.http.docs.documented import answers_as_documented, furnished_server, schema

__all__ = ["furnished_server"]

# Every bound and every wrong type of every field are hundreds of requests an operation: see soak_schemathesis.py.
schema.config.phases.coverage.enabled = False


@schema.parametrize()
@settings(max_examples=10)
def test_every_operation_answers_as_documented(case, furnished_server):
    answers_as_documented(case, furnished_server)
