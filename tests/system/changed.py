"""Settings with a few of them changed."""

import dataclasses


def changed(config, section, **values):
    part = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **{section: part})
