"""Equal translations of one file by all programs, loaders and servers.

The reference is the search in this process. Scores may differ by 1e-5, because the
order of float32 sums depends on the batch.
"""

import random
import threading

import numpy as np
import pytest

from benchmarks.server_process import BATCHING, started_server
from t2t_keras.serving.client.translation_client import TranslationClient
from tests.forked import REPOSITORY, run_python
from tests.in_process import run_program
from tests.system.c_programs import run_c
from tests.system.hostile_lines import LINES, LONG

# Each test needs a trained model, and most start a process.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lines(reverse_run):
    """The 101 lines of a file, including hostile ones and one over the length limit."""
    ordinary = [source.encode() for source, _ in reverse_run.held_out[:85]]
    mixed = [*LINES, LONG.encode(), *ordinary]
    random.Random(3).shuffle(mixed)
    return mixed


@pytest.fixture(scope="module")
def expected(make_translator, lines):
    """Text and score of each line."""
    best = [line.hypotheses[0] for line in make_translator(4).translate(lines)]
    return [(each.text, each.score) for each in best]


@pytest.fixture(scope="module")
def version(reverse_run):
    return reverse_run.model_dir.export / "1"


@pytest.fixture(scope="module")
def server(reverse_run):
    """The embedded server in a process, with batching."""
    base, flag = reverse_run.model_dir.export, "--noenable_model_warmup"
    with started_server(base, flag, batching=BATCHING) as started:
        yield started


def assert_same(found, expected):
    """Compares texts and scores with the expected ones."""
    assert [text for text, _ in found] == [text for text, _ in expected]
    scores = [[score for _, score in pairs] for pairs in (found, expected)]
    # Above 10, float32 rounds to 1e-6 and more (4e-6 at 60), several times in a sum.
    np.testing.assert_allclose(*scores, rtol=1e-6, atol=1e-5)


def read(output: bytes):
    """Returns text and score of each line of a program's output."""
    assert output.endswith(b"\n")
    rows = [line.split("\t") for line in output.decode()[:-1].split("\n")]
    return [(row[-1], float(row[0])) for row in rows]


def test_the_expected_translations_vary(expected):
    texts = {text for text, _ in expected}
    assert len(texts) > 80 and "" in texts
    assert min(score for _, score in expected) < -1e-3


def test_the_translate_program(reverse_run, lines, expected):
    """Each line alone; the expected translations come from one batch."""
    rows = translate_to_fields(
        reverse_run, "--lines_at_once=1", stdin=b"\n".join(lines)
    )
    assert_same([(row[2], float(row[0])) for row in rows], expected)


def test_the_example_program_without_this_project(version, lines, expected):
    example = REPOSITORY / "examples" / "translate.py"
    done = run_python(example, version, input=b"\n".join(lines))
    assert done.returncode == 0, done.stderr.decode()
    assert_same(read(done.stdout), expected)


@pytest.mark.parametrize(
    ("name", "batch_size"), [("translate", 1), ("translate_no_xla", 32)]
)
def test_the_c_program(c_programs, version, lines, expected, name, batch_size):
    status, output, messages = run_c(
        c_programs / name, version, str(batch_size), stdin=b"\n".join(lines)
    )
    assert (status, [line for line in messages if line.startswith("error")]) == (0, [])
    assert_same(read(output), expected)


@pytest.mark.parametrize(("batch_size", "concurrency"), [(1, 16), (32, 1)])
def test_the_client_program(server, lines, expected, batch_size, concurrency):
    done = run_program(
        "client",
        f"--server={server.address}",
        f"--batch_size={batch_size}",
        f"--concurrency={concurrency}",
        "--scores",
        stdin=b"\n".join(lines),
    )
    assert done.status == 0, done.stderr
    assert_same(read(done.output), expected)


def translate_to_fields(reverse_run, *arguments, stdin):
    """Returns the output of `translate --scores` as a list of fields for each line."""
    flag = f"--model_dir={reverse_run.model_dir.path}"
    done = run_program("translate", flag, "--scores", *arguments, stdin=stdin)
    return [line.split("\t") for line in done.lines]


def test_the_n_best(server, reverse_run, lines):
    stdin = b"\n".join(lines)
    done = run_program(
        "client", f"--server={server.address}", "--n_best=3", "--scores", stdin=stdin
    )
    found = [line.split("\t") for line in done.lines]
    wanted = translate_to_fields(reverse_run, "--n_best=3", stdin=stdin)
    assert [row[0] for row in found] == [row[0] for row in wanted]
    assert len(found) > 2 * len(lines)
    assert_same(
        [(row[2], float(row[1])) for row in found],
        [(row[3], float(row[1])) for row in wanted],
    )


def test_options_of_the_search(server, reverse_run, lines):
    """Some options are left out; the server batches the requests nevertheless."""
    stdin = b"\n".join(lines)
    chosen = ("--beam_size=2", "--alpha=0.1")
    flags = f"--server={server.address}", *chosen, "--scores"
    done = run_program("client", *flags, stdin=stdin)
    assert done.status == 0, done.stderr
    wanted = translate_to_fields(reverse_run, *chosen, stdin=stdin)
    assert_same(read(done.output), [(row[2], float(row[0])) for row in wanted])


def test_scores_of_given_translations(server, reverse_run, lines, tmp_path):
    """Each letter is one subword, so the scores equal those of the search."""
    sources = [source.encode() for source, _ in reverse_run.held_out[:85]]
    wanted = translate_to_fields(reverse_run, stdin=b"\n".join(sources))
    target = tmp_path / "target.txt"
    target.write_text("".join(f"{row[2]}\n" for row in wanted))
    done = run_program(
        "client",
        f"--server={server.address}",
        f"--target={target}",
        stdin=b"\n".join(sources),
    )
    assert done.status == 0, done.stderr
    found = [[float(field) for field in line.split("\t")] for line in done.lines]
    expected = [[float(row[0]), float(row[1])] for row in wanted]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


def test_sixteen_clients_at_once(server, lines, expected):
    """Each translates all lines, in its own order and batches."""
    wanted = dict(zip(lines, expected, strict=True))
    answers_by_seed = {}

    def ask(seed):
        generator = random.Random(seed)
        rest = lines[:]
        generator.shuffle(rest)
        answers = answers_by_seed[seed] = []
        with TranslationClient(server.address) as client:
            while rest:
                batch = [rest.pop() for _ in range(min(len(rest), seed % 5 + 1))]
                answers += zip(batch, client.translate(batch), strict=True)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers_by_seed) == 16
    for answers in answers_by_seed.values():
        assert len(answers) == len(lines)
        assert_same(
            [(each.text, each.score) for _, each in answers],
            [wanted[line] for line, _ in answers],
        )
