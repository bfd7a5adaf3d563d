"""Runs pytest on the folders or files named on the command line.

BUILD's `py_test` rules start this file: run as plain scripts, the test modules
would only define their functions, and every Bazel test would pass.
"""

import sys

import pytest
import pytest_timeout  # noqa: F401 - pyproject.toml has options of both
import xdist  # noqa: F401

if __name__ == "__main__":
    sys.exit(pytest.main(["-n0", *sys.argv[1:]]))
