"""The client program, with fake servers."""

import gzip
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time

import grpc
import numpy as np
import pytest
import tensorflow as tf

from t2t_keras.serving.client.file_translation import FileTranslation
from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.serving.fake_server import (
    RefusalError,
    answer_nbest,
    read_texts,
    serve,
    shout,
)
from tests.system.hostile_lines import LINES

SOURCE = b"a b c\n\nd\xc3\xbc\n"


@pytest.fixture
def served():
    with serve(shout) as address_and_service:
        yield address_and_service


def run(server, *arguments, stdin=SOURCE):
    return run_program("client", f"--server={server}", *arguments, stdin=stdin)


def test_standard_input_to_standard_output(served):
    done = run(served[0])
    assert (done.status, done.stderr) == (0, "")
    assert done.output == b"A B C\n\nD\xc3\xbc\n"


def test_each_input_line_gives_one_output_line(served):
    server, service = served
    # Its first lines show that a text is UTF-8; later ones may be anything.
    flags = "--batch_size=2", "--lines_at_once=4"
    done = run(server, *flags, stdin=b"\n".join(LINES))
    assert len(done.lines) == len(LINES)
    sent = [text for request in service.requests for text in read_texts(request)]
    assert sorted(sent) == sorted(line.removesuffix(b"\r") for line in LINES)
    assert max(len(read_texts(request)) for request in service.requests) == 2


def test_lines_that_are_not_utf8_give_a_warning(served):
    done = run(served[0], stdin=b"a b\n\xff\n\xc3(\n" + b"c d\n" * 37)
    assert len(done.lines) == 40
    assert "2 of 40 lines are not valid UTF-8" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = run(served[0], stdin=b"a b\n\xff\n\xc3(\n" + b"c d\n" * 36)
    assert (done.status, done.output) == (2, b"")
    assert "Standard input is not text in UTF-8: 2 of 39 lines" in done.stderr


def test_what_can_be_read_only_once_is_not_counted(tmp_path):
    reader, writer = os.pipe()
    os.write(writer, b"a\n")
    os.close(writer)
    assert FileTranslation(input=f"/dev/fd/{reader}").count_lines() is None
    assert os.read(reader, 9) == b"a\n"
    os.close(reader)


def test_empty_input_gives_empty_output(served):
    done = run(served[0], stdin=b"")
    assert (done.status, done.output) == (0, b"")
    assert served[1].requests == []


def test_files_plain_and_compressed(served, tmp_path):
    plain, packed = tmp_path / "in.txt", tmp_path / "in.txt.gz"
    plain.write_bytes(SOURCE)
    packed.write_bytes(gzip.compress(SOURCE))
    for path in (plain, packed):
        output = tmp_path / f"{path.name}.out"
        done = run(served[0], f"--input={path}", f"--output={output}", stdin=b"")
        assert (done.status, done.output, done.stderr) == (0, b"", "")
        assert output.read_bytes() == b"A B C\n\nD\xc3\xbc\n"


def test_scores(served):
    done = run(served[0], "--scores")
    assert done.lines == ["-0.625000\tA B C", "0.000000\t", "-0.375000\tDü"]


def test_samples_have_the_seeds_of_their_lines():
    with serve(answer_nbest) as (server, service):
        flags = "--sample", "--seed=5", "--n_best=2", "--batch_size=2"
        done = run(server, *flags, stdin=b"x\nabc\n\nyz\n")
        one = run(server, "--sample", stdin=b"yz\n")
    assert (done.status, done.stderr.count("too long")) == (0, 1)
    assert done.lines == ["1\tX0", "2\tABC0", "2\tABC1", "3\t", "4\tYZ0", "4\tYZ1"]
    assert one.lines == ["YZ0"]
    names = {request.model_spec.signature_name for request in service.requests}
    assert names == {"sample"}
    seeds = {
        text: int(seed)
        for request in service.requests[:-1]
        for text, seed in zip(
            read_texts(request), tf.make_ndarray(request.inputs["seed"]), strict=True
        )
    }
    numbers = {b"x": 1, b"abc": 2, b"": 3, b"yz": 4}
    assert seeds == {text: 5 * 2**32 + number for text, number in numbers.items()}
    seed = tf.make_ndarray(service.requests[-1].inputs["seed"])
    assert (seed.dtype, seed.tolist()) == (np.int64, [2**32 + 1])


