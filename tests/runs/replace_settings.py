"""Replacement of settings within one section of an ExperimentConfig."""

import dataclasses


def replace_settings(config, section, **values):
    part = dataclasses.replace(getattr(config, section), **values)
    return dataclasses.replace(config, **{section: part})
