"""Programs on an S3 server of loopback, whose answers fail now and then.

The server is moto's, the client s3fs as users have it. Each fault is of HTTP: a status,
or a body that is cut short.
"""

import collections
import contextlib
import json
import random
import threading

import fsspec
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from t2t_keras.files.remote import as_path, list_objects, upload
from tests.in_process import run_program
from tests.runs.small_runs import SETTINGS, read_files, write_corpus

BUCKET = "s3://t2t-keras"
SPLITS = ("train", "dev")


class Faults:
    """Application that lets one in some requests of objects fail."""

    def __init__(self, application):
        self._application = application
        self._draw = random.Random(2)
        self._lock = threading.Lock()
        self.share = 0.0
        self.counts = collections.Counter()

    def __call__(self, environment, start):
        with self._lock:
            fails = self._draw.random() < self.share
            fault = self._draw.choice((429, 500, 503, "cut"))
        method = environment["REQUEST_METHOD"]
        if not fails or (fault == "cut" and method != "GET"):
            return self._application(environment, start)
        self.counts[fault] += 1
        if fault == "cut":
            body = b"".join(self._application(environment, start))
            return [body[: len(body) // 2]]
        environment["wsgi.input"].read(int(environment.get("CONTENT_LENGTH") or 0))
        start(f"{fault} Failed", [("Content-Length", "0")])
        return []


@pytest.fixture
def server(monkeypatch):
    """Faults of a server with an empty bucket, which s3:// reaches."""
    faults = Faults(DomainDispatcherApplication(create_backend_app))
    http = make_server("127.0.0.1", 0, faults, threaded=True)
    http.log = lambda *_: None
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{http.server_port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    system = fsspec.filesystem("s3", use_listings_cache=False)
    with contextlib.suppress(FileNotFoundError):
        system.rm(BUCKET, recursive=True)
    system.mkdir(BUCKET)
    yield faults
    faults.share = 0.0
    type(system).clear_instance_cache()
    http.shutdown()
    thread.join()
    http.server_close()


def flags(folder):
    return [
        *SETTINGS,
        "--train_steps=6",
        *(
            f"--{split}_{side}={folder}/{split}.{code}"
            for split in SPLITS
            for side, code in (("source", "en"), ("target", "de"))
        ),
    ]


@pytest.mark.slow
def test_prepare_and_train_on_s3_as_on_files(server, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_corpus(tmp_path)
    server.share = 0.1
    for split in SPLITS:
        for code in ("en", "de"):
            name = f"{split}.{code}"
            upload(tmp_path / name, as_path(f"{BUCKET}/text/{name}"))
    remote, local = f"{BUCKET}/records/x", tmp_path / "records"
    text = [*flags(f"{BUCKET}/text"), "--pairs_per_shard=30", "--workers=1"]

    def prepare(output, *step):
        done = run_program("prepare", *text, f"--output={output}", *step)
        assert done.status == 0, done.stderr
        return done

    prepare(local)
    prepare(remote, "--vocabulary_only")
    prepare(remote, "--part=2/2")
    prepare(remote, "--part=1/2")
    prepare(remote, "--join")
    objects = {
        name: as_path(f"{remote}/{name}").read_bytes()
        for name in list_objects(as_path(remote))
    }
    assert objects == read_files(local)
    verified = run_program("prepare", f"--output={remote}", "--verify")
    assert verified.lines[0] == f"{remote}: every hash is correct", verified.stderr
    runs = {}
    for name, own in (
        ("local", flags(tmp_path)),
        ("text", flags(f"{BUCKET}/text")),
        ("records", [*SETTINGS, "--train_steps=6", f"--records={remote}"]),
    ):
        model_dir = tmp_path / name
        done = run_program(
            "train", *own, f"--model_dir={model_dir}", "--noexport_at_end"
        )
        assert done.status == 0, done.stderr
        lines = (model_dir / "metrics.jsonl").read_text().splitlines()
        times = ("seconds", "time", "per_second")
        runs[name] = [
            {k: v for k, v in json.loads(line).items() if not k.endswith(times)}
            for line in lines
        ]
    assert runs["text"] == runs["records"] == runs["local"]
    assert any("loss" in key for row in runs["local"] for key in row)
    assert min(server.counts[fault] for fault in (429, 500, 503, "cut")) > 0
    server.share = 0.0
    # Another bucket, key or kind of path.
    for output, message in (
        ("s3://no-bucket/x", "s3://no-bucket/x/preparing/probe cannot be written: "),
        ("http://host/x", "http://host/x is on no object store that is supported"),
    ):
        done = run_program("prepare", *text, f"--output={output}")
        assert done.status == 2 and message in done.stderr, done.stderr
    done = run_program("train", *flags(f"{BUCKET}/texts"), f"--model_dir={tmp_path}/a")
    assert done.status == 2, done.stderr
    assert f"nor does the folder {BUCKET}/texts." in done.stderr
    done = run_program("train", *flags(tmp_path), f"--model_dir={BUCKET}/run")
    assert done.status == 2, done.stderr
    assert f"--model_dir {BUCKET}/run is on an object store." in done.stderr
