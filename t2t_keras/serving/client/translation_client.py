"""Client of an exported translator: text in, translations out, over gRPC.

    with TranslationClient("localhost:8500") as client:
        for line in client.translate(["The dog sleeps.", "A red apple."]):
            print(line.score, line.text)

For a server of TensorFlow Serving or `python -m t2t_keras.serve`. Imports neither
TensorFlow nor NumPy; `t2t_keras.serving.signature` is all that it knows of the model.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from t2t_keras.errors import require_package
from t2t_keras.serving import signature

with require_package("The client", "grpcio"):
    import grpc
with require_package("The client", "protobuf"):
    from google.protobuf.message import Message

from t2t_keras.serving.client.calls import ModelSpec, PredictionCalls, RetryPolicy
from t2t_keras.serving.client.errors import ServerError, wants_all_inputs
from t2t_keras.serving.client.options import SearchOptions
from t2t_keras.serving.client.tensors import (
    Answer,
    float32_tensor,
    int32_tensor,
    int64_tensor,
    string_tensor,
)

_LANGUAGES = (signature.SOURCE_LANGUAGE, signature.TARGET_LANGUAGE)


@dataclass(frozen=True)
class TranslatedText:
    """One translation of one text.

    Attributes:
        text: The translation; "" of an empty text.
        score: Log probability over length penalty, by which translations are ranked.
        truncated: Whether the text was over the server's limits, and its end was
            left out.
        unmet: Target terms of a glossary that the translation does not have.
    """

    text: str
    score: float
    truncated: bool = False
    unmet: tuple[str, ...] = ()


@dataclass(frozen=True)
class TargetScore:
    """Score of a given translation.

    Attributes:
        log_prob: Natural log of its probability.
        score: `log_prob` over the length penalty.
        tokens: Its subwords, the end of sentence last.
        token_log_probs: Natural log of the probability of each.
        truncated: Whether either text was over the server's limits, and its end was not
            scored.
    """

    log_prob: float
    score: float
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    truncated: bool = False


@dataclass(frozen=True)
class CrossAttention:
    """Attention of a translation's subwords to those of its source.

    Attributes:
        source_tokens: The source's S subwords, the end of sentence last.
        target_tokens: The translation's T subwords, the end of sentence last.
        weights: [R, H, T, S]: R decoder layers, H heads. The weights of each subword of
            the translation add up to 1; they are those while it is predicted.
        truncated: Whether either text was over the server's limits, and its end was
            left out.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    weights: list[list[list[list[float]]]]
    truncated: bool = False


def _option_tensors(
    options: SearchOptions, count: int, sends_all: bool
) -> dict[str, Message]:
    """Returns the options that are set, each the same for `count` texts.

    With a beam size, and for `sends_all`, all options are sent: unset options get
    sentinel values that select the export's defaults.
    """
    values = {name: each for name, each in asdict(options).items() if each is not None}
    if options.beam_size is not None or sends_all:
        own = {
            signature.BEAM_SIZE: 0,
            signature.ALPHA: math.nan,
            signature.MAX_LENGTH: 2**31 - 1,
        }
        values = own | values
    kinds = {signature.ALPHA: float32_tensor}
    return {
        name: kinds.get(name, int32_tensor)([value] * count)
        for name, value in values.items()
    }


