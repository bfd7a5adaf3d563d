"""Calls of all methods of TensorFlow Serving, each as a function of a client."""

from google.protobuf import text_format
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.server.tf_serving.clients import refusal, request, values


def fill_model_spec(message, name="translate", signature="", version=None, label=None):
    """Fills the model_spec of a request and returns the request."""
    message.model_spec.name = name
    if signature:
        message.model_spec.signature_name = signature
    if version is not None:
        message.model_spec.version.value = version
    if label is not None:
        message.model_spec.version_label = label
    return message


def predict(message=None, timeout=30, **inputs):
    message = request(**inputs) if message is None else message
    return lambda client: client.prediction.Predict(message, timeout)


def spec(**where):
    return predict(fill_model_spec(request(text=[b"a"]), **where))


def predict_outputs(*outputs):
    message = request(text=[b"a"])
    message.output_filter.extend(outputs)
    return predict(message)


def predict_negative_size():
    message = request(text=[b"a"])
    message.inputs["text"].tensor_shape.dim[0].size = -3
    return predict(message)


def classify(**where):
    message = classification_pb2.ClassificationRequest()
    message.input.example_list.examples.add()
    return lambda client: client.prediction.Classify(
        fill_model_spec(message, **where), 30
    )


def regress(**where):
    message = regression_pb2.RegressionRequest()
    message.input.example_list.examples.add()
    return lambda client: client.prediction.Regress(
        fill_model_spec(message, **where), 30
    )


def multi_inference(*tasks):
    message = inference_pb2.MultiInferenceRequest()
    message.input.example_list.examples.add()
    for method, where in tasks:
        task = inference_pb2.InferenceTask(method_name=f"tensorflow/serving/{method}")
        message.tasks.append(fill_model_spec(task, **where))
    return lambda client: client.prediction.MultiInference(message, 30)


def metadata(*fields, **where):
    message = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    fill_model_spec(message, **where)
    return lambda client: client.prediction.GetModelMetadata(message, 30)


def status(**where):
    message = fill_model_spec(get_model_status_pb2.GetModelStatusRequest(), **where)
    return lambda client: client.models.GetModelStatus(message, 30)


def reload(*models, timeout=30):
    """Sends another list of models; their defaults are the settings of "translate".

    `folder` is the name of a folder beside the base path of "translate".
    """

    def call(client):
        message = model_management_pb2.ReloadConfigRequest()
        for model in models:
            model = {"name": "translate", "model_platform": "tensorflow"} | model
            labels = model.pop("labels", {})
            policy = model.pop("policy", "specific { versions: 1 versions: 2 }")
            folder = client.base.parent / model.pop("folder", client.base.name)
            base = model.pop("base_path", str(folder))
            config = message.config.model_config_list.config.add(
                base_path=base, **model
            )
            text_format.Parse(policy, config.model_version_policy)
            config.version_labels.update(labels)
        if not models:
            message.config.custom_model_config.SetInParent()
        return client.models.HandleReloadConfigRequest(message, timeout)

    return call


def reload_with(*models, **translate):
    """Reloads "translate" with its label, and more models."""
    return reload({"labels": {"stable": 1}} | translate, *models)


def call_in_order(*calls):
    """Makes several calls in order and returns the answer of the last one."""

    def call(client):
        return [each(client) for each in calls][-1]

    return call


def refused(call):
    """Returns code and message of a refusal, in place of an answer."""
    return lambda client: refusal(lambda: call(client))


def health(service):
    encoded = b"\x0a" + bytes([len(service)]) + service.encode()
    return lambda client: client.channel.unary_unary("/grpc.health.v1.Health/Check")(
        encoded, timeout=30
    )


def outputs(call):
    return lambda client: values(call(client))


def answering_version(call):
    def read_spec(client):
        spec = call(client).model_spec
        return spec.name, spec.version.value, spec.signature_name

    return read_spec


def version_states(**where):
    """Returns number, state and error code of each version, in the server's order."""

    def read_states(client):
        states = status(**where)(client).model_version_status
        return tuple(
            (each.version, each.state, each.status.error_code) for each in states
        )

    return read_states


def metadata_version(**where):
    call = metadata("signature_def", **where)
    return lambda client: call(client).model_spec.version.value


def send_concatenated(*choices):
    """Sends several serialized requests as one message, which no library does.

    Of a `oneof` field, the last one written counts.
    """

    def call(client):
        messages = [
            fill_model_spec(request(text=[b"a"]), **choice) for choice in choices
        ]
        send = client.channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict",
            response_deserializer=predict_pb2.PredictResponse.FromString,
        )
        return send(b"".join(m.SerializeToString() for m in messages), timeout=30)

    return call


def signature_names(client):
    signatures = get_model_metadata_pb2.SignatureDefMap()
    response = metadata("signature_def")(client)
    response.metadata["signature_def"].Unpack(signatures)
    contract = signatures.signature_def["with_options"]
    return (
        response.model_spec.version.value,
        {"serving_default", "with_options"} <= set(signatures.signature_def),
        sorted(contract.inputs),
        sorted(contract.defaults),
    )
