"""Main program of BUILD's `py_test` rules: runs pytest on the given folders or files.

Without it, Bazel would run the test modules as scripts. They would only define
functions, and every test would pass.
"""

import os
import sys

import pytest
import pytest_timeout  # noqa: F401 - pyproject.toml has options of both
import xdist  # noqa: F401


def main(arguments: list[str]) -> int:
    """Runs pytest in one process, without a cache folder; returns its exit status."""
    # Bazel sets the import path of this process only, and tests start other processes.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    status = pytest.main(["-n0", "-p", "no:cacheprovider", *arguments])
    # Not every folder has tests of the tier that `--test_arg=-m` selects.
    is_tier = "-m" in arguments
    if is_tier and status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
