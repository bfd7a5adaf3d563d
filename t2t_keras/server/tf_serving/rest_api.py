"""TensorFlow Serving's REST API: predict, status, metadata, and Prometheus' page.

Paths, bodies, errors and status codes are those of its api_rest.md and of
model_servers/http_rest_api_handler.cc.
"""

import functools
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

import grpc
from google.protobuf import json_format
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Router, request_response
from starlette.types import ASGIApp
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    get_model_status_pb2,
    model_pb2,
)

from t2t_keras.server.http.access_log import AccessLog
from t2t_keras.server.http.requests import (
    BodyReader,
    HttpError,
    error_response,
    until_disconnect,
)
from t2t_keras.server.tf_serving.core import ServerCore
from t2t_keras.server.tf_serving.errors import (
    ServingError,
    failed_precondition,
    invalid_argument,
    report_exception,
)
from t2t_keras.server.tf_serving.json_answers import from_response
from t2t_keras.server.tf_serving.json_requests import parse_body, to_request
from t2t_keras.server.workers import CancelToken, Workers

_MODEL = r"(?P<name>[^/:]+)(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_API = re.compile(r"/v1/.*", re.I)
_POST = re.compile(rf"/v1/models/{_MODEL}:(?P<method>classify|regress|predict)", re.I)
_GET = re.compile(rf"/v1/models(?:/{_MODEL})?(?P<metadata>/metadata)?", re.I)
_CORS_HEADERS = MappingProxyType(
    {
        "Access-Control-Allow-Origin": "*",
        "Access-Control-Allow-Methods": "POST, GET",
        "Access-Control-Allow-Headers": "Content-Type",
    }
)
# Status codes of HTTP; 500 for all others.
_STATUSES = MappingProxyType(
    {
        grpc.StatusCode.CANCELLED: 499,
        grpc.StatusCode.INVALID_ARGUMENT: 400,
        grpc.StatusCode.DEADLINE_EXCEEDED: 504,
        grpc.StatusCode.NOT_FOUND: 404,
        grpc.StatusCode.ALREADY_EXISTS: 409,
        grpc.StatusCode.PERMISSION_DENIED: 403,
        grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
        grpc.StatusCode.FAILED_PRECONDITION: 400,
        grpc.StatusCode.ABORTED: 409,
        grpc.StatusCode.OUT_OF_RANGE: 400,
        grpc.StatusCode.UNIMPLEMENTED: 501,
        grpc.StatusCode.UNAVAILABLE: 503,
        grpc.StatusCode.UNAUTHENTICATED: 401,
    }
)


@dataclass(frozen=True)
class RestOptions:
    """Settings of the REST API.

    Attributes:
        timeout_seconds: Longest time of a request, and of the arrival of its body.
        max_body_bytes: Largest body of a request.
        cors: Whether pages of other hosts may use the API from a browser.
        metrics_path: Path of the page for Prometheus; "" for none.
        access_log: Whether each request is logged.
    """

    timeout_seconds: float = 30.0
    max_body_bytes: int = 16 * 2**20
    cors: bool = False
    metrics_path: str = ""
    access_log: bool = False


def rest_app(core: ServerCore, workers: Workers, options: RestOptions) -> ASGIApp:
    """Returns the REST API as an ASGI application."""
    api = _RestApi(core, workers, options)
    # Routes would compare decoded paths, and redirect some that are unknown.
    router = Router(default=request_response(api.dispatch), redirect_slashes=False)
    app = GZipMiddleware(router, minimum_size=1024)
    return AccessLog(app, "REST") if options.access_log else app


