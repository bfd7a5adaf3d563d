import contextlib
import io
import os
import shutil
import sys
import time

import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from tensorflow_datasets.core.download import downloader
from tensorflow_datasets.core.download.download_manager import NonMatchingChecksumError
from tensorflow_datasets.core.download.util import DownloadError

from t2t_keras.errors import UserError
from t2t_keras.files.locks import lock_folder
from t2t_keras.files.logs import log_to
from t2t_keras.input_pipeline.corpora import tfds as tfds_corpora
from t2t_keras.input_pipeline.corpora.corpus import open_corpus
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus

PAIRS = tuple((f"ein Haus {number}", f"a house {number}") for number in range(25))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Folder with a dataset in the format of TFDS, under a name without a builder."""
    data_dir = str(tmp_path_factory.mktemp("tfds"))

    def split(pairs):
        german, english = map(list, zip(*pairs, strict=True))
        return tf.data.Dataset.from_tensor_slices({"de": german, "en": english})

    tfds.dataset_builders.store_as_tfds_dataset(
        name="houses",
        version="1.0.0",
        config="de-en",
        data_dir=data_dir,
        features=tfds.features.Translation(languages=("de", "en")),
        split_datasets={
            "train": split(PAIRS),
            "validation": split(PAIRS[:4]),
            "test": split(PAIRS[4:9]),
        },
        disable_shuffling=True,
    )
    return data_dir


def strings(dataset):
    elements = dataset.as_numpy_iterator()
    return [(e["source"].decode(), e["target"].decode()) for e in elements]


def open_houses(data_dir, source="de", target="en"):
    return open_corpus(
        "houses/de-en",
        source_language=source,
        target_language=target,
        data_dir=data_dir,
    )


def test_a_prepared_dataset_by_name(stored):
    corpus = open_houses(stored)
    assert list(corpus.splits) == ["train", "dev", "test"]
    assert strings(corpus.pairs("train")) == list(PAIRS)
    assert strings(corpus.pairs("dev")) == list(PAIRS[:4])
    assert strings(corpus.pairs("test")) == list(PAIRS[4:9])
    assert [s.num_pairs for s in corpus.splits.values()] == [25, 4, 5]
    assert corpus.name == "houses/de-en/1.0.0 de-en"


def test_languages_pick_the_direction(stored):
    turned = open_houses(stored, source="en", target="de")
    assert strings(turned.pairs("dev")) == [(en, de) for de, en in PAIRS[:4]]
    plain, again = (open_houses(stored).splits["train"].fingerprint for _ in "ab")
    assert plain == again != turned.splits["train"].fingerprint


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("fr", "en", r"no text 'fr'\. --source_language must be one of: de, en"),
        ("de", "fr", r"no text 'fr'\. --target_language must be one of: de, en"),
        (None, "en", r"needs --source_language\. .* one of: de, en"),
        ("de", None, r"needs --target_language\. .* one of: de, en"),
        ("de", "de", r"are both 'de'\. Choose two of: de, en"),
    ],
)
def test_languages_that_are_not_there(stored, source, target, message):
    with pytest.raises(UserError, match=message):
        open_houses(stored, source, target)


def test_an_unprepared_dataset_fails_at_once_without_download(tmp_path, monkeypatch):
    def no_network(*_, **__):
        raise AssertionError("the network was touched")

    monkeypatch.setattr("socket.create_connection", no_network)
    monkeypatch.setattr("socket.socket.connect", no_network)
    started = time.monotonic()
    with pytest.raises(
        UserError, match=r"not prepared in .*wmt14.*--download .*--data_dir"
    ):
        open_corpus(
            "wmt14_translate/de-en",
            source_language="en",
            target_language="de",
            data_dir=str(tmp_path),
        )
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "error", [ConnectionError, DownloadError, NonMatchingChecksumError]
)
def test_a_download_that_fails_is_explained(tmp_path, monkeypatch, error):
    def offline(self, **_):
        raise error("no route to host")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", offline)
    with pytest.raises(UserError, match=r"could not be prepared .*no route to host"):
        open_corpus(
            "wmt14_translate/fr-en",
            source_language="en",
            target_language="fr",
            data_dir=str(tmp_path),
            download=True,
        )


@pytest.mark.parametrize("reached", [False, True])
def test_a_download_without_a_network_says_so_and_tries_less(
    tmp_path, monkeypatch, capsys, reached
):
    seen = []
    lines: list[str] = []

    def connect(address, timeout):
        assert 0 < timeout <= 10
        if not reached:
            raise OSError("no network")
        return io.BytesIO()

    def offline(self, download_config):
        seen.append((download_config.try_download_gcs, downloader.MAX_RETRIES))
        raise ConnectionError("no route to host")

    before = downloader.MAX_RETRIES
    monkeypatch.setattr("urllib.request.getproxies", dict)
    monkeypatch.setattr("socket.create_connection", connect)
    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", offline)
    with pytest.raises(UserError, match="no route to host"):
        with log_to(lines.append):
            open_corpus(
                "wmt14_translate/fr-en",
                source_language="en",
                target_language="fr",
                data_dir=str(tmp_path),
                download=True,
            )
    assert capsys.readouterr() == ("", "")
    said = "\n".join(lines)
    assert "wmt14_translate/fr-en" in said and str(tmp_path) in said
    assert ("cannot be reached" in said) is not reached
    assert downloader.MAX_RETRIES == before > 2
    assert seen == [(True, before) if reached else (False, 2)]


def test_a_forgotten_configuration_is_explained(tmp_path):
    with pytest.raises(
        UserError, match=r"This is wmt14_translate/cs-en.*: cs-en, de-en"
    ):
        open_corpus(
            "wmt14_translate",
            source_language="en",
            target_language="de",
            data_dir=str(tmp_path),
        )


def test_mocked_wmt14(tmp_path, vocabulary):
    """The builder of WMT14 in TFDS, with synthetic text instead of its files."""

    def as_dataset(builder, split, **_):
        assert split == "validation"
        german, english = map(list, zip(*PAIRS, strict=True))
        return tf.data.Dataset.from_tensor_slices({"de": german, "en": english})

    with tfds.testing.mock_data(as_dataset_fn=as_dataset):
        builder = tfds.builder("wmt14_translate/de-en", data_dir=str(tmp_path))
        source = tfds_corpora.TfdsSource(builder, "en", "de")
        pairs = source.make_opener("validation")()
        tokenized = tokenize_corpus(pairs, vocabulary, 100)
    assert source.name == "wmt14_translate/de-en/1.0.0 en-de"
    assert tokenized.pair(3)[0].tolist() == vocabulary.encode("a house 3")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wmt14_translat/de-en", r"no dataset wmt14_translat/de-en.*mean wmt14_trans"),
        ("qqqqqqqq", r"There is no dataset qqqqqqqq, neither .*data\.$"),
        ("wmt14_translate/de-enn", r"cannot be opened.*de-enn not found"),
        ("wmt14_translate/de-en:9.9.9", r"cannot be opened.*9\.9\.9"),
        ("no/such/thing/!", r"cannot be opened\. Write name/configuration"),
    ],
)
def test_unknown_names(tmp_path, name, message):
    with pytest.raises(UserError, match=f"(?s){message}"):
        open_corpus(name, data_dir=str(tmp_path))


BUILDER = '''
"""Counting, in digits and words."""
import tensorflow_datasets as tfds
from {name}.words import WORDS


class {class_name}(tfds.core.GeneratorBasedBuilder):
    """Counting."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {{"source": tfds.features.Text(), "target": tfds.features.Text()}}
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager):
        sizes = {{"train": 3, "test": 2}}
        return {{name: self._generate_examples(sizes[name]) for name in sizes}}

    def _generate_examples(self, count):
        for number in range(count):
            yield number, {{"source": str(number), "target": WORDS[number]}}
