"""The log of the package as lines."""

import logging

import pytest

from t2t_keras.files.logs import log_nothing, log_to

logger = logging.getLogger("t2t_keras.some.module")


def test_lines_have_their_level_from_warning_on():
    lines = []
    with log_to(lines.append):
        logger.debug("nobody sees this")
        logger.info("%d of %d", 1, 2)
        logger.warning("careful")
        try:
            raise ValueError("a bug")
        except ValueError:
            logger.exception("failed")
    logger.warning("later")
    assert lines[:2] == ["1 of 2", "warning: careful"]
    (failed,) = lines[2:]
    assert failed.startswith("error: failed\nTraceback")
    assert failed.endswith("ValueError: a bug")


@pytest.mark.parametrize("alone", [True, False])
def test_it_is_also_the_root_loggers_unless_alone(caplog, alone):
    with log_to(lambda line: None, alone=alone):
        logger.warning("seen")
    assert bool(caplog.records) is not alone


def test_what_libraries_do_to_the_root_logger_changes_nothing():
    root, lines = logging.getLogger(), []
    level = root.level
    try:
        root.setLevel(logging.DEBUG)
        with log_to(lines.append):
            root.setLevel(logging.ERROR)  # absl's verbosity
            logger.info("seen")
    finally:
        root.setLevel(level)
    assert lines == ["seen"]


def test_log_nothing():
    lines = []
    with log_to(lines.append):
        with log_nothing():
            logger.error("not seen")
        logger.info("seen")
    assert lines == ["seen"]
