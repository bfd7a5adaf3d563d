"""Version policies, and the folders that count as versions."""

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import file_system_storage_path_source_pb2

from t2t_keras.serving.server.errors import ServingError
from t2t_keras.serving.server.version_policy import versions_to_serve

Policy = (
    file_system_storage_path_source_pb2.FileSystemStoragePathSourceConfig
).ServableVersionPolicy


def served(base, policy=""):
    policy = text_format.Parse(policy, Policy())
    versions = versions_to_serve("translate", base, policy)
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
