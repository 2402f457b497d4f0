"""Writes a small model with random weights and two LoRA adapters: `tiny_model.py FOLDER`.

FOLDER/tiny is what vLLM loads, FOLDER/lora-a and FOLDER/lora-b are its adapters, FOLDER/tiny.gguf is the same model for
llama.cpp. The text it writes is nonsense; tokens, batches, cache and streams are as with any other model. Special
tokens have ids below 300 and the vocabulary is 2,048, which prompts.py relies on.
"""

import json
import pathlib
import sys
import sysconfig

import gguf
import numpy
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, WIDTH, INNER, LAYERS, HEADS, CONTEXT, RANK = 2048, 64, 128, 2, 2, 4096, 8
END, PAD = "<|im_end|>", "<pad>"
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tokenizer():
    """A byte-level BPE of some of Python's own sources: it takes any text."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    sources = sorted(pathlib.Path(sysconfig.get_paths()["stdlib"]).glob("[a-h]*.py"))
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|im_start|>", END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((path.read_text(errors="ignore") for path in sources), trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token=END, pad_token=PAD)
    fast.model_max_length, fast.chat_template = CONTEXT, TEMPLATE
    return fast


def weights(words, folder):
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=words.convert_tokens_to_ids(END),
        pad_token_id=words.convert_tokens_to_ids(PAD),
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).bfloat16()
    model.save_pretrained(folder)
    return {name: tensor.float().numpy() for name, tensor in model.state_dict().items()}


def adapter(folder, base, seed):
    folder.mkdir(parents=True, exist_ok=True)
    source = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(LAYERS):
        for matrix in ("q_proj", "v_proj"):
            name = f"base_model.model.model.layers.{layer}.self_attn.{matrix}"
            tensors[f"{name}.lora_A.weight"] = torch.randn(RANK, WIDTH, generator=source).bfloat16() / 2
            tensors[f"{name}.lora_B.weight"] = torch.randn(WIDTH, RANK, generator=source).bfloat16() / 2
    save_file(tensors, folder / "adapter_model.safetensors")
    about = {
        "peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": str(base), "r": RANK,
        "lora_alpha": 16, "target_modules": ["q_proj", "v_proj"], "bias": "none", "inference_mode": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(about))


# By the name in the file for vLLM, the name in the file for llama.cpp.
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
PER_LAYER = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_file(words, tensors, path):
    out = gguf.GGUFWriter(path, "llama")
    out.add_name("tiny")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(WIDTH)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(HEADS)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_rope_dimension_count(WIDTH // HEADS)
    out.add_vocab_size(VOCABULARY)
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    bpe = json.loads(words.backend_tokenizer.to_str())
    special = {token["id"] for token in bpe["added_tokens"]}
    texts = words.convert_ids_to_tokens(range(VOCABULARY))
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list(texts)
    out.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(VOCABULARY)])
    out.add_token_merges([pair if isinstance(pair, str) else " ".join(pair) for pair in bpe["model"]["merges"]])
    out.add_eos_token_id(words.eos_token_id)
    out.add_pad_token_id(words.pad_token_id)
    out.add_add_bos_token(False)
    out.add_chat_template(TEMPLATE)
    names = dict(WHOLE)
    for layer in range(LAYERS):
        names |= {f"model.layers.{layer}.{ours}": f"blk.{layer}.{theirs}" for ours, theirs in PER_LAYER.items()}
    for ours, theirs in names.items():
        # The order in which the two rotate a head differs; with random weights that changes nothing of interest.
        out.add_tensor(f"{theirs}.weight", numpy.ascontiguousarray(tensors[f"{ours}.weight"]))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    folder = pathlib.Path(sys.argv[1])
    words = tokenizer()
    if len(words) != VOCABULARY:
        raise SystemExit(f"the vocabulary has {len(words)} entries, not {VOCABULARY}")
    words.save_pretrained(folder / "tiny")
    tensors = weights(words, folder / "tiny")
    adapter(folder / "lora-a", folder / "tiny", 1)
    adapter(folder / "lora-b", folder / "tiny", 2)
    gguf_file(words, tensors, folder / "tiny.gguf")


if __name__ == "__main__":
    main()