def test_each_line_is_sent_with_its_prefix(tmp_path):
    def begin(request):
        texts, prefixes = (read_texts(request, name) for name in ("text", "prefix"))
        pairs = list(zip(texts, prefixes, strict=True))
        return {
            "translation": np.array([p + b"|" + t for t, p in pairs], object),
            "score": np.array([-len(p) / 2 for _, p in pairs], np.float32),
            "truncated": np.array([len(p) > 2 for _, p in pairs], bool),
        }

    path = tmp_path / "prefixes"
    path.write_bytes(b"z\n\nuvw\n")
    with serve(begin) as (server, service):
        flags = "--prefix=column", "--scores", "--batch_size=2"
        column = run(server, *flags, stdin=b"a b\tz\n\nc\tuvw\n")
        file = run(server, f"--prefix={path}", stdin=b"a b\n\nc\n")
        short = run(server, f"--prefix={path}", stdin=b"a\nb\n")
        missing = run(server, "--prefix=no/such.txt")
    assert column.lines == ["-0.500000\tz|a b", "0.000000\t|", "-1.500000\tuvw|c"]
    warning = "warning: line 3 or its prefix is too long; the end was cut\n"
    assert (column.status, column.stderr) == (0, warning)
    assert file.lines == ["z|a b", "|", "uvw|c"]
    names = {request.model_spec.signature_name for request in service.requests}
    assert names == {"translate_with_prefix"}
    assert (short.status, missing.status) == (2, 2)
    assert "There are 2 lines but more prefixes." in short.stderr
    assert "There is no file no/such.txt (--prefix)" in missing.stderr


def test_n_best_with_and_without_scores():
    with serve(answer_nbest) as (server, _):
        plain = run(server, "--n_best=2", stdin=b"x\n\nyz\n")
        scored = run(server, "--n_best=3", "--scores", stdin=b"x\n\nyz\n")
        too_many = run(server, "--n_best=9", stdin=b"x\n")
    assert plain.lines == ["1\tX0", "2\t", "3\tYZ0", "3\tYZ1"]
    assert scored.lines == [
        "1\t-0.500000\tX0",
        "2\t0.000000\t",
        "3\t-0.500000\tYZ0",
        "3\t-1.500000\tYZ1",
    ]
    assert too_many.status == 2
    assert "The export returns 3 translations of each text. Rec" in too_many.stderr


def test_a_translation_stays_one_line():
    def with_line_ends(request):
        return shout(request) | {"translation": np.array([b"a\nb\rc\n"], object)}

    with serve(with_line_ends) as (server, _):
        assert run(server, stdin=b"x\n").output == b"a b\rc \n"


def test_translations_are_scored_line_by_line(tmp_path):
    def score(request):
        pairs = list(
            zip(
                read_texts(request, "source"),
                read_texts(request, "target"),
                strict=True,
            )
        )
        count = len(pairs)
        return {
            "log_prob": np.array([-len(s) for s, _ in pairs], np.float32),
            "score": np.array([-len(t) / 2 for _, t in pairs], np.float32),
            "target_length": np.ones(count, np.int32),
            "target_tokens": np.array([[b"</s>"]] * count, object),
            "token_log_probs": np.zeros([count, 1], np.float32),
            "truncated": np.array([len(t) > 2 for _, t in pairs], bool),
        }

    target = tmp_path / "target.gz"
    target.write_bytes(gzip.compress(b"x\ny\nzzz\n"))
    with serve(score) as (server, _):
        done = run(server, f"--target={target}", "--batch_size=2")
        target.write_bytes(gzip.compress(b"x\ny\n"))
        short = run(server, f"--target={target}")
        long = run(server, f"--target={target}", stdin=b"x\n")
    assert done.lines == [
        "-0.500000\t-5.000000",
        "-0.500000\t0.000000",
        "-1.500000\t-3.000000",
    ]
    warning = "warning: line 3 or its target is too long; its end was not scored\n"
    assert (done.status, done.stderr) == (0, warning)
    assert (short.status, long.status) == (2, 2)
    assert "--target ends after 2 lines, and the other is longer" in short.stderr
    assert "--input ends after 1 lines" in long.stderr


def test_flags_set_the_model_and_the_options(served):
    server, service = served
    run(server, "--model_name=m", "--model_version=3", "--signature=greedy")
    run(server, "--version_label=stable", "--beam_size=2")
    run(server, "--max_length=9", "--alpha=1.5")
    specs = [request.model_spec for request in service.requests]
    assert (specs[0].name, specs[0].version.value) == ("m", 3)
    assert specs[0].signature_name == "greedy"
    assert (specs[1].name, specs[1].version_label) == ("translate", "stable")
    inputs = [set(request.inputs) - {"text"} for request in service.requests]
    every = {"beam_size", "alpha", "max_length"}
    assert inputs == [set(), every, every - {"beam_size"}]


