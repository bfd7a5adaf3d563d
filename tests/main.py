"""The program behind BUILD's `py_test` rules: pytest on the folders or files given.

Run as plain scripts, the test modules would only define their functions, and every
Bazel test would pass.
"""

import os
import sys

import pytest
import pytest_timeout  # noqa: F401 - pyproject.toml has options of both
import xdist  # noqa: F401


def main(arguments: list[str]) -> int:
    """The exit status of pytest, in one process and without a cache to write."""
    # Bazel puts packages on the path of this process only, and tests start others.
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    status = pytest.main(["-n0", "-p", "no:cacheprovider", *arguments])
    # Not every folder has tests of the tier that `--test_arg=-m` asks for.
    is_tier = "-m" in arguments
    if is_tier and status == pytest.ExitCode.NO_TESTS_COLLECTED:
        return 0
    return int(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
