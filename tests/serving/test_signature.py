"""Names of signatures, inputs and outputs, which clients rely on."""

from t2t_keras.serving import signature


def test_names_are_unchanged():
    """A change in one of these lines breaks every client."""
    names = {name: value for name, value in vars(signature).items() if name.isupper()}
    assert names == {
        "TRANSLATE": "serving_default",
        "NBEST": "nbest",
        "TRANSLATE_WITH_OPTIONS": "translate_with_options",
        "SAMPLE": "sample",
        "TRANSLATE_WITH_PREFIX": "translate_with_prefix",
        "SCORE_TARGET": "score",
        "ATTENTION": "attention",
        "TRANSLATE_IDS": "translate_ids",
        "DETOKENIZE": "detokenize",
        "TEXT": "text",
        "TRANSLATION": "translation",
        "SCORE": "score",
        "TRUNCATED": "truncated",
        "TRANSLATIONS": "translations",
        "SCORES": "scores",
        "LENGTHS": "lengths",
        "BEAM_SIZE": "beam_size",
        "ALPHA": "alpha",
        "MAX_LENGTH": "max_length",
        "SEED": "seed",
        "PREFIX": "prefix",
        "SOURCE": "source",
        "TARGET": "target",
        "LOG_PROB": "log_prob",
        "TOKEN_LOG_PROBS": "token_log_probs",
        "TARGET_TOKENS": "target_tokens",
        "SOURCE_TOKENS": "source_tokens",
        "TARGET_LENGTH": "target_length",
        "SOURCE_LENGTH": "source_length",
        "ENCODER_ATTENTION": "encoder_attention",
        "DECODER_ATTENTION": "decoder_attention",
        "MEMORY_ATTENTION": "memory_attention",
        "INPUT_IDS": "input_ids",
        "OUTPUT_IDS": "output_ids",
        "OUTPUT_LENGTH": "output_length",
    }
