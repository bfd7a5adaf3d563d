"""Version folders and policies, and the thread that looks again."""

import errno
import os
import tempfile
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import file_system_storage_path_source_pb2

from t2t_keras.errors import UserError
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.watching import Watch, find_versions
from tests.server.tf_serving.clients import wait_until

Policy = (
    file_system_storage_path_source_pb2.FileSystemStoragePathSourceConfig
).ServableVersionPolicy


def served(base, policy=""):
    policy = text_format.Parse(policy, Policy())
    versions, problems = find_versions("translate", base, policy)
    assert not problems
    return {number: path.name for number, path in versions.items()}


def make(base, *names, file="saved_model.pb"):
    for name in names:
        (base / name).mkdir()
        (base / name / file).touch()


def test_policies(tmp_path):
    policies = [
        ("", [10]),
        ("latest {}", [10]),
        ("latest { num_versions: 2 }", [9, 10]),
        ("latest { num_versions: 9 }", [1, 2, 9, 10]),
        ("all {}", [1, 2, 9, 10]),
        ("specific { versions: 2 versions: 9 versions: 7 }", [2, 9]),
        ("specific {}", []),
    ]
    # As numbers, 9 comes before 10; as names, after it.
    make(tmp_path, "1", "2", "9", "10")
    for policy, expected in policies:
        assert sorted(served(tmp_path, policy)) == expected, policy


def test_only_folders_with_numbers_are_versions(tmp_path):
    make(tmp_path, "3", "0007", ".8.tmp", "9.tmp", "1e3", "v4", "five", "5_0", "٣")
    make(tmp_path, "99999999999999999999")
    (tmp_path / "10").write_text("a file")
    assert served(tmp_path, "all {}") == {3: "3", 7: "0007"}


def test_a_folder_that_is_being_copied_is_ignored(tmp_path):
    make(tmp_path, "3")
    (tmp_path / "4" / "variables").mkdir(parents=True)
    assert served(tmp_path) == {3: "3"}
    (tmp_path / "4" / "saved_model.pb").touch()
    assert served(tmp_path) == {4: "4"}


def test_a_graph_may_be_text(tmp_path):
    make(tmp_path, "3", file="saved_model.pbtxt")
    assert served(tmp_path) == {3: "3"}


def test_a_missing_base_path_is_an_error(tmp_path):
    """Otherwise an unmounted disk would unload all served versions."""
    assert served(tmp_path) == {}
    missing = tmp_path / "missing"
    with pytest.raises(ServingError) as caught:
        served(missing)
    assert caught.value.message == (
        f"Could not find base path {missing} for servable translate with error "
        "No such file or directory"
    )


@pytest.fixture
def nobody():
    """Lets the test run without the rights of root, who may enter any folder."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        yield
        os.seteuid(0)
    else:
        yield


@pytest.fixture
def closed_base():
    """A folder that anyone may enter, with versions 1 and 2; nobody may enter 2."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        base.chmod(0o755)
        make(base, "1", "2")
        (base / "2").chmod(0)
        yield base
        (base / "2").chmod(0o755)


def test_a_folder_that_may_not_be_entered_is_left_out(closed_base, nobody):
    found = find_versions("translate", closed_base, Policy())
    assert list(found.versions) == [1]
    assert found.problems == [
        f"{closed_base / '2'} cannot be read: Permission denied. It is not served."
    ]
    # A version that is loaded stays: its disk may be missing for a moment.
    found = find_versions("translate", closed_base, Policy(), loaded=[2])
    assert list(found.versions) == [2]
    assert len(found.problems) == 1


class Looks:
    """A look that raises the given errors, one at each call, and then nothing."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.count = 0

    def __call__(self):
        self.count += 1
        if self.errors:
            raise self.errors.pop(0)


def test_a_watch_goes_on_after_any_error_and_logs_it_once(logged):
    looks = Looks(
        UserError("bad file"),
        UserError("bad file"),
        OSError(errno.EACCES, "Permission denied"),
        ValueError("embedded null byte"),
        UserError("bad file"),
    )
    watch = Watch(looks, 0.001, on_end=lambda: logged.append("ended"))
    wait_until(lambda: looks.count > 10)
    watch.close()
    assert logged == [
        "bad file",
        "INTERNAL: PermissionError: [Errno 13] Permission denied",
        "INTERNAL: ValueError: embedded null byte",
        "bad file",
    ]
