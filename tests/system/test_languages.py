"""A multilingual model in the programs: an import, its exports, and further training.

The model is a small one in M2M100's format. Whether it is read rightly is tested in
tests/interop.
"""

import json
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.server_process import BATCHING, started_server
from t2t_keras import Run, TranslationClient
from t2t_keras.server.translation_api.language_pairs import parse_models
from t2t_keras.server.translation_api.runner import running_translation_api
from t2t_keras.server.translation_api.settings import TranslationApiSettings
from t2t_keras.serving import signature
from t2t_keras.serving.client.errors import ServerError
from t2t_keras.serving.client.options import SearchOptions
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import (
    list_ops,
    open_session,
    read_meta_graph,
)
from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.interop.m2m100_files import OPTIONS, TAGS, write_m2m100
from tests.interop.small_models import first_layers, small_weights
from tests.stock_ops import CORE_OPS, TOKENIZER_OPS

pytestmark = pytest.mark.slow

LINES = ("ab a", "", "b ab a", "xyz")
PAIRS = (("de", "en"), ("en", "de"), ("ja", "zh"))
LIMIT = 3


def run_flags(program: str, **flags: object):
    return run_program(program, *(f"--{name}={each}" for name, each in flags.items()))


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m2m100")
    write_m2m100(folder / "theirs", first_layers(small_weights(OPTIONS)))
    flags = {"source_language": "de", "target_language": "en"}
    path = folder / "run"
    done = run_program(
        "convert",
        "--from=transformers",
        f"--input={folder / 'theirs'}",
        f"--model_dir={path}",
        *(f"--{name}={code}" for name, code in flags.items()),
    )
    assert done.status == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def translations(model_dir):
    """The translations of each pair, with their scores."""
    run, found = Run(model_dir), {}
    for pair in PAIRS:
        lines = run.for_languages(*pair).translate(LINES, extra_length=LIMIT)
        found[pair] = [line.hypotheses[0] for line in lines]
    scores = {tuple(each.score for each in rows) for rows in found.values()}
    assert len(scores) == len(PAIRS)
    return found


