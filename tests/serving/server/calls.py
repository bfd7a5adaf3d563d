"""Requests of every kind, each as a function that a client is given to."""

from google.protobuf import text_format
from tensorflow.core.framework import types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    model_management_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.serving.server.clients import refusal, request, values


def asked(message, name="translate", signature="", version=None, label=None):
    """Fills the model_spec of any request."""
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
    return predict(asked(request(text=[b"a"]), **where))


def filtered(*outputs):
    message = request(text=[b"a"])
    message.output_filter.extend(outputs)
    return predict(message)


def broken():
    message = request(text=[b"a"])
    message.inputs["text"].tensor_shape.dim[0].size = -3
    return predict(message)


def typeless():
    message = request(text=[b"a"])
    message.inputs["text"].dtype = types_pb2.DT_INVALID
    return predict(message)


def classify(**where):
    message = classification_pb2.ClassificationRequest()
    message.input.example_list.examples.add()
    return lambda client: client.prediction.Classify(asked(message, **where), 30)


def regress(**where):
    message = regression_pb2.RegressionRequest()
    message.input.example_list.examples.add()
    return lambda client: client.prediction.Regress(asked(message, **where), 30)


def multi_inference(*tasks):
    message = inference_pb2.MultiInferenceRequest()
    message.input.example_list.examples.add()
    for method, where in tasks:
        task = inference_pb2.InferenceTask(method_name=f"tensorflow/serving/{method}")
        message.tasks.append(asked(task, **where))
    return lambda client: client.prediction.MultiInference(message, 30)


def metadata(*fields, **where):
    message = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=fields)
    asked(message, **where)
    return lambda client: client.prediction.GetModelMetadata(message, 30)


def status(**where):
    message = asked(get_model_status_pb2.GetModelStatusRequest(), **where)
    return lambda client: client.models.GetModelStatus(message, 30)


def reload(*models, timeout=30):
    """Asks for another list of models, each "translate" as it is but for what is given.

    `folder` is the name of a base path beside that of "translate".
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


def beside(*models, **translate):
    """As `reload` of "translate" with its label, and of models beside it."""
    return reload({"labels": {"stable": 1}} | translate, *models)


def then(*calls):
    """Calls one after the other, and returns what the last is answered."""

    def call(client):
        return [each(client) for each in calls][-1]

    return call


def refused(call):
    """Returns, as an answer, the code and the message of a refusal."""
    return lambda client: refusal(lambda: call(client))


def health(service):
    encoded = b"\x0a" + bytes([len(service)]) + service.encode()
    return lambda client: client.channel.unary_unary("/grpc.health.v1.Health/Check")(
        encoded, timeout=30
    )


def outputs(call):
    return lambda client: values(call(client))


def answered_by(call):
    def found(client):
        spec = call(client).model_spec
        return spec.name, spec.version.value, spec.signature_name

    return found


def named_states(**where):
    """Returns the state and the error code of each version, in their order."""

    def found(client):
        states = status(**where)(client).model_version_status
        return tuple(
            (each.version, each.state, each.status.error_code) for each in states
        )

    return found


def version_of_metadata(**where):
    call = metadata("signature_def", **where)
    return lambda client: call(client).model_spec.version.value


def one_behind_the_other(*choices):
    """Sends requests for several versions in one message, as no library would write it.

    A field that there can be only one of is then what was written last.
    """

    def call(client):
        messages = [asked(request(text=[b"a"]), **choice) for choice in choices]
        send = client.channel.unary_unary(
            "/tensorflow.serving.PredictionService/Predict",
            response_deserializer=predict_pb2.PredictResponse.FromString,
        )
        return send(b"".join(m.SerializeToString() for m in messages), timeout=30)

    return call


def signature_names(client):
    found = get_model_metadata_pb2.SignatureDefMap()
    response = metadata("signature_def")(client)
    response.metadata["signature_def"].Unpack(found)
    contract = found.signature_def["with_options"]
    return (
        response.model_spec.version.value,
        {"serving_default", "with_options"} <= set(found.signature_def),
        sorted(contract.inputs),
        # An input with a default is told; the default is not.
        len(contract.defaults),
    )