def test_a_line_over_the_limit_is_cut_with_a_warning(served):
    done = run(served[0], "--batch_size=1", stdin=b"a\n" + b"x" * 21 + b"\nb\n")
    assert done.stderr == "warning: line 2 is too long; its end was not translated\n"
    assert done.lines == ["A", "X" * 20, "B"]


def test_a_busy_server_is_retried_up_to_the_limit():
    failures = iter(range(3))

    def busy(request):
        if next(failures, None) is not None:
            raise RefusalError(grpc.StatusCode.UNAVAILABLE, "busy")
        return shout(request)

    with serve(busy) as (server, service):
        refused = run(server, "--retries=1")
        assert len(service.requests) == 2
        done = run(server, "--retries=1")
    assert refused.status == 2
    assert refused.stderr.startswith(f"error: No answer from {server}: busy (tries: 2,")
    assert (done.status, len(service.requests)) == (0, 4)


def test_a_failure_halfway_leaves_no_file(tmp_path):
    def fail_late(request):
        if b"line 50" in read_texts(request):
            raise RefusalError(grpc.StatusCode.INTERNAL, "broken on purpose")
        return shout(request)

    lines = "".join(f"line {n}\n" for n in range(100)).encode()
    output = tmp_path / "out.txt"
    with serve(fail_late) as (server, _):
        done = run(server, f"--output={output}", "--lines_at_once=8", stdin=lines)
    assert done.status == 2
    assert done.stderr == f"error: INTERNAL from {server}: broken on purpose\n"
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_refused_and_nothing_is_written(served, tmp_path):
    path, output = tmp_path / "in.gz", tmp_path / "out.txt"
    path.write_bytes(gzip.compress(SOURCE * 99)[:-9])
    done = run(served[0], f"--input={path}", f"--output={output}")
    assert done.status == 2
    assert f"{path} is a damaged or incomplete gzip file" in done.stderr
    assert not output.exists()


REFUSED = (
    (("--server=nowhere",), "A server is host:port, as in localhost:8500"),
    (("--batch_size=0",), "--batch_size must be at least 1. Received: 0"),
    (("--n_best=2", "--alpha=1"), "The n best are searched with the export's set"),
    (("--sample", "--alpha=1"), "An export samples with its own settings. Received: "),
    (("--prefix=a", "--n_best=2"), "searches for one translation, with its own setti"),
    (("--prefix=a", "--alpha=1"), "Received: --prefix and --alpha. Leave out --prefi"),
    (("--prefix=a", "--sample"), "Received: --sample and --prefix. Leave out --prefi"),
    (("--prefix=a", "--target=b"), "--target only scores; remove --prefix, or"),
    *(
        ((f"{first}", flag), message)
        for first, message in (
            ("--sample", "An export samples with its own settings. Received: "),
            ("--prefix=a", "searches for one translation, with its own setti"),
        )
        for flag in ("--beam_size=2", "--max_length=9", "--signature=a")
    ),
    (("--sample", "--target=b"), "--target only scores; remove --sample, or"),
    (("--seed=3",), "--seed is for --sample. Add --sample, or leave it out."),
    (("--target=a", "--alpha=1"), "--target only scores; remove --alpha, or"),
    (("--target=-",), "--input and --target are the same: -"),
    (("--prefix=-",), "read once. Received: - for --input and --prefix"),
    (("--target=/dev/stdin",), "read once. Received: - for --input and --target"),
    (("--target=no/such.txt",), "There is no file no/such.txt (--target)"),
    (("--input=no/such.txt",), "There is no file no/such.txt (--input)"),
    (("--output=no/such/folder.txt",), "no/such/folder.txt cannot be written"),
    (("--ssl_ca_file=pyproject.toml",), "is not a file of certificates (PEM)"),
)


def test_bad_flags_are_refused(served):
    for arguments, message in REFUSED:
        done = run(served[0], *arguments)
        assert (done.status, done.output) == (2, b""), (arguments, done.stderr)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)
        assert served[1].requests == [], arguments


@pytest.fixture
def process():
    """Starts the client as a user would, and kills it after the test."""
    processes = []

    def start(*arguments, **streams):
        command = [sys.executable, "-m", "t2t_keras.client", *arguments]
        pipe = subprocess.PIPE
        streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe} | streams
        processes.append(subprocess.Popen(command, cwd=REPOSITORY, **streams))
        return processes[-1]

    yield start
    for each in processes:
        each.kill()
        each.communicate()


