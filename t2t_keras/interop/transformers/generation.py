"""Settings of generate in transformers: those of our search, and the names of others.

Source: transformers 5, generation/configuration_utils.py.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from t2t_keras.interop.imported_model import IdMap
from t2t_keras.interop.transformers.folder import read_json
from t2t_keras.settings.decoding_config import DecodingConfig

_APPLIED = frozenset(
    "decoder_start_token_id length_penalty min_length min_new_tokens "
    "no_repeat_ngram_size num_beams renormalize_logits".split()
)
# They change how fast something is generated, or what is returned of it besides.
_NO_EFFECT = frozenset(
    "_commit_hash _from_model_config assistant_confidence_threshold "
    "assistant_early_exit assistant_lookbehind bos_token_id cache_config "
    "cache_implementation compile_config continuous_batching_config disable_compile "
    "is_assistant low_memory max_cache_len max_matching_ngram_size "
    "num_assistant_tokens num_assistant_tokens_schedule num_return_sequences "
    "output_attentions output_hidden_states output_logits output_scores "
    "prefill_chunk_size prompt_lookup_num_tokens remove_invalid_values "
    "return_dict_in_generate speculation_type target_lookbehind transformers_version "
    "use_cache use_mtp".split()
)
# Values that leave a search as it is, besides null and what is empty.
_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "diversity_penalty": 0.0,
        "do_sample": False,
        "early_stopping": False,
        "encoder_no_repeat_ngram_size": 0,
        "encoder_repetition_penalty": 1.0,
        "epsilon_cutoff": 0.0,
        "eta_cutoff": 0.0,
        "num_beam_groups": 1,
        "repetition_penalty": 1.0,
        "temperature": 1.0,
        "token_healing": False,
        "top_k": 50,
        "top_p": 1.0,
        "typical_p": 1.0,
    }
)
# The rest, by which config.json of older releases may have settings of the search.
_OTHERS = frozenset(
    "assistant_ensemble_weight bad_words_ids begin_suppress_tokens constraints "
    "dola_layers eos_token_id exponential_decay_length_penalty force_words_ids "
    "forced_bos_token_id forced_eos_token_id guidance_scale max_length max_new_tokens "
    "max_time min_p pad_token_id penalty_alpha sequence_bias stop_strings "
    "suppress_tokens top_h watermarking_config".split()
)


def read_generation(path: Path, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of generation_config.json in a folder, else of `config`.

    `config` is the content of config.json.

    Raises:
        UserError: If the file cannot be read.
    """
    file = path / "generation_config.json"
    if file.is_file():
        return read_json(file)
    names = _APPLIED | _NO_EFFECT | _OTHERS | {*_DEFAULTS}
    return {name: value for name, value in config.items() if name in names}


def decoding_config(
    generation: Mapping[str, Any], target: IdMap
) -> tuple[DecodingConfig, list[str]]:
    """Returns settings of the search, and a warning for each that is not applied."""
    alpha = generation.get("length_penalty")
    alpha = 1.0 if alpha is None else float(alpha)
    suppressed = [ids for ids, _ in _suppressed(generation)]
    least = generation.get("min_new_tokens")
    if least is None:  # There the first input counts.
        least = int(generation.get("min_length") or 0) - 1
    decoding = DecodingConfig(
        beam_size=int(generation.get("num_beams") or 1),
        alpha=alpha if alpha > 0 else 0.6,
        length_penalty="power" if alpha > 0 else "none",
        suppress_unknown=[target.original_ids[2]] in suppressed,
        min_length=max(0, int(least)),
        no_repeat_ngram=int(generation.get("no_repeat_ngram_size") or 0),
        renormalize=bool(generation.get("renormalize_logits")),
    )
    return decoding, list(_warnings(generation, target, alpha))


def _suppressed(generation: Mapping[str, Any]) -> Iterator[tuple[list[int], str]]:
    """Yields the sequences of tokens that are forbidden, and the setting of each."""
    for ids in generation.get("bad_words_ids") or []:
        yield ids, "bad_words_ids"
    for token in generation.get("suppress_tokens") or []:
        yield [token], "suppress_tokens"


def _warnings(
    generation: Mapping[str, Any], target: IdMap, alpha: float
) -> Iterator[str]:
    if alpha < 0:
        yield f"length_penalty: {alpha:g} is ignored: it must be at least 0"
    pad, eos, unk = target.original_ids[:3]
    # Padding is never generated here.
    others = [
        name for ids, name in _suppressed(generation) if ids not in ([pad], [unk])
    ]
    for name in dict.fromkeys(others):
        yield f"{name}: {others.count(name)} other words are not suppressed"
    same = {
        "pad_token_id": [pad],
        "eos_token_id": [eos, [eos]],
        # At the limit of length, as here.
        "forced_eos_token_id": [eos, [eos]],
        "early_stopping": [False, "never"],
    }
    known = _APPLIED | _NO_EFFECT | {"bad_words_ids", "suppress_tokens"}
    for name, value in generation.items():
        neutral = same.get(name, [_DEFAULTS.get(name)])
        if name in known or value in (None, [], {}) or value in neutral:
            continue
        instead = (
            "the limit here is --extra_length"
            if name in ("max_length", "max_new_tokens")
            else "there is none here"
        )
        yield f"{name}: {value!s:.60} is ignored; {instead}"
