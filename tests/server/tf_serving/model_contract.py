"""Contract of TensorFlow Serving for models and versions, in the form of `contract`.

The messages are from model_servers/server_core.cc, get_model_status_impl.cc, and
sources/storage_path/file_system_storage_path_source.cc.
"""

import re
from types import MappingProxyType

from tensorflow_serving.apis import get_model_status_pb2

from tests.server.tf_serving.calls import (
    call_in_order,
    outputs,
    refused,
    reload,
    reload_with,
    spec,
    status,
    version_states,
)
from tests.server.tf_serving.contract import INVALID, MISSING, STATE

LOADED = ((2, 30, 0), (1, 30, 0))

# Call, status code, and a pattern of the whole message.
REFUSALS = MappingProxyType(
    {
        # Status.
        "status of nothing": (
            lambda client: client.models.GetModelStatus(
                get_model_status_pb2.GetModelStatusRequest(), 30
            ),
            INVALID,
            "Missing ModelSpec",
        ),
        "status of nobody": (
            status(name="nobody"),
            MISSING,
            "Could not find any versions of model nobody",
        ),
        "status of an unknown version": (
            status(version=7),
            MISSING,
            "Could not find version 7 of model translate",
        ),
        # Another configuration; none of these changes what is served.
        "no list of models": (
            reload(),
            INVALID,
            "ServerModelConfig type not supported by HandleReloadConfigRequest. Only "
            "ModelConfigList is currently supported",
        ),
        "a name twice": (
            reload({}, {}),
            INVALID,
            "Illegal to list model translate multiple times in config list",
        ),
        "a relative path": (
            reload({"base_path": "here"}),
            INVALID,
            "Expected model translate to have an absolute path or URI; got "
            r"base_path\(\)=here",
        ),
        "another platform": (
            reload({"model_platform": "other"}),
            INVALID,
            "Illegal to change a model's platform. For model translate platform was "
            "tensorflow and new platform requested is other",
        ),
        "no platform": (
            reload({"model_platform": ""}),
            INVALID,
            re.escape(
                "Illegal setting neither ModelServerConfig::model_type (deprecated) "
                "nor ModelServerConfig::model_platform."
            ),
        ),
        "a platform by both of its names": (
            reload({"model_type": 1}),
            INVALID,
            re.escape(
                "Illegal setting both ModelServerConfig::model_type (deprecated) and "
                "ModelServerConfig::model_platform."
            ),
        ),
        "another platform by its old name": (
            reload({"model_platform": "", "model_type": 2}),
            INVALID,
            r"ModelServerConfig::model_type choice 2 not supported\.",
        ),
        "a new model of a platform that there is not": (
            reload_with({"name": "singer", "model_platform": "song"}),
            INVALID,
            "Model singer requests unsupported platform song",
        ),
        "a label in use for a version that is not there": (
            reload({"labels": {"stable": 7}}),
            STATE,
            "Request to assign label to version 7 of model translate, which is not "
            "currently available for inference",
        ),
    }
)

# Call and expected answer.
ANSWERS = MappingProxyType(
    {
        "all versions, the newest first": (version_states(), LOADED),
        "status of a version": (version_states(version=1), ((1, 30, 0),)),
        "a label does not choose a status": (version_states(label="gold"), LOADED),
        "the same configuration": (
            lambda client: reload_with()(client).status.error_code,
            0,
        ),
        "a label moves": (
            call_in_order(
                reload_with(labels={"stable": 1, "new": 1}),
                reload_with(labels={"stable": 1, "new": 2}),
                outputs(spec(label="new")),
            ),
            {"translation": [b"v2:a"], "score": [1.0]},
        ),
        "a label that is not listed any more": (
            call_in_order(
                reload_with(labels={"stable": 1, "old": 1}),
                reload_with(),
                refused(spec(label="old")),
            ),
            (INVALID, "Unrecognized servable version label: old"),
        ),
        # Allowed by a flag, for a new label.
        "a label before its version": (
            call_in_order(
                reload_with(labels={"stable": 1, "next": 7}),
                refused(spec(label="next")),
            ),
            (MISSING, "Servable not found for request: Specific(translate, 7)"),
        ),
    }
)

# Folders of a model by name, each with its original; the last three are no versions.
# Then the versions served with each policy.
FOLDERS = MappingProxyType(
    {"1": "1", "2": "2", "003": "3", "four": "3", "v5": "3", "6.tmp": "3"}
)
POLICIES = MappingProxyType(
    {
        "all {}": {1, 2, 3},
        "": {3},
        "latest { num_versions: 2 }": {2, 3},
        "specific { versions: 1 versions: 7 }": {1},
        "latest {}": {3},
    }
)
