"""Loading: folders, GGUF files and names give a model; everything else gives one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlim.core.checks import InputError
from attnlim.models.loading import fingerprint, load, trained_length


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, tiny: Any, minilm: Any) -> Path:
    path = tmp_path_factory.mktemp("tiny-llama")
    tiny("llama").save_pretrained(path)
    minilm.tokenizer.save_pretrained(path)
    return path


def test_a_local_folder(folder: Path, tiny: Any) -> None:
    loaded = load(str(folder), device="cpu")
    assert loaded.name == folder.name
    assert loaded.note == ""
    assert trained_length(loaded.model) == 256
    ids = torch.arange(3, 40)[None]
    with torch.inference_mode():
        assert torch.equal(loaded.model(ids).last_hidden_state, tiny("llama").base_model(ids).last_hidden_state)


def test_known_models_say_what_their_weights_are(smollm2: Any, minilm: Any) -> None:
    assert smollm2.name == "SmolLM2-135M-Instruct"
    assert smollm2.note == "4-bit weights, dequantised"
    assert trained_length(smollm2.model) == 8192
    assert minilm.note == ""
    assert trained_length(minilm.model) == 512


def test_dtype(folder: Path) -> None:
    assert next(load(str(folder), device="cpu", dtype="bfloat16").model.parameters()).dtype == torch.bfloat16


def write_gguf(path: Path, model: Any) -> None:
    """A Llama checkpoint as llama.cpp stores it: q and k rows in its own rotary order, a byte-pair tokenizer."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    letters = [chr(33 + i) for i in range(config.vocab_size - 4)]
    tokens = ["<0>", "<1>", "<2>", *letters, "!!"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_merges(["! !"])
    writer.add_token_types([3, 3, 3] + [1] * (config.vocab_size - 3))
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for name, weight in model.state_dict().items():
        for ours, theirs in names.items():
            if ours in name:
                target = name.replace("model.layers.", "blk.").replace(ours, theirs)
        array = weight.numpy().astype(np.float32)
        if "attn_q." in target or "attn_k." in target:
            heads = config.num_attention_heads if "attn_q" in target else config.num_key_value_heads
            array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
        writer.add_tensor(target, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_gguf_file_and_one_cut_short(tmp_path: Path, tiny: Any) -> None:
    model, path = tiny("llama"), tmp_path / "tiny.gguf"
    write_gguf(path, model)
    loaded = load(str(path), device="cpu")
    assert loaded.name == "tiny"
    ids = torch.arange(3, 40)[None]
    with torch.inference_mode():
        torch.testing.assert_close(loaded.model(ids).last_hidden_state, model.base_model(ids).last_hidden_state)
    whole = path.read_bytes()
    for length in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cannot load .*tiny.gguf"):
            load(str(path), device="cpu")


def test_what_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLIM_CACHE", str(tmp_path))
    with pytest.raises(
        InputError, match="smollm2 is not on this machine yet; fetch it with: attnlim models get smollm2"
    ):
        load("smollm2")
    for missing in ("./nothing", "/no/such/folder", "missing.gguf", "a/b/c"):
        with pytest.raises(
            InputError, match=r"does not exist; give a local folder, a .gguf file, a hub name or one of"
        ):
            load(missing)
    with pytest.raises(InputError, match="has no config.json"):
        load(str(tmp_path))
    (tmp_path / "weights.bin").write_bytes(b"")
    with pytest.raises(InputError, match="file of unknown kind"):
        load(str(tmp_path / "weights.bin"))
    with pytest.raises(InputError, match=r"cannot load nobody/nothing \(HF_HUB_OFFLINE is set\)"):
        load("nobody/nothing")
    with pytest.raises(InputError, match="--dtype must be one of"):
        load("smollm2", dtype="int3")


def edited(folder: Path, target: Path, **changes: Any) -> str:
    target.mkdir()
    for file in folder.iterdir():
        if file.name != "config.json":
            (target / file.name).symlink_to(file)
    config = json.loads((folder / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | changes))
    return str(target)


def test_configs_that_cannot_be_right(folder: Path, tmp_path: Path) -> None:
    banana = edited(folder, tmp_path / "rope", rope_parameters={"rope_type": "banana", "rope_theta": 1e4})
    with pytest.raises(InputError, match="rope type 'banana', known are default, "):
        load(banana)
    unknown = edited(folder, tmp_path / "kind", model_type="perceptron9000")
    with pytest.raises(InputError, match="perceptron9000"):
        load(unknown)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    with pytest.raises(InputError, match="cannot load"):
        load(str(tmp_path / "broken"))


def test_nan_in_weights(folder: Path, tmp_path: Path, tiny: Any, minilm: Any) -> None:
    model = tiny("llama")
    with torch.no_grad():
        model.base_model.layers[1].self_attn.k_proj.weight[2, 3] = float("nan")
    model.save_pretrained(tmp_path / "nan")
    minilm.tokenizer.save_pretrained(tmp_path / "nan")
    with pytest.raises(InputError, match=r"weights layers.1.self_attn.k_proj.weight hold NaN"):
        load(str(tmp_path / "nan"))


def test_weights_that_are_not_there(folder: Path, tmp_path: Path) -> None:
    """transformers would fill the gaps with random numbers, and the audit would measure those."""
    from safetensors.torch import load_file, save_file

    deeper = edited(folder, tmp_path / "deeper", num_hidden_layers=5)
    with pytest.raises(InputError, match=r"lacks the weights layers.3.* and \d+ more that its config asks for"):
        load(deeper)
    wider = edited(folder, tmp_path / "wider", intermediate_size=64)
    with pytest.raises(InputError, match="of another shape"):
        load(wider)
    one = Path(edited(folder, tmp_path / "one"))
    weights = load_file(one / "model.safetensors")
    (one / "model.safetensors").unlink()
    del weights["model.layers.1.self_attn.q_proj.weight"]
    save_file(weights, one / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match="lacks the weights layers.1.self_attn.q_proj.weight that its config asks for"):
        load(str(one))


def test_with_its_head(folder: Path, tmp_path: Path, tiny: Any) -> None:
    """The head's weights are the checkpoint's own, or tied ones; made up ones are refused."""
    from safetensors.torch import load_file, save_file

    ids = torch.arange(3, 40)[None]
    model = tiny("llama")
    with torch.inference_mode():
        wanted = model(ids).logits
        assert torch.equal(load(str(folder), head=True, device="cpu").model(ids).logits, wanted)
        write_gguf(tmp_path / "tiny.gguf", model)
        torch.testing.assert_close(load(str(tmp_path / "tiny.gguf"), head=True, device="cpu").model(ids).logits, wanted)
    one = Path(edited(folder, tmp_path / "one"))
    weights = load_file(one / "model.safetensors")
    (one / "model.safetensors").unlink()
    del weights["lm_head.weight"]
    save_file(weights, one / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"one lacks the weights of its next-token head \(lm_head.weight\)"):
        load(str(one), head=True)
    assert load(str(one), device="cpu").model.get_output_embeddings() is None  # the audit needs none
    tied = load(edited(one, tmp_path / "tied", tie_word_embeddings=True), head=True, device="cpu").model
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    with pytest.raises(InputError, match=r"minilm lacks the weights of its next-token head"):
        load("minilm", head=True)
    with pytest.raises(InputError, match=r"vit \(modernvbert\) predicts no next token"):
        load(edited(folder, tmp_path / "vit", model_type="modernvbert"), head=True)


def test_positions_that_padding_takes_are_not_counted() -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    config = CONFIG_MAPPING["roberta"](
        vocab_size=97, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=66, pad_token_id=1,
    )  # fmt: skip
    model = AutoModel.from_config(config).eval()
    assert trained_length(model) == 64
    model(torch.arange(3, 67)[None])
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        model(torch.arange(3, 68)[None])


def test_pickled_weights_are_not_read(folder: Path, tmp_path: Path, tiny: Any) -> None:
    target = tmp_path / "pickle"
    target.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (target / name).write_bytes((folder / name).read_bytes())
    torch.save(tiny("llama").state_dict(), target / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot load"):
        load(str(target))


def test_device_and_device_map_exclude_each_other() -> None:
    with pytest.raises(InputError, match="exclude each other"):
        load("smollm2", device="cpu", device_map="auto")


def test_a_device_that_is_not_there(folder: Path) -> None:
    device = f"cuda:{torch.cuda.device_count()}" if torch.cuda.is_available() else "cuda"
    with pytest.raises(InputError, match=f"--device {device} cannot be used here"):
        load(str(folder), device=device)


def test_device_map_of_accelerate_gives_the_same_numbers(folder: Path) -> None:
    from attnlim.audit.probing import anatomy, probe

    ids, found = torch.arange(3, 43)[None], []
    for settings in ({"device": "cpu"}, {"device_map": "cpu"}):
        model = load(str(folder), **settings).model
        found.append(probe(model, ids, torch.arange(40), anatomy(model, ids[:, :8])))
    for plain, mapped in zip(found[0].statistics, found[1].statistics, strict=True):
        for name, value in plain[0].items():
            assert torch.equal(value.nan_to_num(), mapped[0][name].nan_to_num()), name


def test_fingerprint_sees_a_changed_weight_and_config(tiny: Any) -> None:
    model, same = tiny("gpt2"), tiny("gpt2")
    assert fingerprint(model) == fingerprint(same)
    with torch.no_grad():
        same.base_model.h[0].mlp.c_fc.weight.mul_(1.0001)
    assert fingerprint(model) != fingerprint(same)
