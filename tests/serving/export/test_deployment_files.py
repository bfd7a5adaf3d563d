"""Files for Kubernetes and Docker Compose: valid, and consistent with each other."""

import contextlib
import http.server
import re
import subprocess
import sys
import threading

import check_jsonschema
import kubernetes_validate
import pytest
import yaml

from t2t_keras.serving.export.server_files import write_server_files

MOUNT = "/models/en-de"
# The oldest release with gRPC probes that need no feature gate, and the newest known.
RELEASES = ("1.27", kubernetes_validate.latest_version())


@pytest.fixture(scope="module", params=["plain", "xla"])
def base(request, tmp_path_factory):
    base = tmp_path_factory.mktemp("run") / "export"
    base.mkdir()
    write_server_files(base, "en-de", (1, 3, 8), xla=request.param == "xla")
    return base


@pytest.fixture
def resources(base):
    """The resources of kubernetes.yaml by kind."""
    documents = [*yaml.safe_load_all((base / "kubernetes.yaml").read_text())]
    resources = {document["kind"]: document for document in documents}
    assert len(resources) == len(documents)
    return resources


@pytest.fixture
def pod(resources):
    return resources["Deployment"]["spec"]["template"]


@pytest.fixture
def container(pod):
    (container,) = pod["spec"]["containers"]
    return container


@pytest.fixture
def services(base):
    """The services of compose.yaml by name."""
    return yaml.safe_load((base / "compose.yaml").read_text())["services"]


@pytest.mark.parametrize("release", RELEASES)
def test_kubernetes_accepts_the_resources(resources, release):
    for resource in resources.values():
        kubernetes_validate.validate(resource, release, strict=True)


def test_compose_accepts_the_services(base):
    """It has the schema of the Compose specification."""
    path = str(base / "compose.yaml")
    with pytest.raises(SystemExit) as ended:
        check_jsonschema.main([path, "--builtin-schema=vendor.compose-spec"])
    assert ended.value.code == 0


