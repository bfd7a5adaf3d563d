"""The contract of TensorFlow Serving, row by row, against whatever claims to keep it.

Each row of `contract` and of `model_contract`, and each test here, is asked of the
embedded server, and of `tensorflow_model_server` where one is on PATH. A row that the
real server answers otherwise is a fault of the table, and then of the embedded server.
"""

import re
import shutil
import subprocess
import sys
import time
from types import MappingProxyType

import grpc
import pytest

from t2t_keras.runs.workers import free_ports
from tests.serving.server import contract, model_contract
from tests.serving.server.broken_versions import DAMAGES, with_a_broken_graph
from tests.serving.server.calls import (
    answered_by,
    beside,
    named_states,
    outputs,
    refused,
    spec,
    status,
)
from tests.serving.server.clients import Client, refusal, wait_until
from tests.serving.server.model_contract import FOLDERS, POLICIES

pytestmark = pytest.mark.slow

REFUSALS = MappingProxyType(contract.REFUSALS | model_contract.REFUSALS)
ANSWERS = MappingProxyType(contract.ANSWERS | model_contract.ANSWERS)
AVAILABLE, END = 30, 50
RETRY_SECONDS = 1.5
REAL = "tensorflow_model_server"
COMMANDS = MappingProxyType(
    {"embedded": [sys.executable, "-m", "t2t_keras.serve"]}
    | ({REAL: [REAL]} if shutil.which(REAL) else {})
)


def test_the_real_server_was_asked_as_well():
    """The one test here that may be left out, and it says why."""
    if REAL not in COMMANDS:
        pytest.skip(f"no {REAL} on PATH: only the embedded server was asked")


MODELS = """model_config_list {{ config {{
  name: "translate" base_path: "{base}" model_platform: "tensorflow"
  model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
  version_labels {{ key: "stable" value: 1 }}
}} }}"""


def command_line(command, folder, port):
    return [
        *COMMANDS[command],
        f"--port={port}",
        f"--model_config_file={folder / 'models.config'}",
        "--max_num_load_retries=1",
        f"--load_retry_interval_micros={int(RETRY_SECONDS * 1e6)}",
        "--enable_grpc_healthcheck_service",
    ]


