# Pyright carries partial stubs of TensorFlow that call correct code wrong. This one
# says what is true: nothing is known of its types.
from typing import Any

def __getattr__(name: str) -> Any: ...
