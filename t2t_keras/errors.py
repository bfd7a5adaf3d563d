"""The one exception that is meant for the person at the keyboard."""


class UserError(ValueError):
    """Something the user gave cannot be used as it is.

    The message names the thing, what was expected, what came, and what to do.
    Programs print it without a traceback and exit with status 2; a library
    caller catches it as the `ValueError` it is.
    """
