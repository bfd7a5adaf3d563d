"""The API as a server, called by a client that others wrote and over raw sockets."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from libretranslatepy import LibreTranslateAPI

from t2t_keras.errors import UserError
from t2t_keras.server.translation_api.runner import running_translation_api
from tests.server.translation_api.fake_backend import THREE_PAIRS, settings
from tests.serving.fake_server import RefusalError, answer_nbest, serve, shout


def answer(request):
    """Upper case; a model that is not loaded, and one that takes its time."""
    if request.model_spec.name == "latin":
        raise RefusalError(grpc.StatusCode.NOT_FOUND)
    if request.model_spec.signature_name == "nbest":
        return answer_nbest(request)
    return shout(request)


@pytest.fixture(scope="module")
def models():
    with serve(answer) as (server, service):
        yield server, service


@pytest.fixture(scope="module")
def port(models):
    limits = {"max_body_bytes": 10_000, "body_timeout_seconds": 1.0}
    with running_translation_api(
        settings(THREE_PAIRS, server=models[0], port=0, **limits)
    ) as port:
        yield port


def refusal(client, *arguments):
    """Returns status and text of the error of a translation."""
    with pytest.raises(urllib.error.HTTPError) as raised:
        client.translate(*arguments)
    with raised.value as error:
        return error.code, json.load(error)["error"]


def test_libretranslatepy(port):
    client = LibreTranslateAPI(f"http://127.0.0.1:{port}")
    assert client.translate("The dog.  Größe & x", "en", "de") == "THE DOG.  GRößE & X"
    german = "Der alte Lehrer gab dem Kind."
    assert (
        client.translate(german, "auto", "en")
        == german.upper()[:20] + german.upper()[20:]
    )
    codes = [each["code"] for each in client.languages()]
    assert codes == ["en", "de", "fr", "pt-BR"]
    assert client.detect(german)[0]["language"] == "de"
    assert refusal(client, "x", "en", "zz") == (400, "zz is not supported")


def test_libretranslatepy_with_a_key(models, tmp_path):
    path = tmp_path / "keys"
    path.write_text("good\n")
    with running_translation_api(
        settings(THREE_PAIRS, server=models[0], port=0, api_keys_file=str(path))
    ) as port:
        url = f"http://127.0.0.1:{port}"
        assert LibreTranslateAPI(url, "good").translate("a", "en", "de") == "A"
        for key, status in (("bad", 403), (None, 400)):
            client = LibreTranslateAPI(url, key)
            assert refusal(client, "a", "en", "de")[0] == status


def test_each_pair_has_its_model(port, models):
    client = LibreTranslateAPI(f"http://127.0.0.1:{port}")
    client.translate("x", "de", "en")
    assert models[1].requests[-1].model_spec.name == "back"
    status, text = refusal(client, "x", "fr", "pt")
    assert status == 503
    assert "not loaded" in text


def exchange(port, *parts, wait=True):
    """Returns what the server answers to bytes on a connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for part in parts:
            connection.sendall(part)
        received = b""
        while wait and (more := connection.recv(65536)):
            received += more
        return received


HEAD = b"POST /translate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


def test_a_body_that_does_not_arrive_ends_after_its_time(port):
    answer = exchange(port, HEAD + b"content-length: 50\r\n\r\n", b'{"q":')
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'{"error":"The body of the request did not arrive within' in answer


def test_a_client_that_leaves_does_no_harm(port):
    body = json.dumps({"q": "x", "source": "en", "target": "de"}).encode()
    for sent in (body, body[:5], b""):
        length = f"content-length: {len(body)}\r\n\r\n".encode()
        exchange(port, HEAD + length, sent, wait=False)
    client = LibreTranslateAPI(f"http://127.0.0.1:{port}")
    assert client.translate("x", "en", "de") == "X"


def test_bad_addresses_of_servers(tmp_path):
    for changes, message in (
        ({"server": "nowhere"}, "A server is host:port"),
        ({"ssl_ca_file": str(tmp_path)}, "is not a file of certificates"),
        ({"api_keys_file": str(tmp_path / "none")}, "cannot be read"),
        ({"host": "no such host"}, "no such host:0 cannot be listened at"),
    ):
        with pytest.raises(UserError, match=message):
            with running_translation_api(settings(port=0, **changes)):
                pass


PROGRAM = """
import sys
from t2t_keras.files.logs import log_to
from t2t_keras.server.translation_api.language_pairs import parse_models
from t2t_keras.server.translation_api.runner import serve_translation_api
from t2t_keras.server.translation_api.settings import TranslationApiSettings

pairs = parse_models(sys.argv[2])
settings = TranslationApiSettings(pairs=pairs, server=sys.argv[1], port=0)
with log_to(lambda line: print(line, flush=True)):
    number = serve_translation_api(settings)
assert "tensorflow" not in sys.modules
sys.exit(128 + number)
"""


@pytest.mark.parametrize(
    "signals",
    [
        [signal.SIGTERM],
        # A terminal that closes sends it, and so does the shell in it.
        [signal.SIGHUP, signal.SIGHUP],
    ],
)
def test_a_process_ends_at_a_signal_after_its_requests(signals):
    asked, answers = threading.Event(), threading.Event()

    def answer_late(request):
        asked.set()
        assert answers.wait(60)
        return shout(request)

    with serve(answer_late) as (server, _), ThreadPoolExecutor() as pool:
        arguments = [sys.executable, "-c", PROGRAM, server, "translate:en:de"]
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                line = process.stdout.readline()
                assert line.startswith("translation API of en to de on port ")
                url = f"http://127.0.0.1:{line.split()[-1]}"
                client = LibreTranslateAPI(url)
                translation = pool.submit(client.translate, "a", "en", "de")
                assert asked.wait(60)
                for each in signals:
                    process.send_signal(each)
                    time.sleep(0.3)
                answers.set()
                assert translation.result(60) == "A"
                _, errors = process.communicate(timeout=60)
            finally:
                answers.set()
                process.kill()
    assert (process.returncode, errors) == (128 + signals[0], "")
