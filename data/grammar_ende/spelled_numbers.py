"""Numbers from two to ninety-nine in words: units before tens in German."""

_ENGLISH_UNITS = (
    *("zero one two three four five six seven eight nine ten eleven twelve").split(),
    *("thirteen fourteen fifteen sixteen seventeen eighteen nineteen").split(),
)
_ENGLISH_TENS = (
    *("zero ten twenty thirty forty fifty sixty seventy eighty ninety").split(),
)
_GERMAN_UNITS = (
    *("null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf").split(),
    *("dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn").split(),
)
_GERMAN_TENS = (
    *("null zehn zwanzig dreißig vierzig fünfzig").split(),
    *("sechzig siebzig achtzig neunzig").split(),
)


def english_number(value: int) -> str:
    """Returns the English word for a number from 1 to 99: `twenty-one`."""
    if value < len(_ENGLISH_UNITS):
        return _ENGLISH_UNITS[value]
    tens, units = divmod(value, 10)
    return _ENGLISH_TENS[tens] + (f"-{_ENGLISH_UNITS[units]}" if units else "")


def german_number(value: int) -> str:
    """Returns the German word for a number from 1 to 99: `einundzwanzig`."""
    if value < len(_GERMAN_UNITS):
        return _GERMAN_UNITS[value]
    tens, units = divmod(value, 10)
    if not units:
        return _GERMAN_TENS[tens]
    first = "ein" if units == 1 else _GERMAN_UNITS[units]
    return f"{first}und{_GERMAN_TENS[tens]}"