def test_the_program_takes_languages(model_dir, translations, tmp_path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("".join(f"{line}\n" for line in LINES))
    flags = {"model_dir": model_dir, "input": source, "extra_length": LIMIT}
    for pair in PAIRS[:2]:
        languages = dict(zip(("source_language", "target_language"), pair, strict=True))
        done = run_flags("translate", **flags, **languages)
        expected = [each.text for each in translations[pair]]
        assert done.stdout.splitlines() == expected, done.stderr
    done = run_flags("translate", **flags, target_language="xx")
    assert done.status == 2
    assert "--target_language must be a language of the model: en, ha" in done.stderr
    lexicon = tmp_path / "lexicon"
    lexicon.write_text("x")
    done = run_flags("export", model_dir=model_dir, shortlist=lexicon)
    assert "--shortlist is for models of one pair of languages" in done.stderr
    done = run_flags("export", model_dir=model_dir, format="marian")
    assert "--format=marian has models of one pair of languages" in done.stderr


def test_a_request_to_an_export_takes_languages(model_dir, translations) -> None:
    """Each row has its own, and rows of unknown ones harm no other."""
    version = Run(model_dir).export("text", extra_length=LIMIT, prefix=True, terms=True)
    assert list_ops(read_meta_graph(version)) - CORE_OPS == TOKENIZER_OPS
    rows = [
        (line, pair, best)
        for pair in PAIRS
        for line, best in zip(LINES, translations[pair], strict=True)
    ]
    count = len(rows)
    texts = np.array([line.encode() for line, _, _ in rows] + [b"ab"], object)
    codes = [np.array([p[i].encode() for _, p, _ in rows], object) for i in (0, 1)]
    languages = {
        signature.SOURCE_LANGUAGE: np.append(codes[0], b"de"),
        signature.TARGET_LANGUAGE: np.append(codes[1], b"xx"),
    }
    expected = [best.text for _, _, best in rows]
    scores = [best.score for _, _, best in rows]
    with open_session(version) as served:

        def ask(name: str, **inputs: np.ndarray):
            return served.ask(Request(name, inputs))

        default = ask(signature.TRANSLATE, text=texts[:4])
        found = default[signature.TRANSLATION]
        assert [text.decode() for text in found] == expected[:4]
        options = {
            signature.BEAM_SIZE: np.zeros(count + 1, np.int32),  # the export's own
            signature.ALPHA: np.full(count + 1, np.nan, "f"),
            signature.MAX_LENGTH: np.full(count + 1, 1000, np.int32),
        }
        for answer in (
            ask(signature.TRANSLATE_WITH_OPTIONS, text=texts, **languages),
            ask(signature.TRANSLATE_WITH_OPTIONS, text=texts, **languages, **options),
            ask(
                signature.TRANSLATE_WITH_PREFIX,
                text=texts,
                prefix=np.array([b""] * (count + 1), object),
                **languages,
            ),
        ):
            found = [text.decode() for text in answer[signature.TRANSLATION]]
            assert found == [*expected, ""]
            np.testing.assert_allclose(answer["score"], [*scores, -np.inf], rtol=1e-4)
        several = ask(signature.NBEST, text=texts, **languages)
        assert [row[0].decode() for row in several["translations"]] == [*expected, ""]
        assert several["scores"][-1].tolist() == [-np.inf] * 5
        free = ask(
            signature.NBEST_WITH_TERMS,
            text=texts,
            terms=np.array([b""] * (count + 1), object),
            **languages,
        )
        for name, values in several.items():
            np.testing.assert_array_equal(free[name], values)
        forced = ask(
            signature.NBEST_WITH_TERMS,
            text=texts,
            terms=np.array([b"ab b\nxx"] * (count + 1), object),
            **languages,
        )
        for row, (line, _, _) in enumerate(rows):
            found = forced["translations"][row][0].decode()
            assert "ab b" in found if line else found == ""
        assert forced["scores"][-1].tolist() == [-np.inf] * 5
        # A language for all texts, and none for their translations.
        one = ask(signature.NBEST, text=texts[:4], source_language=np.array(b"en"))
        run = Run(model_dir).for_languages("en")
        lines = run.translate(LINES, extra_length=LIMIT)
        assert [row[0].decode() for row in one["translations"]] == [
            line.text for line in lines
        ]
        targets = np.array([text.encode() for text in [*expected, "a"]], object)
        scored = ask(signature.SCORE_TARGET, source=texts, target=targets, **languages)
        for row, (line, pair, best) in enumerate(rows):
            (score,) = Run(model_dir).for_languages(*pair).score([(line, best.text)])
            assert scored["log_prob"][row] == pytest.approx(score.log_prob, abs=1e-4)
        assert scored["log_prob"][-1] == -np.inf
        names = scored["target_tokens"][0]
        assert (names[0], names[1][:3]) == (b"", "\u2581".encode())


def test_it_is_trained_further_in_another_direction(model_dir, tmp_path) -> None:
    for side, words in (("source", "ab a b"), ("target", "b ab ab")):
        (tmp_path / side).write_text(f"{words}\n" * 40)
    texts = {
        "train_source": tmp_path / "source",
        "train_target": tmp_path / "target",
        "source_language": "ja",
        "target_language": "de",
    }
    flags = {
        "flagfile": model_dir / "train.flags",
        "tokens_per_batch": 200,
        "max_length": 20,
    }
    run = tmp_path / "run"
    steps = {"train_steps": 3, "eval_steps": 3, "log_steps": 1, "warmup_steps": 2}
    done = run_flags(
        "train", **flags, init_from=model_dir, model_dir=run, **texts, **steps
    )
    assert done.status == 0, done.stderr
    vocabulary = Run(run).vocabulary
    assert vocabulary.source.encode("a")[0] == TAGS["en"] + 3
    assert vocabulary.tag_id == TAGS["de"]
    assert vocabulary.sha256 != Run(model_dir).vocabulary.sha256
    (batch,) = Run(run).batches().take(1)
    assert set(batch["encoder_input_tokens"].numpy()[:, 0]) <= {TAGS["en"] + 3, 0}
    assert set(batch["decoder_target_tokens"].numpy()[:, 0]) <= {TAGS["de"], 0}
    # Records are in those languages too, and others are refused.
    own = {**texts, "vocabulary_file": model_dir / "vocabulary.model"}
    records = tmp_path / "records"
    done = run_flags("prepare", **flags, **own, output=records)
    assert done.status == 0, done.stderr
    trained = {"records": records, "init_from": model_dir, **steps}
    done = run_flags("train", **flags, **trained, model_dir=tmp_path / "a", **own)
    assert done.status == 0, done.stderr
    done = run_flags("train", **flags, **trained, model_dir=tmp_path / "b")
    assert done.status == 2
    assert "--source_language: ja in the records, de now" in done.stderr


def page_commands() -> list[str]:
    """Returns the lines of the blocks of docs/multilingual.md, each a whole command."""
    text = (REPOSITORY / "docs/multilingual.md").read_text("utf-8")
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "".join(blocks).replace("\\\n", " ").splitlines()


def test_the_commands_of_the_page(tmp_path, monkeypatch) -> None:
    """From a folder to answers in two languages, a smaller model, and a trained one."""
    monkeypatch.chdir(tmp_path)
    write_m2m100(tmp_path / "m2m100_418M", first_layers(small_weights(OPTIONS)))
    for name, count in (("train", 40), ("dev", 3)):
        for language, words in (("de", "ab a b"), ("en", "b ab ab")):
            (tmp_path / f"{name}.{language}").write_text(f"{words}\n" * count)
    short = ("--tokens_per_batch=200", "--max_length=20", "--train_steps=3")
    short += ("--eval_steps=3", "--warmup_steps=2", "--noexport_at_end")
    asked, served = [], []
    for command in page_commands():
        before, is_python, call = command.partition("python -m t2t_keras.")
        program, *flags = shlex.split(call) or [""]
        if not is_python or program in ("serve", "client"):
            asked.append(command)
            continue
        stdin = "".join(shlex.split(before)[1:2]).encode()
        done = run_program(
            program, *flags, *(short if program == "train" else ()), stdin=stdin
        )
        assert done.status == 0, (command, done.stderr)
        if program == "translate":
            served.append(done.stdout.strip())
    assert Run("runs/small").vocabulary.size < Run("runs/m2m100").vocabulary.size
    assert Run("runs/mine").vocabulary.languages.target == "de"
    install, serve, languages, *requests, client = asked
    assert install == 'pip install -e ".[convert,serve]"'
    assert "--model_base_path=runs/m2m100/export --model_name=translate" in serve
    pairs = parse_models("translate", {"translate": "runs/m2m100/export"})
    with started_server(
        "runs/m2m100/export", "--noenable_model_warmup", batching=BATCHING
    ) as server:
        settings = TranslationApiSettings(pairs=pairs, server=server.address, port=0)
        with running_translation_api(settings) as port:
            answers = [
                json.loads(run_shell(each.replace("localhost:5000", f"127.1:{port}")))
                for each in (languages, *requests)
            ]
        command = client.replace("localhost:8500", server.address)
        by_client = run_shell(command.replace("python", sys.executable)).strip()
        # A server that joins requests fills in no defaults, so the client does.
        with TranslationClient(server.address) as asked_for_none:
            plain = asked_for_none.translate(LINES)
            for each in (
                asked_for_none.translate(LINES, SearchOptions(beam_size=5)),
                [line[0] for line in asked_for_none.translate_n_best(LINES)],
            ):
                assert [line.text for line in each] == [line.text for line in plain]
            scores = asked_for_none.score(LINES[:1], [plain[0].text])
            (attention,) = asked_for_none.attention(LINES[:1], [plain[0].text])
            assert len(attention.target_tokens) == len(scores[0].tokens)
            with pytest.raises(ServerError, match="between these languages: de to xx"):
                asked_for_none.for_languages("de", "xx").attention(["ab"], ["b"])
    assert len(answers[0]) == 8
    assert [each["translatedText"] for each in answers[1:]] == served
    assert by_client == served[1]


def run_shell(command: str) -> str:
    """Returns the standard output of a command."""
    done = subprocess.run(
        ["bash", "-ec", command], check=True, capture_output=True, text=True
    )
    return done.stdout
