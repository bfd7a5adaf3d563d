"""Numbers of the places that drop something: what each folds into its dropout key.

From the model down, a place's key is that of the row with these folded in:

    ModelSite.ENCODER
        StackSite.EMBEDDING
        StackSite.LAYERS, number of the layer from 0, EncoderLayerSite
    ModelSite.DECODER
        StackSite.EMBEDDING
        StackSite.LAYERS, number of the layer from 0, DecoderLayerSite

`AttentionDropout` folds in the head and the query, `NeighborhoodAttention` the block.

A number never changes: runs that resume would drop other elements (ADR 0013).
"""

import enum


class ModelSite(enum.IntEnum):
    """Sides of the Transformer."""

    ENCODER = 0
    DECODER = 1


class StackSite(enum.IntEnum):
    """Parts of a side."""

    EMBEDDING = 0
    LAYERS = 1


class EncoderLayerSite(enum.IntEnum):
    """Outputs of the sub-layers, and attention weights, of an encoder layer."""

    ATTENTION = 0
    FEED_FORWARD = 1
    ATTENTION_WEIGHTS = 2


class DecoderLayerSite(enum.IntEnum):
    """Outputs of the sub-layers, and attention weights, of a decoder layer."""

    ATTENTION = 0
    CROSS_ATTENTION = 1
    FEED_FORWARD = 2
    ATTENTION_WEIGHTS = 3
    CROSS_ATTENTION_WEIGHTS = 4
