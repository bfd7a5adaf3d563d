"""Bundled flagfiles and corpora: the places in which they are searched."""

import os

import pytest

from t2t_keras.errors import UserError
from t2t_keras.files import bundled
from t2t_keras.files.bundled import bundled_folder, expand_flagfiles, matching_flagfiles
from t2t_keras.settings.flags import config_from_flagfile


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


@pytest.fixture(params=["wheel", "checkout"])
def ours(request, tmp_path, monkeypatch):
    """Bundled `configs` of a fake package; the working directory is empty."""
    package = tmp_path / "site" / "t2t_keras"
    parent = package if request.param == "wheel" else package.parent
    module = write(package / "files" / "bundled.py")
    if request.param == "wheel":  # what other packages leave beside an installed one
        write(package.parent / "configs" / "small.flags", "--d_model=999")
    monkeypatch.setattr(bundled, "__file__", str(module))
    folder = parent / "configs"
    write(folder / "small.flags", "# Small.", "", "// Too.", "--d_model=64")
    # Some editors begin a file with a mark.
    mark = "\ufeff--flagfile=configs/small.flags"
    write(folder / "deep" / "a.flags", mark, "--d_ff=32")
    write(folder / "deep" / "b.flags", "--flagfile=configs/small.flags", "--d_ff=16")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return folder


def test_both_folders_are_where_the_package_has_them(ours):
    assert bundled_folder("configs") == ours
    (ours.parent / "data").mkdir()
    assert bundled_folder("data") == ours.parent / "data"


def test_a_bundled_flagfile_is_found_and_its_nested_one(ours):
    for form in ("--flagfile={}", "-flagfile={}", "--flagfile {}"):
        given = form.format("configs/deep/a.flags").split(" ")
        expected = ["--seed=1", "--d_model=64", "--d_ff=32", "--alpha=1"]
        assert expand_flagfiles(["--seed=1", *given, "--alpha=1"]) == expected, form


def test_the_working_directory_comes_first_for_nested_ones_too(ours, tmp_path):
    write(tmp_path / "here/configs/small.flags", "--d_model=8")
    assert expand_flagfiles(["--flagfile=configs/small.flags"]) == ["--d_model=8"]
    expected = ["--d_model=8", "--d_ff=32"]
    assert expand_flagfiles(["--flagfile=configs/deep/a.flags"]) == expected
    write(tmp_path / "here/mine.flags", "--flagfile=configs/deep/b.flags")
    expected = ["--d_model=8", "--d_ff=16"]
    assert expand_flagfiles(["--flagfile=mine.flags"]) == expected


def test_what_is_no_flagfile_stays_as_it_is(ours):
    arguments = ["a", "--x", "--flagfile=", "-y", "--", "--flagfile=configs/gone.flags"]
    assert expand_flagfiles(arguments) == [a for a in arguments if a != "--flagfile="]


def test_a_missing_flagfile_is_looked_for_in_both_places(ours, tmp_path):
    with pytest.raises(UserError, match=r"no flagfile configs/smal\.flags") as caught:
        expand_flagfiles(["--flagfile=configs/smal.flags"])
    message = str(caught.value)
    assert str(tmp_path / "here" / "configs" / "smal.flags") in message
    assert str(ours / "smal.flags") in message
    assert "Did you mean configs/small.flags?" in message


def test_faults_of_flagfiles_are_told_by_name(ours, tmp_path):
    here = tmp_path / "here"
    write(here / "one.flags", "--flagfile=two.flags")
    write(here / "two.flags", "--flagfile=one.flags")
    (here / "latin.flags").write_bytes(b"# \xe9\n")
    for given, words in (
        ("gone.flags", str(here / "gone.flags")),
        ("one.flags", "one.flags → two.flags → one.flags"),
        ("latin.flags", "latin.flags cannot be read"),
        (str(here), "cannot be read"),
    ):
        with pytest.raises(UserError) as caught:
            expand_flagfiles([f"--flagfile={given}"])
        assert words in str(caught.value)
    with pytest.raises(UserError, match="--flagfile needs"):
        expand_flagfiles(["--flagfile"])


def test_patterns_match_bundled_flagfiles_where_none_match_here(ours, tmp_path):
    names = ["configs/deep/a.flags", "configs/deep/b.flags"]
    assert matching_flagfiles("configs/deep/*.flags") == names
    assert [config_from_flagfile(name).model.d_ff for name in names] == [32, 16]
    write(tmp_path / "here/configs/deep/c.flags")
    assert matching_flagfiles("configs/deep/*.flags") == ["configs/deep/c.flags"]
    assert matching_flagfiles(f"{os.getcwd()}/configs/*/c*") == [
        f"{os.getcwd()}/configs/deep/c.flags"
    ]
    with pytest.raises(UserError, match=r"z\.flags"):
        matching_flagfiles("configs/deep/*z.flags")


def test_settings_come_from_bundled_flagfiles_in_any_directory(tmp_path, monkeypatch):
    """All flagfiles of this project, including nested ones."""
    monkeypatch.chdir(tmp_path)
    assert config_from_flagfile("configs/tiny.flags").data.dataset == "grammar_ende"
    base = config_from_flagfile("configs/base.flags")
    row = config_from_flagfile("configs/table3/a1.flags")
    assert row.model.num_heads == 1
    assert row.data == base.data
