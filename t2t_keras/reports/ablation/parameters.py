"""Number of trainable parameters, from the settings alone (section 3).

No model is built: the big one would take a gigabyte. D, F, H, K, U
and V are the model's sizes; N its layers.
"""

from t2t_keras.settings.model_config import ModelConfig


def parameter_count(model: ModelConfig, vocabulary_size: int) -> int:
    """Returns the number of parameters of a model.

    The vocabulary's matrix is counted once if it embeds both languages and makes the
    logits.
    """
    width = model.d_model
    per_head = width // model.num_heads
    keys = model.d_k or per_head
    values = model.d_v or per_head
    # Queries and keys, values and output: four matrices of D x H x K or U.
    attention = 2 * width * model.num_heads * (keys + values)
    if model.attention_bias:
        attention += model.num_heads * (2 * keys + values) + width
    feed_forward = 2 * width * model.d_ff + model.d_ff + width
    norm = 2 * width
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    positions = (model.learned_positions or 0) * width
    matrices = 1 + (not model.tie_output) + (not model.share_embeddings)
    vocabulary = vocabulary_size * (width * matrices + model.output_bias)
    encoder = (model.encoder_layers or model.num_layers) * encoder_layer
    decoder = (model.decoder_layers or model.num_layers) * decoder_layer
    final_norms = 2 * norm if model.normalization == "pre" else 0
    return vocabulary + positions + encoder + decoder + final_norms