def test_the_parts_of_kubernetes_name_each_other(resources, pod, container):
    labels = pod["metadata"]["labels"]
    deployment, budget = resources["Deployment"], resources["PodDisruptionBudget"]
    service, scaler = resources["Service"], resources["HorizontalPodAutoscaler"]
    for spec in (deployment["spec"], budget["spec"]):
        assert spec["selector"] == {"matchLabels": labels}
    assert service["spec"]["selector"] == labels
    assert scaler["spec"]["scaleTargetRef"] == {
        "apiVersion": deployment["apiVersion"],
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
    }
    # It would undo the choice of the autoscaler whenever the file is applied.
    assert "replicas" not in deployment["spec"]
    assert scaler["spec"]["minReplicas"] > budget["spec"]["maxUnavailable"]
    # Utilization is relative to the request.
    assert container["resources"]["requests"]["cpu"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports == {each["name"]: each["port"] for each in service["spec"]["ports"]}
    annotations = pod["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["rest"])
    assert container["readinessProbe"]["httpGet"] == {
        "path": "/v1/models/en-de",
        "port": "rest",
    }
    for name in ("startupProbe", "livenessProbe"):
        assert container[name]["grpc"] == {"port": ports["grpc"]}
    assert "--enable_grpc_healthcheck_service=true" in container["args"]
    assert f"--port={ports['grpc']}" in container["args"]
    assert f"--rest_api_port={ports['rest']}" in container["args"]
    volumes = [each["name"] for each in pod["spec"]["volumes"]]
    assert [each["name"] for each in container["volumeMounts"]] == volumes
    *_, seconds = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["spec"]["terminationGracePeriodSeconds"] > int(seconds)


def test_kubernetes_runs_it_as_its_restricted_profile_demands(pod, container):
    """The profile "restricted" of the Pod Security Standards."""
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["securityContext"]["runAsUser"] > 0
    assert pod["spec"]["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault"
    kinds = [{*each} - {"name"} for each in pod["spec"]["volumes"]]
    assert kinds == [{"persistentVolumeClaim"}]


def test_every_file_that_a_flag_names_is_in_the_directory(base, container):
    named = re.findall(rf"={MOUNT}/(\S+)", "\n".join(container["args"]))
    assert {*named} == {"models.config", "batching.config", "monitoring.config"}
    assert all((base / name).is_file() for name in named)
    path = re.search(r'path: "(.+)"', (base / "monitoring.config").read_text())
    annotations = yaml.safe_load((base / "kubernetes.yaml").read_text().split("---")[0])
    annotations = annotations["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/path"] == path[1]


def test_compose_and_kubernetes_start_the_same_server(services, container, pod):
    server = services["tensorflow-serving"]
    assert server["image"] == container["image"]
    assert server["entrypoint"] == container["command"]
    assert server["command"] == container["args"]
    assert server["environment"] == {e["name"]: e["value"] for e in container["env"]}
    assert server["volumes"] == [f".:{MOUNT}:ro"]
    (mount,) = container["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == (MOUNT, True)
    user = pod["spec"]["securityContext"]["runAsUser"]
    assert server["user"] == f"{user}:{user}"


def test_the_gateway_calls_the_server(base, services):
    gateway, server = services["gateway"], services["tensorflow-serving"]
    assert services.keys() == {"gateway", "tensorflow-serving"}
    flags = dict(flag.removeprefix("--").split("=") for flag in gateway["command"])
    assert flags["model_name"] == "en-de"
    assert flags["model_base_path"] == MOUNT
    assert gateway["volumes"] == [f".:{MOUNT}:ro"]
    host, port = flags["server"].split(":")
    assert host in services
    assert f"--port={port}" in server["command"]
    assert gateway["depends_on"] == {host: {"condition": "service_healthy"}}
    # All addresses of the container, or nothing outside of it could connect.
    assert flags["host"] == "0.0.0.0"
    api = flags["translation_api_port"]
    assert gateway["ports"] == [f"127.0.0.1:{api}:{api}"]
    assert f":{api}/ready'" in gateway["healthcheck"]["test"][-1]
    assert f"port {api}" in (base / "README.md").read_text()
    assert server["ports"] == [f"127.0.0.1:{p}:{p}" for p in (8500, 8501)]


@contextlib.contextmanager
def answering(status, body):
    """Yields the port of an HTTP server with one answer, and the paths asked for."""
    paths = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            paths.append(self.path)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port, paths
        finally:
            server.shutdown()
            thread.join()


STATUS = '{"model_version_status": [{"version": "1", "state": "%s", "status": {}}]}'


def run_health_check(service, old_port, port):
    """Returns the status of a service's health check, asked of another port."""
    kind, *command = service["healthcheck"]["test"]
    assert kind == "CMD" and str(old_port) in command[-1]
    command[-1] = command[-1].replace(str(old_port), str(port))
    command[0] = {"python": sys.executable}.get(command[0], command[0])
    return subprocess.run(command, timeout=20, capture_output=True).returncode


# The files of both kinds of export have the same checks.
@pytest.mark.slow
@pytest.mark.parametrize("base", ["plain"], indirect=True)
def test_the_health_checks(services):
    server = services["tensorflow-serving"]
    for status, body, healthy in (
        (200, STATUS % "AVAILABLE", True),
        (200, STATUS % "LOADING", False),
        (404, '{"error": "Could not find any versions of model en-de"}', False),
    ):
        with answering(status, body) as (port, paths):
            assert (run_health_check(server, 8501, port) == 0) is healthy, body
        assert paths == ["/v1/models/en-de"]
    assert run_health_check(server, 8501, port) != 0  # nothing listens any more
    for status in (200, 503):
        with answering(status, "") as (port, paths):
            healthy = run_health_check(services["gateway"], 5000, port) == 0
        assert (healthy, paths) == (status == 200, ["/ready"])
    assert run_health_check(services["gateway"], 5000, port) != 0
