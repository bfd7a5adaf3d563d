"""Version policy: which versions of a model are served."""

import re
from pathlib import Path
from typing import Any

from t2t_keras.serving.server.errors import invalid_argument
from t2t_keras.serving.server.session import GRAPH_FILES

# What a C++ server reads as an integer of 64 bits.
_NUMBER = re.compile(r"\s*[-+]?[0-9]+\s*", re.ASCII)


def versions_to_serve(name: str, base_path: Path, policy: Any) -> dict[int, Path]:
    """Returns the versions that a policy asks for and that are there.

    A folder is a version if its name is a number and a graph is in it: one that is
    being copied is left alone until then.

    Args:
        name: Name of the model, for the error.
        base_path: Directory with a folder for each version, named by its number.
        policy: A `ServableVersionPolicy`; empty for the latest version.

    Raises:
        ServingError: If there is no such directory. The versions that are served stay
            then: a disk may be missing for a moment.
    """
    try:
        folders = list(base_path.iterdir())
    except OSError as error:
        raise invalid_argument(
            f"Could not find base path {base_path} for servable {name} with error "
            f"{error.strerror}"
        ) from error
    versions = {
        int(folder.name): folder
        for folder in sorted(folders)
        if _NUMBER.fullmatch(folder.name)
        and abs(int(folder.name)) < 2**63
        and any((folder / file).is_file() for file in GRAPH_FILES)
    }
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return versions
    if choice == "specific":
        requested = set(policy.specific.versions)
        return {
            number: path for number, path in versions.items() if number in requested
        }
    newest = sorted(versions)[-max(policy.latest.num_versions, 1) :]
    return {number: versions[number] for number in newest}
