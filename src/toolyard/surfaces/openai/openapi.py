"""The errors of `/v1` for the OpenAPI document."""

from litestar.openapi.datastructures import ResponseSpec

from toolyard.surfaces.http.openapi import describe_errors
from toolyard.surfaces.openai.errors import OpenAIError

OPENAI_ERRORS = {
    status: ResponseSpec(data_container=OpenAIError, description=description, generate_examples=False)
    for status, description in describe_errors(left_out=(409, 422)).items()
}
