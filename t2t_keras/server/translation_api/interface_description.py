"""Description of the API for programs, in Swagger 2.0, like LibreTranslate's /spec."""

from typing import Any

from t2t_keras import __version__


def describe_interface() -> dict[str, Any]:
    """Returns the answer to /spec."""
    key = _field("api_key", "Key of the client, where keys are used.", required=False)
    pair = (
        _field("source", "Code of the source language; /translate also takes auto."),
        _field("target", "Code of the target language."),
    )
    translate = (
        _field("q", "Text, or in JSON a list of texts."),
        *pair,
        _field("format", "text (the default) or html.", required=False),
        _field("alternatives", "Maximum number of alternatives.", required=False),
        _field(
            "protect",
            "false: placeholders and addresses may change.",
            required=False,
        ),
        _field(
            "glossary",
            "Terms that the translations must have: in JSON an object with the target "
            "term of each source term; or lines of a source term, a tab and a target "
            "term.",
            required=False,
        ),
        _field("sentences", "true: also return each sentence.", required=False),
    )
    attention = (
        _field("q", "Sentence, or in JSON a list of sentences."),
        _field("translation", "Its translation, or a list."),
        *pair,
    )
    return {
        "swagger": "2.0",
        "basePath": "/",
        "info": {"title": "t2t_keras translation API", "version": __version__},
        "paths": {
            "/translate": _post("Translate text", *translate, key),
            "/detect": _post(
                "Detect the language of a text", _field("q", "Text."), key
            ),
            "/attention": _post("Align the words of a translation", *attention, key),
            "/languages": _get("List languages and their targets"),
            "/frontend/settings": _get("Return limits and defaults"),
            "/health": _get("Return whether the API answers"),
            "/ready": _get("Return whether every model answers"),
        },
    }


def _field(name: str, description: str, required: bool = True) -> dict[str, Any]:
    return {
        "in": "formData",
        "name": name,
        "description": description,
        "required": required,
        "type": "string",
    }


def _post(summary: str, *parameters: dict[str, Any]) -> dict[str, Any]:
    error = {"type": "object", "properties": {"error": {"type": "string"}}}
    refusals = {
        "400": "Invalid request",
        "403": "Invalid API key",
        "429": "Too many requests",
        "500": "The server failed",
        "503": "The model cannot be reached",
        "504": "The translation took too long",
    }
    return {
        "post": {
            "summary": summary,
            "consumes": ["application/json", "application/x-www-form-urlencoded"],
            "parameters": list(parameters),
            "responses": {"200": {"description": "Result"}}
            | {
                status: {"description": text, "schema": error}
                for status, text in refusals.items()
            },
        }
    }


def _get(summary: str) -> dict[str, Any]:
    return {
        "get": {"summary": summary, "responses": {"200": {"description": "Result"}}}
    }
