"""Beam search of Hugging Face's MarianMT, `generate`, with the same weights.

    python -m benchmarks.decoding.marian --batch=32

Biases of its attention are set to zero, and its sinusoids are overwritten.
"""

import numpy as np
import torch
from transformers import MarianConfig, MarianMTModel

from benchmarks.decoding import measured


def main() -> None:
    """Times `generate`."""
    args = measured.arguments(description=__doc__, precision=["float32", "bfloat16"])
    torch.set_num_threads(args.threads // args.at_once)
    model = build_model(np.load(args.model / "weights.npz"))
    model = model.to(getattr(torch, args.precision)).eval()

    @torch.inference_mode()
    def translate(batch: measured.Sentences) -> measured.Sentences:
        source = torch.tensor(measured.pad_batch(batch), dtype=torch.long)
        hypotheses = model.generate(
            source,
            attention_mask=(source != 0).long(),
            num_beams=measured.BEAM,
            length_penalty=measured.ALPHA,
            max_new_tokens=measured.LENGTH,
            min_new_tokens=measured.LENGTH,
            do_sample=False,
        )
        return hypotheses[:, 1:].tolist()

    measured.measure(translate, args)


def build_model(weights) -> MarianMTModel:
    """Returns a MarianMT model with the same sizes and weights."""
    config = MarianConfig(
        vocab_size=measured.VOCABULARY,
        d_model=measured.WIDTH,
        encoder_layers=measured.LAYERS,
        decoder_layers=measured.LAYERS,
        encoder_ffn_dim=measured.INNER,
        decoder_ffn_dim=measured.INNER,
        encoder_attention_heads=measured.HEADS,
        decoder_attention_heads=measured.HEADS,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=len(weights["positions"]),
        pad_token_id=0,
        eos_token_id=measured.EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=0,
    )
    model = MarianMTModel(config)
    for module in model.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.model.shared.weight.copy_(torch.tensor(weights["embedding/embeddings"]))
        for name in ("encoder", "decoder"):
            stack = getattr(model.model, name)
            stack.embed_positions.weight.copy_(torch.tensor(weights["positions"]))
            for i, layer in enumerate(stack.layers):
                copy_layer(layer, weights, f"{name}/layer_{i}")
    return model


def copy_layer(layer, weights, path: str) -> None:
    """Assigns the weights of an encoder or decoder layer."""
    attentions = [("self_attn", "attention")]
    norms = [("self_attn_layer_norm", "attention")]
    if hasattr(layer, "encoder_attn"):
        attentions.append(("encoder_attn", "memory_attention"))
        norms.append(("encoder_attn_layer_norm", "memory"))
    norms.append(("final_layer_norm", "feed_forward"))
    for theirs, ours in attentions:
        for letter, name in zip(
            ("q_proj", "k_proj", "v_proj", "out_proj"),
            ("query", "key", "value", "output"),
            strict=True,
        ):
            kernel = torch.tensor(weights[f"{path}/{ours}/{name}_kernel"])
            getattr(getattr(layer, theirs), letter).weight.copy_(kernel.T)
    for theirs, ours in (("fc1", "inner"), ("fc2", "outer")):
        linear, dense = getattr(layer, theirs), f"{path}/feed_forward/{ours}"
        linear.weight.copy_(torch.tensor(weights[f"{dense}/kernel"]).T)
        linear.bias.copy_(torch.tensor(weights[f"{dense}/bias"]))
    for theirs, ours in norms:
        norm, residual = getattr(layer, theirs), f"{path}/{ours}_residual/norm"
        norm.weight.copy_(torch.tensor(weights[f"{residual}/gamma"]))
        norm.bias.copy_(torch.tensor(weights[f"{residual}/beta"]))


if __name__ == "__main__":
    main()
