"""Beam search of CTranslate2 with the same weights.

    python -m benchmarks.decoding.write && \\
        python -m benchmarks.decoding.ctranslate2_search --batch=32
"""

import ctranslate2

from benchmarks.decoding import measured


def main() -> None:
    """Times `translate_batch` with the requested number of batches in flight."""
    args = measured.arguments(
        description=__doc__, quantization=["float32", "int8", "bfloat16"]
    )
    model_type = "int8" if args.quantization == "int8" else "float32"
    translator = ctranslate2.Translator(
        str(args.model / f"ctranslate2_{model_type}"),
        compute_type=args.quantization,
        inter_threads=args.at_once,
        intra_threads=args.threads // args.at_once,
    )
    pieces = [str(i) for i in range(measured.VOCABULARY)]

    def translate(batch: measured.Sentences) -> measured.Sentences:
        results = translator.translate_batch(
            [[pieces[i] for i in sentence] for sentence in batch],
            beam_size=measured.BEAM,
            length_penalty=measured.ALPHA,
            max_decoding_length=measured.LENGTH,
            min_decoding_length=measured.LENGTH,
        )
        return [[int(piece) for piece in one.hypotheses[0]] for one in results]

    measured.measure(translate, args)


if __name__ == "__main__":
    main()
