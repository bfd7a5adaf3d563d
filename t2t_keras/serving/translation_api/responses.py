"""Responses of the API: JSON, and errors in LibreTranslate's form."""

from starlette.responses import JSONResponse


def error_response(
    status: int, message: str, retry_after: int | None = None
) -> JSONResponse:
    """Returns `{"error": message}`.

    Args:
        status: Status of HTTP.
        message: Text for the client.
        retry_after: Seconds for the header Retry-After; None for no header.
    """
    headers = None if retry_after is None else {"Retry-After": str(retry_after)}
    return JSONResponse({"error": message}, status, headers)
