"""CTranslate2's beam search over the same weights.

    python -m benchmarks.decoding.write && \\
        python -m benchmarks.decoding.ctranslate2_search --batch=32
"""

import ctranslate2

from benchmarks.decoding import measured


def main() -> None:
    """Times `translate_batch`: one translator of all threads, or several of one."""
    given = measured.arguments(
        description=__doc__, quantization=["float32", "int8", "bfloat16"]
    )
    stored = "int8" if given.quantization == "int8" else "float32"
    translator = ctranslate2.Translator(
        str(given.model / f"ctranslate2_{stored}"),
        compute_type=given.quantization,
        inter_threads=given.at_once,
        intra_threads=given.threads // given.at_once,
    )
    pieces = [str(i) for i in range(measured.VOCABULARY)]

    def translate(batch: measured.Sentences) -> measured.Sentences:
        found = translator.translate_batch(
            [[pieces[i] for i in sentence] for sentence in batch],
            beam_size=measured.BEAM,
            length_penalty=measured.ALPHA,
            max_decoding_length=measured.LENGTH,
            min_decoding_length=measured.LENGTH,
        )
        return [[int(piece) for piece in one.hypotheses[0]] for one in found]

    measured.measure(translate, given)


if __name__ == "__main__":
    main()