'''


@pytest.fixture
def make_folder(tmp_path, monkeypatch):
    """Returns a function that writes a dataset builder to data/<name> in `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def make(name, class_name, text=BUILDER):
        folder = tmp_path / "data" / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text('"""Counting."""\n')
        (folder / "words.py").write_text('WORDS = ("zero", "one", "two")\n')
        source = text.format(name=name, class_name=class_name)
        (folder / f"{name}_dataset_builder.py").write_text(source)
        return folder

    yield make
    for name in [name for name in sys.modules if name.startswith("counting")]:
        del sys.modules[name]


def test_a_folder_under_data_is_prepared_and_read(make_folder, tmp_path):
    make_folder("counting_one", "CountingOne")
    before = len(sys.path)
    for _ in range(2):  # the second time it is only read
        corpus = open_corpus("counting_one", data_dir=str(tmp_path / "prepared"))
    assert list(corpus.splits) == ["train", "test"]
    expected = [("0", "zero"), ("1", "one"), ("2", "two")]
    assert strings(corpus.pairs("train")) == expected
    assert strings(corpus.pairs("test")) == expected[:2]
    assert corpus.name == "counting_one/1.0.0 source-target"
    assert os.listdir(tmp_path / "prepared" / "counting_one") == ["1.0.0"]
    assert sys.path[before:] == [str(tmp_path / "data")]


def test_a_dataset_that_another_process_prepares_is_waited_for(
    make_folder, tmp_path, monkeypatch
):
    make_folder("counting_twice", "CountingTwice")
    open_corpus("counting_twice", data_dir=str(tmp_path / "other"))
    folder = tmp_path / "here" / "counting_twice"
    folder.mkdir(parents=True)
    lines = []
    with contextlib.ExitStack() as other:
        other.enter_context(lock_folder(folder))

        def finish(line):
            lines.append(line)
            shutil.copytree(tmp_path / "other", tmp_path / "here", dirs_exist_ok=True)
            other.close()

        with log_to(finish):
            corpus = open_corpus("counting_twice", data_dir=f"{folder.parent}")
    assert lines == ["waiting for another process that prepares counting_twice …"]
    assert corpus.splits["train"].num_pairs == 3


def test_what_tfds_prints_is_logged(make_folder, tmp_path, capfd, monkeypatch):
    make_folder("counting_six", "CountingSix")
    lines: list[str] = []
    monkeypatch.setattr("socket.create_connection", None)  # no network is needed

    def log(line):
        lines.append(line)
        print("logged")  # a log may print

    with log_to(log):
        open_corpus("counting_six", data_dir=str(tmp_path / "prepared"))
    assert (
        lines[0]
        == f"preparing counting_six in {tmp_path}/prepared/counting_six/1.0.0 …"
    )
    assert any("prepared to" in line for line in lines[1:])
    assert capfd.readouterr() == ("logged\n" * len(lines), "")


def test_a_folder_is_offered_for_a_misspelt_name(make_folder):
    make_folder("counting_two", "CountingTwo")
    with pytest.raises(UserError, match=r"Did you mean counting_two"):
        open_corpus("countng_two")


def test_a_folder_whose_name_is_taken(make_folder, monkeypatch):
    folder = make_folder("counting_three", "CountingThree")
    other = folder.parent.parent / "elsewhere"
    (folder.parent).rename(other)
    monkeypatch.syspath_prepend(other)
    make_folder("counting_three", "CountingThree")
    with pytest.raises(UserError, match=r"is taken: Python finds .*elsewhere"):
        open_corpus("counting_three")


def test_a_folder_of_links_as_bazel_lays_them_out(make_folder, tmp_path):
    folder = make_folder("counting_links", "CountingLinks")
    for path in list(folder.iterdir()):
        path.symlink_to(path.rename(tmp_path / path.name))
    corpus = open_corpus("counting_links", data_dir=str(tmp_path / "prepared"))
    assert list(corpus.splits) == ["train", "test"]


def test_a_builder_file_without_a_builder(make_folder):
    make_folder("counting_four", "CountingFour", text='"""Nothing."""\n')
    with pytest.raises(UserError, match=r"must define one subclass .* Received: 0"):
        open_corpus("counting_four")


def test_an_unknown_configuration_of_a_folder(make_folder):
    make_folder("counting_five", "CountingFive")
    with pytest.raises(UserError, match=r"counting_five/large cannot be opened"):
        open_corpus("counting_five/large")
