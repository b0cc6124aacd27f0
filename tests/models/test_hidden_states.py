"""Hidden states as tokens: those that the model itself hands on, from a forward that goes no further."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from attnlim.core.checks import InputError
from attnlim.models.hidden_states import LayerSource, hidden_states, parse_source
from attnlim.models.loading import LoadedModel
from attnlim.models.text import Text, cut_windows, read_text

TEXT = Text("note.txt", "".join(chr(40 + i * i % 59) for i in range(700)))


class Letters:
    """A tokenizer for 97 tokens: a letter is a token, and a text begins with token 1."""

    def __call__(self, content: str, add_special_tokens: bool, verbose: bool) -> dict[str, list[int]]:
        return {"input_ids": [1] * add_special_tokens + [ord(letter) % 97 for letter in content]}


def loaded(model: Any) -> LoadedModel:
    return LoadedModel(model.base_model, Letters(), "tiny", "", "nowhere")


def reference(model: Any, n_tokens: int, window: int = 0, n_windows: int = 1) -> tuple[torch.Tensor, ...]:
    """What transformers keeps when it is asked to keep every layer."""
    ids = cut_windows(Letters(), TEXT, n_windows, n_tokens).ids(window, n_tokens)
    with torch.no_grad():
        output = model.base_model(input_ids=ids, output_hidden_states=True)
    return tuple(hidden[0] for hidden in output.hidden_states)


def test_every_layer_of_every_kind(tiny_model: Any) -> None:
    wanted = reference(tiny_model, 40)
    assert len(wanted) == 4
    for layer in range(3):
        found = hidden_states(loaded(tiny_model), TEXT, 40, layer)
        assert found.shape == (40, 32) and found.dtype == torch.float32
        assert torch.equal(found, wanted[layer]), layer
    # beyond the last layer transformers has normalised once more, where the model does
    last = hidden_states(loaded(tiny_model), TEXT, 40, 3)
    backbone = tiny_model.base_model
    for name in ("norm", "ln_f", "final_norm"):
        last = getattr(backbone, name, nn.Identity())(last)
    torch.testing.assert_close(last, wanted[3])


def test_windows_are_places_of_the_text(tiny: Callable[[str], Any]) -> None:
    model = tiny("llama")
    found = [hidden_states(loaded(model), TEXT, 40, 2, window=w, n_windows=3) for w in range(3)]
    for window, states in enumerate(found):
        assert torch.equal(states, reference(model, 40, window, 3)[2])
    assert not torch.equal(found[0], found[1])


def test_the_forward_stops_at_the_layer(tiny: Callable[[str], Any]) -> None:
    model, ran = tiny("llama").base_model, []
    for number, block in enumerate(model.layers):
        block.register_forward_hook(lambda block, args, output, number=number: ran.append(number))
    for layer, wanted in ((0, []), (1, [0]), (3, [0, 1, 2])):
        ran.clear()
        hidden_states(loaded(model), TEXT, 20, layer)
        assert ran == wanted
    # and leaves nothing behind
    assert not any(block._forward_pre_hooks for block in model.layers)
    ran.clear()
    assert model(torch.arange(5)[None]).last_hidden_state.shape == (1, 5, 32)
    assert ran == [0, 1, 2]


def test_half_precision_comes_as_float32(tiny: Callable[[str], Any]) -> None:
    model = tiny("qwen3").to(torch.bfloat16)
    found = hidden_states(loaded(model), TEXT, 20, 1)
    assert found.dtype == torch.float32
    assert torch.equal(found, found.bfloat16().float())


def test_the_tokens_can_be_differentiated_through(tiny: Callable[[str], Any]) -> None:
    found = hidden_states(loaded(tiny("llama")), TEXT, 20, 1)
    assert not found.requires_grad
    (found.requires_grad_() ** 2).sum().backward()
    assert found.grad is not None


@pytest.mark.parametrize("layer", [0, 12, 29])
def test_a_real_decoder(smollm2: Any, layer: int) -> None:
    ids = smollm2.tokenizer(read_text(None).content[:4000], verbose=False)["input_ids"][:256]
    with torch.no_grad():
        wanted = smollm2.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    found = hidden_states(smollm2, None, 256, layer)
    assert found.shape == (256, 576)
    assert torch.equal(found, wanted[layer][0].float())


def test_a_real_encoder_by_its_name(minilm: Any) -> None:
    ids = cut_windows(minilm.tokenizer, read_text(None), 1, 128).ids(0, 128)
    with torch.no_grad():
        wanted = minilm.model(ids, output_hidden_states=True).hidden_states
    for layer in (0, 6):  # its layers end with their normalisation, so the last output is transformers' too
        # the same weights, loaded anew
        torch.testing.assert_close(hidden_states("minilm", None, 128, layer).cpu(), wanted[layer][0])


def test_sources() -> None:
    assert parse_source("smollm2:12") == LayerSource("smollm2", 12)
    assert parse_source("C:/models/a:b:0") == LayerSource("C:/models/a:b", 0)
    for bad in ("smollm2", "smollm2:", ":3", "smollm2:-1", "smollm2:1.5", "smollm2:last", "smollm2:²", ""):
        with pytest.raises(InputError, match=r"hidden states are named as MODEL:LAYER .* such as smollm2:12, got "):
            parse_source(bad)


def test_bad_input_is_refused(tiny: Callable[[str], Any]) -> None:
    model = loaded(tiny("llama"))
    for arguments, message in (
        (
            (model, TEXT, 20, 4),
            "layer must be at most 3 for tiny, got 4; 0 is its embeddings, 3 the output of its last",
        ),
        ((model, TEXT, 20, -1), "layer must be a whole number of at least 0, got -1"),
        ((model, TEXT, 1, 0), "n_tokens must be a whole number of at least 2, got 1"),
        ((model, TEXT, 257, 0), "n_tokens = 257 is beyond the 256 positions that tiny was trained for; use 256"),
        ((model, Text("note.txt", "few words"), 20, 0), "need a text of 19 tokens, note.txt has 9"),
        ((model, "missing.txt", 20, 0), "missing.txt: No such file"),
        (("./nothing", TEXT, 20, 0), "./nothing does not exist"),
    ):
        with pytest.raises(InputError, match=message) as raised:
            hidden_states(*arguments)  # type: ignore[arg-type]
        assert "\n" not in str(raised.value)
    with pytest.raises(InputError, match="window must be below n_windows = 2, got 2"):
        hidden_states(model, TEXT, 20, 0, window=2, n_windows=2)
    with pytest.raises(InputError, match="n_windows must be a whole number of at least 1"):
        hidden_states(model, TEXT, 20, 0, n_windows=0)


def test_hidden_states_with_nan_are_refused(tiny: Callable[[str], Any]) -> None:
    model = tiny("llama")
    with torch.no_grad():
        model.base_model.embed_tokens.weight[1] = float("nan")
    with pytest.raises(InputError, match="tiny: the hidden states at layer 1 hold NaN or infinity"):
        hidden_states(loaded(model), TEXT, 20, 1)


def test_a_model_whose_layers_are_not_in_a_list_is_refused() -> None:
    from transformers import CONFIG_MAPPING, AutoModel

    config = CONFIG_MAPPING["albert"](
        vocab_size=97, embedding_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=3,
        num_attention_heads=2,
    )  # fmt: skip
    with pytest.raises(InputError, match="no stack of 3 layers was found in AlbertModel"):
        hidden_states(loaded(AutoModel.from_config(config)), TEXT, 20, 0)