def test_ctrl_c_ends_it_at_once_and_leaves_no_file(process, tmp_path):
    ended, output = threading.Event(), tmp_path / "out.txt"

    def sleep(request):
        ended.wait(60)
        return shout(request)

    with serve(sleep) as (server, service):
        client = process(f"--server={server}", f"--output={output}", "--batch_size=1")
        client.stdin.write(b"x\n" * 50)
        client.stdin.close()
        client.stdin = None
        deadline = time.monotonic() + 60
        while len(service.requests) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        client.send_signal(signal.SIGINT)
        try:
            written, errors = client.communicate(timeout=300)
        finally:
            ended.set()
    assert (client.returncode, written) == (130, b"")
    assert errors == b"stopped by SIGINT\n"
    assert list(tmp_path.iterdir()) == []


def test_a_line_is_answered_before_the_next_is_typed(process, served):
    client = process(f"--server={served[0]}", "--lines_at_once=1", "--concurrency=1")
    for line in (b"first\n", b"second\n", b"\n"):
        client.stdin.write(line)
        client.stdin.flush()
        assert client.stdout.readline() == line.upper()
    assert client.communicate(timeout=300) == (b"", b"")
    assert client.returncode == 0


def test_progress_is_shown_on_a_terminal(served, process, tmp_path):
    """With the number of sentences of the file and the time left."""
    path = tmp_path / "in.txt"
    path.write_bytes(b"a\n" * 300)
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    client = process(
        f"--server={served[0]}", f"--input={path}", "--batch_size=1", stderr=theirs
    )
    assert client.communicate(timeout=300)[0] == b"A\n" * 300
    os.set_blocking(ours, False)
    shown = os.read(ours, 100_000)
    os.close(theirs)
    os.close(ours)
    # The first display, before any sentence is done; the time left is unknown.
    assert b" 0/300 [00:00<?" in shown


def test_protected_spans_are_kept():
    """The fake server has no signature `attention`: spans are placed in proportion."""

    def loses_braces(request):
        name = request.model_spec.signature_name
        if name == "attention":
            raise RefusalError(grpc.StatusCode.FAILED_PRECONDITION, "no such signature")
        outputs = shout(request)
        texts = [text.replace(b"{", b"") for text in outputs["translation"]]
        return outputs | {"translation": np.array(texts, object)}

    with serve(loses_braces) as (server, service):
        done = run(server, "--protect", stdin=b"a {b} c\nd e\n\n{f}\n")
    assert done.output == b"A {b} C\nD E\n\n{f}\n"
    assert len(service.requests) == 3
    for flags in ("--target=x", "--prefix=x"):
        done = run(server, "--protect", flags)
        assert done.status != 0
        assert "so it takes neither --target nor --prefix" in done.stderr


def test_terms_of_a_glossary_are_forced(tmp_path):
    """The fake model puts terms first, and has no place for the second one of a line.

    It finds no translation of "none" with its terms.
    """

    def force(request):
        if request.model_spec.signature_name != "nbest_with_terms":
            return shout(request)
        texts, terms = read_texts(request), read_texts(request, "terms")
        rows = [
            [each.split(b"\n")[0] + b" " + text.upper(), text]
            for text, each in zip(texts, terms, strict=True)
        ]
        lengths = [[0, 0] if text.startswith(b"none") else [2, 2] for text in texts]
        return {
            "translations": np.array(rows, object),
            "scores": np.full([len(rows), 2], -0.5, np.float32),
            "lengths": np.array(lengths, np.int32),
        }

    glossary = tmp_path / "terms.tsv"
    glossary.write_text("dog\tHund\nred apple\tApfel\n")
    stdin = b"a dog\nno term\n\nnone dog\nred apple and dog\n"
    with serve(force) as (server, service):
        done = run(server, f"--glossary={glossary}", "--batch_size=8", stdin=stdin)
        several = run(server, f"--glossary={glossary}", "--n_best=2", stdin=b"a dog\n")
    expected = "Hund A DOG\nNO TERM\n\nNONE DOG\nApfel RED APPLE AND DOG\n"
    assert done.output.decode() == expected
    assert done.stderr.splitlines() == [
        "warning: line 4 lacks terms of the glossary: Hund",
        "warning: line 5 lacks terms of the glossary: Hund",
    ]
    assert several.lines == ["1\tHund A DOG", "1\ta dog"]
    first = service.requests[0]
    assert {*read_texts(first)} == {b"a dog", b"none dog", b"red apple and dog"}
    assert {*read_texts(first, "terms")} == {b"Hund", b"Apfel\nHund"}
    for flag in ("--sample", "--beam_size=2", "--prefix=x"):
        done = run("localhost:1", f"--glossary={glossary}", flag)
        assert "terms by a search with its own settings" in done.stderr
    done = run("localhost:1", "--glossary=no/such.tsv")
    assert "There is no file no/such.tsv (--glossary)" in done.stderr
