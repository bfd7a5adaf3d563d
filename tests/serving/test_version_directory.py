"""A version is there when it is whole, and leaves nothing if it never is."""

import pytest

from t2t_keras.serving.version_directory import next_version, whole_or_not_at_all


def test_versions_count_on_from_the_largest_and_what_is_no_version_is_left(tmp_path):
    assert next_version(tmp_path / "new") == tmp_path / "new" / "1"
    for name in ("2", "10", "notes", ".11", "12.old"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == tmp_path / "11"


def test_nobody_sees_it_before_it_is_whole(tmp_path):
    final = tmp_path / "deep" / "base" / "7"
    with whole_or_not_at_all(final) as temporary:
        temporary.mkdir()
        (temporary / "file").write_text("x")
        assert not final.exists()
        assert not temporary.name.isdigit()  # no server takes it for a version
    assert [path.name for path in final.parent.iterdir()] == ["7"]
    assert (final / "file").read_text() == "x"


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("others", [False, True])
def test_what_fails_or_is_interrupted_leaves_nothing(tmp_path, error, others):
    base = tmp_path / "base"
    if others:
        (base / "1").mkdir(parents=True)
    with pytest.raises(error), whole_or_not_at_all(base / "2") as temporary:
        temporary.mkdir()
        (temporary / "half").write_text("x")
        raise error
    assert base.exists() == others
    assert not others or [path.name for path in base.iterdir()] == ["1"]
