"""Requests made from the description of the API, right and wrong ones: what comes back is what the description says."""

import pathlib

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
# Equal to what a server shows, which a test in Rust holds.
DESCRIPTION = pathlib.Path(__file__).parents[3] / "docs" / "openapi.json"

schema = schemathesis.openapi.from_path(DESCRIPTION)
bounded = settings(
    max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def send(case, place):
    answer = case.call(base_url=place.url, headers=place.headers, timeout=240)
    case.validate_response(answer, checks=CHECKS)


@schema.parametrize()
@bounded
def test_answers_are_as_described(case, place):
    send(case, place)
    # Once more for a sandbox that is there. A stream of its events would not end.
    if "/sandboxes/{id}" in case.path and not case.path.endswith("/events"):
        case.path_parameters["id"] = place.live()
        send(case, place)
