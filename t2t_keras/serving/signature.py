"""Contract with a server: names of an export's signatures and tensors.

Standard library only, so that a client need import nothing else.

Shapes: B batch, N translations of each text, S source length, T target length, L
longest output, R layers of a stack, H heads. Every output has the batch first, so
that a server may join requests into one batch and take the answers apart again.
"""

# Text in, text out. TensorFlow Serving calls it if no signature is named.
TRANSLATE = "serving_default"
# Text in, the N best translations of each out. N is fixed when exporting.
NBEST = "nbest"
# As TRANSLATE, with the search's settings as inputs that have defaults.
TRANSLATE_WITH_OPTIONS = "translate_with_options"
# Text and seeds in, N samples of each out: only in exports made with --sample.
SAMPLE = "sample"
# Text and beginnings of translations in: only in exports made with --prefix.
TRANSLATE_WITH_PREFIX = "translate_with_prefix"
# Text and terms in, N translations with the terms of each out: only in exports made
# with --terms. Without terms they are those of NBEST.
NBEST_WITH_TERMS = "nbest_with_terms"
# Source and target text in, the target's log probability out.
SCORE_TARGET = "score"
# Source and target text in, attention weights out.
ATTENTION = "attention"
# Ids in, ids out, for clients that tokenize.
TRANSLATE_IDS = "translate_ids"
# Ids in, text out: in the export without a tokenizer, whose default takes ids too.
DETOKENIZE = "detokenize"

# [B] string, UTF-8, one sentence each.
TEXT = "text"
# [B] string, the best translation of each.
TRANSLATION = "translation"
# [B] float32, its log probability over its length penalty; 0 for an empty text.
SCORE = "score"
# [B] bool, whether a text, or ids, were longer than the limits and their end was left
# out. Every signature that takes a sentence has it.
TRUNCATED = "truncated"

# [B, N] string, best first; "" where there were fewer.
TRANSLATIONS = "translations"
# [B, N] float32, as SCORE; minus infinity where there were fewer.
SCORES = "scores"
# [B, N] int32, tokens of each, EOS counted; 0 where there were fewer.
LENGTHS = "lengths"

# Options of the search, each a scalar for all texts or [B], one for each text. A
# server that joins requests into batches takes the latter only, and all of them.
# int32, live hypotheses, from 1 to what the export allows. A multilingual export takes
# 0 for its own number.
BEAM_SIZE = "beam_size"
# float32, strength of the length penalty, at least 0; NaN for the export's own.
ALPHA = "alpha"
# int32, maximum number of tokens of a translation, EOS counted, at least 1. The
# export's limit is the default and the maximum.
MAX_LENGTH = "max_length"

# Languages of each text and of its translation, codes as strings, each a scalar or [B].
# Inputs of multilingual exports, by default "" for the export's own pair; TRANSLATE has
# that alone. A text between languages that the model does not have gets the translation
# "" and a score, or log probability, of minus infinity.
SOURCE_LANGUAGE = "source_language"
TARGET_LANGUAGE = "target_language"

# [B] int64, seed of each text's random numbers. Samples depend on text and seed alone.
SEED = "seed"
# [B] string, beginning of each translation; "" for none.
PREFIX = "prefix"
# [B] string, terms that the translations must have, with line breaks between them; ""
# for none. What the vocabulary cannot write, what the translation has no room for, and
# what is over the limits of `t2t_keras.text.term_encoder` is left out.
TERMS = "terms"

# [B] string each, a sentence and its translation.
SOURCE = "source"
TARGET = "target"
# [B] float32, natural log of the target's probability.
LOG_PROB = "log_prob"
# [B, T] float32, that of each token; 0 after the last.
TOKEN_LOG_PROBS = "token_log_probs"
# [B, T] string, the target's subwords, EOS last; "" after that.
TARGET_TOKENS = "target_tokens"
# [B, S] string, the source's.
SOURCE_TOKENS = "source_tokens"
# [B] int32, tokens of each target and source, EOS counted.
TARGET_LENGTH = "target_length"
SOURCE_LENGTH = "source_length"
# Attention weights, float32; undefined at padding.
# [B, R, H, S, S], [B, R, H, T, T], and from target to source [B, R, H, T, S].
ENCODER_ATTENTION = "encoder_attention"
DECODER_ATTENTION = "decoder_attention"
MEMORY_ATTENTION = "memory_attention"

# [B, S] int32, each row ended by EOS (1) and padded with 0.
INPUT_IDS = "input_ids"
# [B, L] int32, each row ended by EOS (1) and padded with 0.
OUTPUT_IDS = "output_ids"
# [B] int32, tokens of each output, EOS counted.
OUTPUT_LENGTH = "output_length"