class TranslationClient:
    """A connection to a server, which threads may share; close it after use.

    Each method is one request, which must fit the server's largest batch; for more
    text than that see `t2t_keras.serving.client.bulk`. All raise `ServerError`, a
    `UserError`, if the server does not answer, refuses, or breaks the contract.

    Args:
        server: host:port, of gRPC.
        model: Model of the server, or its name.
        timeout_seconds: Longest time of a call, its retries included.
        retry: Retries of a call that failed.
        credentials: For TLS, from `connection.read_credentials` or
            `grpc.ssl_channel_credentials`; None for a connection without encryption.
        max_message_bytes: Largest size of a request and of an answer.

    Raises:
        UserError: If `server` is not a valid address, `timeout_seconds` is not
            positive, or `max_message_bytes` is negative.
    """

    def __init__(
        self,
        server: str,
        model: ModelSpec | str = "translate",
        *,
        timeout_seconds: float = 60.0,
        retry: RetryPolicy | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        max_message_bytes: int = 64 * 2**20,
    ):
        self._calls = PredictionCalls(
            server,
            ModelSpec(model) if isinstance(model, str) else model,
            timeout_seconds=timeout_seconds,
            retry=retry or RetryPolicy(),
            credentials=credentials,
            max_message_bytes=max_message_bytes,
        )
        self._languages: Mapping[str, str] = {}

    def for_languages(
        self, source: str | None = None, target: str | None = None
    ) -> "TranslationClient":
        """Returns a client for two languages of a multilingual model.

        It shares the connection, which this client closes. An answer for languages that
        the model does not have is a `ServerError`.

        Args:
            source: Code of the language of texts. Default: that of the export.
            target: The same of translations.
        """
        client = copy.copy(self)
        pair = source or "", target or ""
        client._languages = dict(zip(_LANGUAGES, pair, strict=True))
        if not any(pair):
            client._languages = {}
        return client

    def __enter__(self) -> "TranslationClient":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and every call that waits."""
        self._calls.close()

    def translate(
        self,
        texts: Sequence[str | bytes],
        options: SearchOptions | None = None,
        signature_name: str = "",
        prefixes: Sequence[str | bytes] | None = None,
    ) -> list[TranslatedText]:
        """Returns the best translation of each text.

        Args:
            texts: One sentence each; bytes are UTF-8, and replaced where they are
                not.
            options: Settings of the search. Default: the export's.
            signature_name: Another signature of the same inputs and outputs.
            prefixes: Beginning of each translation, "" for none, for an export made
                with --prefix. It takes no options. A prefix that is too long is cut.

        Raises:
            ValueError: If the numbers of texts and prefixes differ, or there are
                prefixes and options.
        """
        sends_all = bool(self._languages) and prefixes is None
        inputs = _option_tensors(options or SearchOptions(), len(texts), sends_all)
        ordinary = signature.TRANSLATE_WITH_OPTIONS if inputs else signature.TRANSLATE
        if prefixes is not None:
            if inputs or len(prefixes) != len(texts):
                raise ValueError(
                    "Each text must have its prefix, and prefixes take no options. "
                    f"Received: {len(texts)} texts, {len(prefixes)} prefixes, {options}"
                )
            ordinary = signature.TRANSLATE_WITH_PREFIX
            inputs = {signature.PREFIX: string_tensor(prefixes)}
        answer = self._answer(
            signature_name or ordinary,
            {signature.TEXT: string_tensor(texts)} | inputs,
        )
        columns = (
            answer.column(signature.TRANSLATION, bytes),
            answer.column(signature.SCORE, float),
            answer.truncated(),
        )
        return [
            TranslatedText(_text(text), score, truncated)
            for text, score, truncated in zip(*columns, strict=True)
        ]

    def translate_n_best(
        self,
        texts: Sequence[str | bytes],
        count: int | None = None,
        terms: Sequence[Sequence[str]] | None = None,
    ) -> list[list[TranslatedText]]:
        """Returns the best translations of each text, best first.

        May return fewer than `count`; an empty text yields one empty translation.

        Args:
            texts: As `translate` takes them.
            count: Translations of each text. Default: the n_best of the export.
            terms: Terms that the translations of each text must have, for an export
                made with --terms. It leaves out what it cannot write or has no room
                for. If it finds no translation with the others, that is "".

        Raises:
            ValueError: If the numbers of texts and lists of terms differ.
        """
        inputs = {signature.TEXT: string_tensor(texts)}
        if terms is None:
            return self._several(signature.NBEST, inputs, count)
        if len(terms) != len(texts) or any(isinstance(each, str) for each in terms):
            raise ValueError(
                "Each text must have a list of terms. "
                f"Received: {len(texts)} texts, terms={terms!r:.60}"
            )
        lines = ["\n".join(" ".join(t.split()) for t in each) for each in terms]
        inputs[signature.TERMS] = string_tensor(lines)
        return self._several(signature.NBEST_WITH_TERMS, inputs, count)

    def sample(
        self,
        texts: Sequence[str | bytes],
        seeds: Sequence[int],
        count: int | None = None,
    ) -> list[list[TranslatedText]]:
        """Returns samples of each text, from an export made with --sample.

        Args:
            texts: As `translate` takes them.
            seeds: 64-bit seed of each text. Its samples depend on nothing else.
            count: Number of samples; all that the model was exported with if None.
        """
        inputs = {
            signature.TEXT: string_tensor(texts),
            signature.SEED: int64_tensor(seeds),
        }
        return self._several(signature.SAMPLE, inputs, count)

    def _several(
        self, signature_name: str, inputs: Mapping[str, Message], count: int | None
    ) -> list[list[TranslatedText]]:
        """Returns the answer of a signature that gives N translations."""
        answer = self._answer(signature_name, inputs)
        columns = (
            answer.rows(signature.TRANSLATIONS, bytes, at_least=count or 1),
            answer.rows(signature.SCORES, float),
            answer.rows(signature.LENGTHS, int),
            answer.truncated(),
        )
        return [
            [
                TranslatedText(_text(text), score, truncated)
                for text, score, length in zip(*hypotheses, strict=True)
                if length
            ][:count]
            or [TranslatedText("", 0.0, truncated)]
            for *hypotheses, truncated in zip(*columns, strict=True)
        ]

    def score(
        self, sources: Sequence[str | bytes], targets: Sequence[str | bytes]
    ) -> list[TargetScore]:
        """Returns how likely each target is as a translation of its source.

        Raises:
            ValueError: If the numbers of sources and targets differ.
        """
        answer = self._answer(signature.SCORE_TARGET, _pairs(sources, targets))
        columns = (
            answer.column(signature.LOG_PROB, float),
            answer.column(signature.SCORE, float),
            answer.column(signature.TARGET_LENGTH, int),
            answer.rows(signature.TARGET_TOKENS, bytes),
            answer.rows(signature.TOKEN_LOG_PROBS, float),
            answer.truncated(),
        )
        return [
            TargetScore(
                log_prob,
                score,
                tuple(map(_text, tokens[:length])),
                tuple(log_probs[:length]),
                truncated,
            )
            for log_prob, score, length, tokens, log_probs, truncated in zip(
                *columns, strict=True
            )
        ]

    def attention(
        self, sources: Sequence[str | bytes], targets: Sequence[str | bytes]
    ) -> list[CrossAttention]:
        """Returns the cross-attention of each target to its source.

        Raises:
            ValueError: If the numbers of sources and targets differ.
        """
        answer = self._answer(
            signature.ATTENTION,
            _pairs(sources, targets),
            outputs=(
                signature.MEMORY_ATTENTION,
                signature.TRUNCATED,
                signature.SOURCE_TOKENS,
                signature.SOURCE_LENGTH,
                signature.TARGET_TOKENS,
                signature.TARGET_LENGTH,
            ),
        )
        columns = (
            answer.rows(signature.SOURCE_TOKENS, bytes),
            answer.column(signature.SOURCE_LENGTH, int),
            answer.rows(signature.TARGET_TOKENS, bytes),
            answer.column(signature.TARGET_LENGTH, int),
            answer.maps(signature.MEMORY_ATTENTION),
            answer.truncated(),
        )
        return [
            CrossAttention(
                tuple(map(_text, source[:source_length])),
                tuple(map(_text, target[:target_length])),
                [
                    [
                        [row[:source_length] for row in head[:target_length]]
                        for head in layer
                    ]
                    for layer in weights
                ],
                truncated,
            )
            for source, source_length, target, target_length, weights, truncated in zip(
                *columns, strict=True
            )
        ]

    def _answer(
        self,
        signature_name: str,
        inputs: Mapping[str, Message],
        outputs: Sequence[str] = (),
    ) -> Answer:
        (rows,) = {tensor.tensor_shape.dim[0].size for tensor in inputs.values()}
        try:
            answer = self._ask(signature_name, inputs, outputs, rows)
        except ServerError as error:
            # It then wants the languages of a multilingual model, and all options.
            # Whether the model has any, only its answer tells.
            if self._languages or not wants_all_inputs(error.__cause__):
                raise
            own = self.for_languages()
            own._languages = dict.fromkeys(_LANGUAGES, "")
            if signature_name == signature.TRANSLATE_WITH_OPTIONS:
                inputs = {**_option_tensors(SearchOptions(), rows, True), **inputs}
            try:
                answer = own._ask(signature_name, inputs, outputs, rows)
            except ServerError:
                raise error from None
            self._languages = own._languages
        if any(self._languages.values()) and signature.TERMS not in inputs:
            self._check_languages(answer, inputs)
        return answer

    def _ask(
        self,
        signature_name: str,
        inputs: Mapping[str, Message],
        outputs: Sequence[str],
        rows: int,
    ) -> Answer:
        languages = {
            name: string_tensor([code] * rows) for name, code in self._languages.items()
        }
        answer = self._calls.predict(signature_name, {**inputs, **languages}, outputs)
        return Answer(answer, rows, signature_name)

    def _check_languages(self, answer: Answer, inputs: Mapping[str, Message]) -> None:
        """Raises `ServerError` if the model does not have the languages."""
        is_unknown = answer.has_impossible(signature.SCORE, signature.SCORES)
        if signature.SOURCE_LENGTH in answer.outputs:
            # Of unknown languages, a text is read as if it were empty.
            texts = inputs[signature.SOURCE].string_val  # type: ignore[attr-defined]
            lengths = answer.column(signature.SOURCE_LENGTH, int)
            is_unknown |= any(
                text.strip() and length <= 1
                for text, length in zip(texts, lengths, strict=True)
            )
        if is_unknown:
            raise ServerError(
                "The model does not translate between these languages: "
                f"{' to '.join(self._languages.values())}. Give codes that its "
                "model_card.json lists."
            )


def _pairs(
    sources: Sequence[str | bytes], targets: Sequence[str | bytes]
) -> dict[str, Message]:
    """Returns inputs of sentences and their translations."""
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
    return {
        signature.SOURCE: string_tensor(sources),
        signature.TARGET: string_tensor(targets),
    }


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
