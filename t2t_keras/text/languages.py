"""Languages: what their codes have in common, and their names."""

# Codes of a language that has two; the second is py3langid's.
_SYNONYMS = (("nb", "no"), ("fil", "tl"), ("iw", "he"))


def base_language(code: str) -> str:
    """Returns the language of a code, without script and region; no for nb."""
    language = code.partition("-")[0].lower()
    return dict(_SYNONYMS).get(language, language)


def is_variant(code: str, of: str) -> bool:
    """Returns whether a code is another, or begins with it: en-US and en_GB with en."""
    code, of = (each.replace("_", "-").lower() for each in (code, of))
    return f"{code}-".startswith(f"{of}-")


def language_name(code: str, *, own: bool = False) -> str:
    """Returns the name of a language; the code without Babel or if it knows no name.

    Args:
        code: Code of the language, with "-" before a script or region.
        own: Whether the name is in the language itself, or in English.
    """
    # The import takes longer than most calls of programs that need no names.
    try:
        from babel import Locale, UnknownLocaleError
    except ImportError:  # of an extra; training asks for names only to warn
        return code

    try:
        name = Locale.parse(code, sep="-").get_display_name(None if own else "en")
    except (UnknownLocaleError, ValueError):
        name = Locale("en").languages.get(base_language(code))
    return name or code
