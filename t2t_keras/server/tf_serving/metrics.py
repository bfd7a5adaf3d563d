"""Metrics of a server for Prometheus, under the names that TensorFlow Serving has.

Latencies are in microseconds. Buckets are TensorFlow Serving's. What it does not count
has names that begin with `t2t_keras_`, or with `process_`, which is the library's.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.requests import ClientDisconnect

from t2t_keras.server.tf_serving.errors import from_exception

_PREFIX = ":tensorflow:serving:"
# TensorFlow Serving counts without the ending that the library adds.
_ENDING = re.compile(f"({_PREFIX}[a-z_:]*_count)_total")


def _exponential(scale: float, growth: float, count: int) -> list[float]:
    return [scale * growth**power for power in range(count)]


@contextlib.contextmanager
def microseconds(histogram: Histogram) -> Iterator[None]:
    """Adds the time of the block to a histogram, unless it raises."""
    start = time.perf_counter()
    yield
    histogram.observe((time.perf_counter() - start) * 1e6)


class Metrics:
    """Counters and histograms of one server.

    Attributes:
        request_count: By model_name and status.
        request_latency: By model_name, API and entrypoint; successful requests only.
        runtime_latency: By model_name, API and runtime: time in the graph.
        warm_up_latency: By model_path and status.
        queuing_latency: Of batches, by thread_pool_name.
        processed_batch_size: Rows of batches, with padding.
        padding_size: Rows added to batches, by execution_batch_size.
        in_flight: Requests that are being answered, by model_name.
        queue_length: Requests, or parts of them, that wait for a batch.
    """

    def __init__(self) -> None:
        # The time at which each was created would be a third of the page.
        disable_created_metrics()
        self._registry = CollectorRegistry()
        self.request_count = Counter(
            f"{_PREFIX}request_count",
            "The total number of requests.",
            ["model_name", "status"],
            registry=self._registry,
        )
        latencies = _exponential(10, 1.8, 33)
        self.request_latency = self._histogram(
            "request_latency",
            "Microseconds of requests.",
            ["model_name", "API", "entrypoint"],
            latencies,
        )
        self.runtime_latency = self._histogram(
            "runtime_latency",
            "Microseconds in TensorFlow.",
            ["model_name", "API", "runtime"],
            latencies,
        )
        self.warm_up_latency = self._histogram(
            "model_warmup_latency",
            "Microseconds of all warm-up requests of a version.",
            ["model_path", "status"],
            latencies,
        )
        self.queuing_latency = self._histogram(
            "batching_session:queuing_latency",
            "Microseconds that batches waited in the queue.",
            ["thread_pool_name"],
            _exponential(100, 1.2, 52),
        )
        self.in_flight = Gauge(
            "t2t_keras_requests_in_flight",
            "Requests that are being answered.",
            ["model_name"],
            registry=self._registry,
        )
        self.queue_length = Gauge(
            "t2t_keras_batching_queue_length",
            "Requests that wait for a batch.",
            registry=self._registry,
        )
        ProcessCollector(registry=self._registry)
        sizes = _exponential(1, 2, 14)
        self.processed_batch_size = self._histogram(
            "batching_session:processed_batch_size", "Rows of batches.", [], sizes
        )
        self.padding_size = self._histogram(
            "batching_session:padding_size",
            "Rows that batches are padded with.",
            ["execution_batch_size"],
            sizes,
        )

    @contextlib.contextmanager
    def request(self, model_name: str, method: str, protocol: str) -> Iterator[None]:
        """Counts the request in the block, and its time if it succeeds.

        Args:
            model_name: Name of the model.
            method: "Predict" or, with REST, "predict".
            protocol: "GRPC" or "REST".
        """
        status = "OK"
        latency = self.request_latency.labels(model_name, method, protocol)
        in_flight = self.in_flight.labels(model_name)
        try:
            with in_flight.track_inprogress(), microseconds(latency):
                yield
        except (asyncio.CancelledError, ClientDisconnect):
            status = "CANCELLED"
            raise
        except Exception as error:
            status = from_exception(error).code.name
            raise
        finally:
            self.request_count.labels(model_name, status).inc()

    def watch_versions(
        self, available: Callable[[], Iterable[tuple[str, int]]]
    ) -> None:
        """Adds a gauge of the versions, by model name, that a function returns."""
        self._registry.register(_ServedVersions(available))

    def page(self) -> bytes:
        """Returns all metrics in Prometheus' text format."""
        return _ENDING.sub(r"\1", generate_latest(self._registry).decode()).encode()

    def _histogram(
        self, name: str, text: str, labels: list[str], buckets: list[float]
    ) -> Histogram:
        return Histogram(
            _PREFIX + name, text, labels, buckets=buckets, registry=self._registry
        )


class _ServedVersions(Collector):
    def __init__(self, available: Callable[[], Iterable[tuple[str, int]]]):
        self._available = available

    def describe(self) -> list[GaugeMetricFamily]:
        return [self._gauge()]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        gauge = self._gauge()
        for name, version in self._available():
            gauge.add_metric([name, str(version)], 1)
        yield gauge

    def _gauge(self) -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "t2t_keras_served_version",
            "1 for each version that is available.",
            labels=["model_name", "version"],
        )
