"""Search options, prefixes, sampling and reranking with a random Transformer."""

import dataclasses
import functools
import re

import numpy as np
import pytest

from benchmarks.server_process import started_server
from t2t_keras.decoding.sampling import Sampling
from t2t_keras.files.lines import line_seed
from t2t_keras.runs.export import export_card, saved_model
from t2t_keras.runs.export.export_settings import ExportSettings
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.translation.line_translation import LineTranslator
from t2t_keras.runs.translation.request import TranslationRequest
from t2t_keras.serving.export.requests import Request
from t2t_keras.serving.export.validation import (
    list_ops,
    open_session,
    read_meta_graph,
)
from tests.in_process import run_program
from tests.runs.random_model import (
    CONFIG,
    as_trained_model,
    random_lines,
    random_model,
    random_trained_model,
    random_vocabulary,
    strings,
)
from tests.stock_ops import CORE_OPS, TOKENIZER_OPS

DECODING = CONFIG.decoding.override(
    beam_size=3,
    length_penalty="power",
    suppress_unknown=True,
    min_length=3,
    no_repeat_ngram=2,
)
TERMS = {"grün": "Haus", "Bäume": "old tree", "über": "walks", "green": "grün ,"}
IN_CARD = re.compile(r"Sampling.*\n.*\n.*temperature.* 0\.8 .*\n.*top_k.* 50 ")


@pytest.mark.slow
@pytest.mark.usefixtures("unvalidated")
def test_an_export_samples_and_takes_prefixes_and_terms_as_translate_does(
    tmp_path_factory, tmp_path
):
    trained = random_trained_model(tmp_path_factory, num_layers=1)
    sampling = Sampling(temperature=0.8, top_k=50, top_p=0.95, seed=6)
    settings = ExportSettings(
        DECODING,
        n_best=2,
        batch_sizes=(4,),
        sample=sampling,
        prefix=True,
        terms=True,
    )
    version = saved_model.export_saved_model(
        trained, ModelDir(tmp_path), "text", settings
    )
    assert IN_CARD.search((version / "model_card.md").read_text())
    ops = list_ops(read_meta_graph(version))
    assert ops - CORE_OPS == TOKENIZER_OPS
    lines = [*random_lines(5, seed=3), ""]
    prefixes = ["", "a house", "", "the", "old", "a"]
    pairs = list(zip(lines, prefixes, strict=True))

    def translate(request):
        translator = LineTranslator(trained, DECODING, request)
        return list(translator.translate(iter(pairs), 3))

    samples = translate(TranslationRequest(2, sampling))
    forced = translate(TranslationRequest(with_prefixes=True))
    glossary = tmp_path / "terms.tsv"
    glossary.write_text("".join(f"{a}\t{b}\n" for a, b in TERMS.items()))
    several = TranslationRequest(2, glossary=str(glossary))
    with_terms = list(
        LineTranslator(trained, DECODING, several).translate(
            ((line, "") for line in lines), 3
        )
    )
    with open_session(version) as session:
        seeds = np.array([line_seed(6, number) for number in range(1, 7)])
        inputs = {"text": strings(lines), "seed": seeds}
        found = session.ask(Request("sample", inputs))
        # A row alone, with its seed: its first sample is the same.
        alone = {name: value[4:5] for name, value in inputs.items()}
        again = session.ask(Request("sample", alone))
        inputs = {"text": strings(lines), "prefix": strings(prefixes)}
        begun = session.ask(Request("translate_with_prefix", inputs))
        inputs["prefix"] = strings(["a house " * 40] * 6)
        cut = session.ask(Request("translate_with_prefix", inputs))
        terms = [
            "\n".join({TERMS[word]: 0 for word in line.split() if word in TERMS})
            for line in lines
        ]
        inputs = {"text": strings(lines), "terms": strings(terms)}
        obeying = session.ask(Request("nbest_with_terms", inputs))
        free = session.ask(Request("nbest", {"text": inputs["text"]}))
    assert terms[-1] == "" and sum(map(bool, terms)) >= 3 and "" in terms[:-1]
    for row, line in enumerate(with_terms):
        actual = [text.decode() for text in obeying["translations"][row]]
        assert actual == [each.text for each in line.hypotheses] + [""] * (
            2 - len(line.hypotheses)
        )
        scores = [each.score for each in line.hypotheses]
        np.testing.assert_allclose(
            obeying["scores"][row][: len(scores)], scores, atol=1e-4
        )
        if not terms[row]:
            assert actual == [text.decode() for text in free["translations"][row]]
    for row, line in enumerate(samples):
        count = len(line.hypotheses)
        actual = [text.decode() for text in found["translations"][row][:count]]
        assert actual == [each.text for each in line.hypotheses]
        scores = [each.score for each in line.hypotheses]
        np.testing.assert_allclose(found["scores"][row][:count], scores, atol=1e-4)
    assert again["translations"].tolist() == found["translations"][4:5].tolist()
    assert [text.decode() for text in begun["translation"]] == [e.text for e in forced]
    scores = [line.hypotheses[0].score for line in forced]
    np.testing.assert_allclose(begun["score"], scores, atol=1e-4)
    assert not begun["truncated"].any()
    # The prefix of an empty line means nothing.
    assert cut["truncated"].tolist() == [True] * 5 + [False]
    assert forced[1].text.startswith("a house")

    begun_lines = "".join(f"{line}\t{prefix}\n" for line, prefix in pairs).encode()
    lines_alone = "".join(f"{line}\n" for line in lines).encode()
    with started_server(version.parent, "--noenable_model_warmup") as server:
        ask = functools.partial(run_program, "client", f"--server={server.address}")
        done = ask("--prefix=column", "--scores", stdin=begun_lines)
        glossed = ask(
            f"--glossary={glossary}", "--n_best=2", "--batch_size=2", stdin=lines_alone
        )
        drawn = ask("--sample", "--seed=6", "--n_best=2", stdin=lines_alone)
    assert (drawn.status, drawn.stderr, done.status, done.stderr) == (0, "", 0, "")
    texts = [each.text for line in samples for each in line.hypotheses]
    assert [line.split("\t")[-1] for line in drawn.lines] == texts
    texts = [
        f"{number}\t{each.text}"
        for number, line in enumerate(with_terms, start=1)
        for each in line.hypotheses
    ]
    assert (glossed.status, glossed.stderr, glossed.lines) == (0, "", texts)
    rows = [line.split("\t") for line in done.lines]
    assert [row[1] for row in rows] == [each.text for each in forced]
    np.testing.assert_allclose([float(row[0]) for row in rows], scores, atol=1e-4)


def test_an_export_without_them_is_recorded_as_before():
    vocabulary = random_vocabulary()
    trained = as_trained_model(random_model(vocabulary), vocabulary)
    plain = ExportSettings(CONFIG.decoding)
    describe = {"checkpoint": "x", "step": 1, "averaged": []}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_card, "_describe_checkpoint", lambda _: describe)
        before = export_card.identity(trained, plain)
        after = export_card.identity(trained, dataclasses.replace(plain, prefix=True))
        options = export_card.identity(trained, ExportSettings(DECODING))
    assert before["decoding"] == {"beam_size": 4, "alpha": 0.6, "extra_length": 6}
    assert not {"sample", "prefix", "warm_up"} & before.keys()
    assert after == {**before, "prefix": True}
    assert options["decoding"]["no_repeat_ngram"] == 2
