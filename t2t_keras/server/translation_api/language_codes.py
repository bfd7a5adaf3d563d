"""Language codes: their canonical form, and which of several a client means."""

import re
from collections.abc import Iterator

from babel.core import get_global

from t2t_keras.errors import UserError
from t2t_keras.text.languages import base_language

AUTO = "auto"

_CODE = re.compile(
    r"(?P<language>[a-z]{2,3})(?:-(?P<script>[a-z]{4}))?(?:-(?P<region>[a-z]{2}|\d{3}))?",
    re.IGNORECASE,
)
# LibreTranslate's own codes beside the standard ones.
_ALIASES = (("pb", "pt-BR"), ("zt", "zh-Hant"), ("zh", "zh-Hans"))


def canonical_code(code: str) -> str:
    """Returns a language code with "-" and the usual case: en, pt-BR, zh-Hans.

    Raises:
        UserError: If it is not a language, an optional script and an optional region.
    """
    match = _CODE.fullmatch(code.replace("_", "-"))
    if match is None:
        raise UserError(
            "A language is a code such as en, pt-BR or zh-Hans: a language of two or "
            "three letters, then perhaps a script of four letters and a region of two. "
            f"Received: {code!r}"
        )
    language, script, region = match.groups()
    parts = (language.lower(), script and script.title(), region and region.upper())
    return "-".join(filter(None, parts))


def find_code(wanted: str, codes: tuple[str, ...]) -> str | None:
    """Returns the code among `codes` that a client means, None if there is none.

    Case does not matter, nor does "_" for "-". LibreTranslate's aliases zh, zt and pb
    are known. A region or script that is not served is left out: pt-PT is pt, and
    zh-TW is zh-Hant, the script of that region. Otherwise the language decides, if only
    one code has it: pt is pt-BR.
    """
    wanted = wanted.replace("_", "-").lower()
    by_lower = {code.lower(): code for code in codes}
    alias = dict(_ALIASES).get(wanted, wanted).lower()
    for name in (wanted, alias, *_less_specific(alias)):
        if name in by_lower:
            return by_lower[name]
    same = [code for code in codes if base_language(code) == base_language(alias)]
    return same[0] if len(same) == 1 else None


def _less_specific(code: str) -> Iterator[str]:
    """Yields a code with its usual script and no region, then its language alone."""
    match = _CODE.fullmatch(code)
    if match is None:
        return
    # A region that is not listed, such as CN for zh, has the usual script.
    full = get_global("likely_subtags")
    likely = full.get(canonical_code(code).replace("-", "_"), full.get(match[1], ""))
    script = match["script"] or likely.partition("_")[2].partition("_")[0]
    yield f"{match['language']}-{script}".lower()
    yield match["language"]