class _RestApi:
    def __init__(self, core: ServerCore, workers: Workers, options: RestOptions):
        self._core = core
        self._workers = workers
        self._options = options
        self._bodies = BodyReader(options.max_body_bytes, options.timeout_seconds)

    async def dispatch(self, request: Request) -> Response:
        """Answers any request."""
        path = _path(request)
        if path == self._options.metrics_path:
            return Response(self._core.metrics.page(), media_type="text/plain")
        if _API.fullmatch(path):
            return await self.answer(request)
        return Response("Not Found", 404, media_type="text/plain")

    async def answer(self, request: Request) -> Response:
        """Answers any request below /v1/."""
        headers = dict(_CORS_HEADERS) if self._options.cors else {}
        try:
            content = await self._content(request)
            return Response(content, 200, headers, "application/json")
        except HttpError as error:
            # The rest of the body would be taken for the next request.
            headers["Connection"] = "close"
            refusal = error
        except ClientDisconnect:
            refusal = HttpError(499, "The client left.")
        except Exception as error:
            status = report_exception(error)
            refusal = HttpError(_STATUSES.get(status.code, 500), status.message)
        response = error_response(refusal)
        response.headers.update(headers)
        return response

    async def _content(self, request: Request) -> bytes | str:
        path = _path(request)
        if request.method == "OPTIONS":
            if not re.match("https?://", request.headers.get("origin", "")):
                raise failed_precondition("Origin header is missing in CORS preflight")
            return ""
        pattern = {"GET": _GET, "POST": _POST}.get(request.method)
        match = pattern.fullmatch(path) if pattern else None
        if match is None:
            raise _malformed(request.method, path)
        spec = _model_spec(match)
        method = match["method"] if request.method == "POST" else ""
        # Only the rest of a path is read without regard to case.
        if method != method.lower():
            raise _malformed(request.method, path)
        body = await self._bodies.read(request) if method == "predict" else b""
        with self._core.measure(spec.name, method, "REST"):
            if method == "predict":
                predict = self._workers.run(
                    functools.partial(self._predict, spec, body)
                )
                return await until_disconnect(request, predict)
            if method:
                return self._core.refuse(method)
            if not spec.name:
                raise invalid_argument("Missing model name in request.")
            is_metadata = match["metadata"] == "/metadata"
            return self._metadata(spec) if is_metadata else self._status(spec)

    def _predict(self, spec: Any, body: bytes, token: CancelToken) -> bytes:
        parts = parse_body(body)
        spec.signature_name = parts.signature_name
        message = to_request(parts, self._core.inputs(spec))
        message.model_spec.CopyFrom(spec)
        response = self._core.predict(message, self._options.timeout_seconds, token)
        return from_response(response, parts.by_rows)

    def _status(self, spec: Any) -> str:
        request = get_model_status_pb2.GetModelStatusRequest(model_spec=spec)
        return json_format.MessageToJson(
            self._core.status(request),
            indent=1,
            always_print_fields_with_no_presence=True,
        )

    def _metadata(self, spec: Any) -> str:
        response = self._core.metadata(
            get_model_metadata_pb2.GetModelMetadataRequest(
                model_spec=spec, metadata_field=["signature_def"]
            )
        )
        signatures = get_model_metadata_pb2.SignatureDefMap()
        response.metadata["signature_def"].Unpack(signatures)
        model, metadata = (
            json_format.MessageToJson(
                message,
                indent=1,
                always_print_fields_with_no_presence=True,
                preserving_proto_field_name=True,
            )
            for message in (response.model_spec, signatures)
        )
        return f'{{"model_spec": {model}, "metadata": {{"signature_def": {metadata}}}}}'


def _path(request: Request) -> str:
    """Returns the path as it was sent, since a name may have an encoded slash.

    A query is part of it, as in TensorFlow Serving: it belongs to a name or is wrong.
    """
    query = request.scope["query_string"]
    path = request.scope["raw_path"] + (b"?" + query if query else b"")
    return path.decode("latin-1")


def _malformed(method: str, path: str) -> ServingError:
    return invalid_argument(f"Malformed request: {method} {path}")


def _model_spec(match: re.Match[str]) -> Any:
    spec = model_pb2.ModelSpec(name=unquote(match["name"] or ""))
    if match["version"]:
        # Python converts no more than 4,300 digits.
        if len(match["version"].lstrip("0")) > 19 or int(match["version"]) >= 2**63:
            raise invalid_argument(
                f"Failed to convert version: {match['version']} to numeric."
            )
        spec.version.value = int(match["version"])
    if match["label"]:
        spec.version_label = unquote(match["label"])
    return spec