@pytest.fixture(scope="module", params=sorted(COMMANDS))
def client(request, saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copytree(saved, folder / "base")
    (folder / "models.config").write_text(MODELS.format(base=folder / "base"))
    (port,) = free_ports(1)
    command = command_line(request.param, folder, port)
    command.append("--allow_version_labels_for_unavailable_models")
    with (folder / "lines").open("w") as lines:
        process = subprocess.Popen(command, stdout=lines, stderr=subprocess.STDOUT)
    client = Client(f"localhost:{port}")
    client.base = folder / "base"

    def ready():
        assert process.poll() is None, (folder / "lines").read_text()
        try:
            return client.states() == {2: "AVAILABLE", 1: "AVAILABLE"}
        except grpc.RpcError:
            return False

    try:
        wait_until(ready)
        yield client
    finally:
        client.channel.close()
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("row", REFUSALS)
def test_what_is_refused(client, row):
    call, code, message = REFUSALS[row]
    told = refusal(lambda: call(client))
    assert told[0] == code, told
    assert re.fullmatch(message, told[1]), told[1]


@pytest.mark.parametrize("row", ANSWERS)
def test_what_is_answered(client, row):
    call, expected = ANSWERS[row]
    assert call(client) == expected


def put(client, saved, folder, version, original="1", damage=None):
    """Makes a version below a folder beside that of "translate", whole at once."""
    unfinished = client.base.parent / "unfinished"
    shutil.copytree(saved / original, unfinished)
    if damage is not None:
        damage(unfinished)
    (client.base.parent / folder).mkdir(exist_ok=True)
    unfinished.rename(client.base.parent / folder / str(version))


def states(client, name):
    """Returns the state of each version of a model by number."""
    return {number: state for number, state, _ in named_states(name=name)(client)}


@pytest.fixture(scope="module")
def policies(client, saved):
    """The name and the folder of a model that has versions and others beside them."""
    for name, original in FOLDERS.items():
        put(client, saved, "policies", name, original)
    return {"name": "policies", "folder": "policies"}


@pytest.mark.parametrize("policy", POLICIES)
def test_which_versions_are_served(client, policies, policy):
    beside(policies | {"policy": policy})(client)

    def served():
        now = states(client, "policies")
        return {number: state for number, state in now.items() if state != END}

    wait_until(lambda: served() == dict.fromkeys(POLICIES[policy], AVAILABLE), served)
    newest = max(POLICIES[policy])
    answer = outputs(spec(name="policies"))(client)["translation"]
    assert answer == [b"v%d:a" % newest]


@pytest.fixture(scope="module")
def failed(client, saved):
    """The status of each version of a model, of which all but the first are broken.

    And which version answers. Other tests ask for other models.
    """
    put(client, saved, "failing", 1)
    model = {"name": "failing", "folder": "failing"}
    beside(model)(client)
    for version, damage in DAMAGES.items():
        put(client, saved, "failing", version, damage=damage.do)
    beside(model | {"policy": "all {}"})(client)
    expected = dict.fromkeys(DAMAGES, END) | {1: AVAILABLE}
    wait_until(
        lambda: states(client, "failing") == expected,
        lambda: states(client, "failing"),
    )
    found = status(name="failing")(client).model_version_status
    answering = answered_by(spec(name="failing"))(client)[1]
    return {each.version: each.status for each in found}, answering


@pytest.mark.parametrize("version", DAMAGES)
def test_a_version_that_cannot_be_loaded_tells_why(client, failed, version):
    told, damage = failed[0][version], DAMAGES[version]
    assert told.error_code == damage.code or (told.error_code and not damage.code)
    assert re.fullmatch(damage.message, told.error_message), told.error_message
    assert refused(spec(name="failing", version=version))(client) == (
        "NOT_FOUND",
        f"Servable not found for request: Specific(failing, {version})",
    )


def test_what_could_be_loaded_is_served(failed):
    statuses, answering = failed
    assert statuses[1].error_code == 0
    assert answering == 1


def test_the_version_before_is_served_until_a_newer_one_can_answer(client, saved):
    put(client, saved, "life", 1)
    put(client, saved, "life", 2)
    model = {"name": "life", "folder": "life"}
    beside(model)(client)
    wait_until(lambda: states(client, "life") == {1: AVAILABLE, 2: AVAILABLE})
    put(client, saved, "life", 3, damage=with_a_broken_graph)
    start, seen = time.monotonic(), set()
    beside(model | {"policy": "latest {}"})(client)

    def given_up():
        """Notes how the version is, and that another answers meanwhile."""
        newest, state, error = named_states(name="life")(client)[0]
        if newest == 3:
            seen.add((state, error != 0))
        assert answered_by(spec(name="life"))(client)[1] == 2
        return (END, True) in seen

    wait_until(given_up, lambda: seen)
    # It was tried again, and had no error until that was over.
    assert time.monotonic() - start >= RETRY_SECONDS
    assert {state for state, wrong in seen if wrong} == {END}
    # One version is enough to stand in: the newest that there is.
    stands_in = {1: END, 2: AVAILABLE, 3: END}
    wait_until(lambda: states(client, "life") == stands_in)

    put(client, saved, "life", 4)
    answers = []

    def newest_answers():
        answers.append(answered_by(spec(name="life"))(client)[1])
        return answers[-1] == 4

    wait_until(newest_answers)
    assert set(answers[:-1]) <= {2}
    replaced = {1: END, 2: END, 3: END, 4: AVAILABLE}
    wait_until(lambda: states(client, "life") == replaced)


def test_a_model_comes_goes_and_comes_again(client, saved):
    put(client, saved, "guest", 1)
    guest = {"name": "guest", "folder": "guest"}
    for _ in range(2):
        # It answers as soon as the reload has.
        assert beside(guest)(client).status.error_code == 0
        assert answered_by(spec(name="guest"))(client)[1] == 1
        beside()(client)
        wait_until(lambda: states(client, "guest") == {1: END})
        assert refused(spec(name="guest"))(client) == (
            "NOT_FOUND",
            "Servable not found for request: Latest(guest)",
        )
    assert answered_by(spec())(client)[1] == 2


def test_a_new_model_that_cannot_be_loaded(client, saved):
    put(client, saved, "hopeless", 1, damage=with_a_broken_graph)
    hopeless = {"name": "hopeless", "folder": "hopeless"}
    code, message = refused(beside(hopeless, labels={"stable": 2}))(client)
    assert code == "UNKNOWN"
    assert message.startswith(
        "1 model(s) did not become available: {{{name: hopeless version: 1} due to "
    )
    assert states(client, "hopeless") == {1: END}
    # The others of the list are served, and their labels are those of the list.
    assert answered_by(spec(label="stable"))(client)[1] == 2
    beside()(client)


def test_another_base_path(client, saved):
    """A version is its number: one that is loaded is not read anew from elsewhere."""
    put(client, saved, "here", 1, original="1")
    put(client, saved, "elsewhere", 1, original="2")
    put(client, saved, "elsewhere", 2, original="3")
    mover = {"name": "mover", "policy": "all {}"}
    beside(mover | {"folder": "here"})(client)
    beside(mover | {"folder": "elsewhere"})(client)
    wait_until(lambda: states(client, "mover") == {1: AVAILABLE, 2: AVAILABLE})
    each = [outputs(spec(name="mover", version=n))(client) for n in (1, 2)]
    assert [answer["translation"] for answer in each] == [[b"v1:a"], [b"v3:a"]]


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_label_needs_a_flag_at_the_start(command, saved, tmp_path):
    """No version is there yet that it could name."""
    (tmp_path / "models.config").write_text(MODELS.format(base=saved))
    done = subprocess.run(
        command_line(command, tmp_path, *free_ports(1)),
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode != 0
    assert (
        "Request to assign label to version 1 of model translate, which is not "
        "currently available for inference"
    ) in done.stdout + done.stderr
