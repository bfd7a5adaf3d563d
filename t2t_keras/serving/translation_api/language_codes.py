"""Language codes: their canonical form, and their names in English."""

import re

from babel import Locale, UnknownLocaleError

from t2t_keras.errors import UserError

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


def base_language(code: str) -> str:
    """Returns the language of a code, without script and region."""
    return code.partition("-")[0]


def find_code(wanted: str, codes: tuple[str, ...]) -> str | None:
    """Returns the code among `codes` that a client means, None if there is none.

    Case does not matter, nor does "_" for "-". LibreTranslate's aliases zh, zt and pb
    are known. Otherwise the language decides, if only one code has it: en-US is en,
    and pt is pt-BR.
    """
    wanted = wanted.replace("_", "-").lower()
    by_lower = {code.lower(): code for code in codes}
    for name in (wanted, dict(_ALIASES).get(wanted, "").lower()):
        if name in by_lower:
            return by_lower[name]
    language = base_language(dict(_ALIASES).get(wanted, wanted))
    same = [code for code in codes if base_language(code) == language]
    return same[0] if len(same) == 1 else None


def language_name(code: str) -> str:
    """Returns the English name of a language; the code if Babel does not know it."""
    try:
        name = Locale.parse(code, sep="-").get_display_name("en")
    except (UnknownLocaleError, ValueError):
        name = Locale("en").languages.get(base_language(code))
    return name or code
