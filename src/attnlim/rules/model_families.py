"""What each kind of model does with the scaling keys of its configuration, as a table.

The table holds where a family differs from a plain decoder: rotary positions on every layer, their cos and sin multiplied by
what the rope type gives, and nothing else. It is checked against the modeling code of the installed transformers by
``tests/rules/test_reading_families.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

# the version whose code the table tells; older ones differ, as DeepSeek-V2's softmax scale does, which 5.0 left at 1
TRANSFORMERS = "5.24"

Query = Literal["", "llama4", "ministral", "inkling", "beam", "learned", "logn", "grok"]
NoRotary = Literal["", "flags", "global", "global if windowed", "null", "all"]
Windows = Literal["given", "all", "last", "first", "qwen", "chunked", "smollm3"]
Layered = Literal["", "full", "both", "given"]


@dataclass(frozen=True)
class Family:
    """How one kind of model reads its configuration.

    Attributes:
        latent: multi-head latent attention: ``mscale_all_dim`` also multiplies the softmax scale.
        query: the rule on its query; empty for none.
        without_rotary: which layers have no rotary positions: those with a 0 in ``no_rope_layers`` ("flags"), those without a
            window ("global", or only where there are windows), those whose rope parameters are null, or all.
        windows: how windows follow from the keys where ``layer_types`` is not given; "last" and "first" say which layer of
            ``every`` sees the whole context.
        every: how many layers make up the pattern.
        every_key: the key that overrides it.
        layered: rope parameters by layer type: an old ``rope_scaling`` then goes to the layers without a window ("full"), to
            both kinds, or is not taken apart ("given").
        short_long: ``short_mscale`` and ``long_mscale`` take the place of what the rope type gives.
        longrope_names: other names of LongRoPE that it takes.
        applied_by: whose code is read, where it is not transformers.
        rope: the rope parameters of a config without any.
        defaults: values of keys that a config may leave out.
    """

    latent: bool = False
    query: Query = ""
    without_rotary: NoRotary = ""
    windows: Windows = "given"
    every: int = 0
    every_key: str = ""
    layered: Layered = ""
    short_long: bool = False
    longrope_names: tuple[str, ...] = ()
    applied_by: str = "transformers"
    rope: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


def _shape(
    layers: int, heads: int, hidden: int, positions: int, head: int | None = None, **more: Any
) -> dict[str, Any]:
    named = {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_size": hidden,
        "max_position_embeddings": positions,
    }
    return named | ({"head_dim": head} if head else {}) | more


def _latent(
    layers: int, heads: int, hidden: int, positions: int, plain: int, turned: int, **more: Any
) -> dict[str, Any]:
    return _shape(layers, heads, hidden, positions, qk_nope_head_dim=plain, qk_rope_head_dim=turned, **more)


_ALL = Family(windows="all")
_QWEN = Family(windows="qwen")
_NO_ROTARY = Family(without_rotary="all")
_MINISTRAL_ROPE = {
    "rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384, "mscale": 1.0, "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}  # fmt: skip

FAMILIES: dict[str, Family] = {
    "llama": Family(defaults=_shape(32, 32, 4096, 2048)),
    "mistral": replace(_ALL, defaults=_shape(32, 32, 4096, 131072, sliding_window=4096)),
    "mixtral": replace(_ALL, defaults=_shape(32, 32, 4096, 131072)),
    "starcoder2": replace(_ALL, defaults=_shape(30, 24, 3072, 4096)),
    "ministral": replace(_ALL, defaults=_shape(32, 32, 4096, 131072, sliding_window=4096)),
    "qwen2": replace(_QWEN, defaults=_shape(32, 32, 4096, 32768, sliding_window=4096, max_window_layers=28)),
    "qwen2_moe": replace(_QWEN, defaults=_shape(24, 16, 2048, 32768, sliding_window=4096, max_window_layers=28)),
    "qwen3": replace(_QWEN, defaults=_shape(32, 32, 4096, 32768, 128, sliding_window=4096, max_window_layers=28)),
    "qwen3_moe": Family(defaults=_shape(24, 32, 2048, 32768)),
    "phi3": Family(
        windows="all",
        longrope_names=("su", "yarn"),
        defaults=_shape(32, 32, 3072, 4096, original_max_position_embeddings=4096),
    ),
    "phimoe": Family(windows="all", short_long=True, defaults=_shape(32, 32, 4096, 131072)),
    "gpt_oss": Family(
        windows="last",
        every=2,
        rope={"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
        defaults=_shape(36, 64, 2880, 131072, 64, sliding_window=128),
    ),
    "gemma": Family(defaults=_shape(28, 16, 3072, 8192, 256)),
    "gemma2": Family(windows="last", every=2, defaults=_shape(26, 8, 2304, 8192, 256, sliding_window=4096)),
    "gemma3_text": Family(
        windows="last",
        every=6,
        every_key="sliding_window_pattern",
        layered="full",
        defaults=_shape(26, 8, 2304, 131072, 256, sliding_window=4096),
    ),
    "gemma3n_text": Family(
        windows="last", every=5, layered="full", defaults=_shape(35, 8, 2048, 32768, 256, sliding_window=512)
    ),
    "olmo3": Family(
        windows="last", every=4, layered="full", defaults=_shape(32, 32, 4096, 2048, sliding_window=4096)
    ),
    "modernbert": Family(
        windows="first",
        every=3,
        every_key="global_attn_every_n_layers",
        layered="both",
        defaults=_shape(22, 12, 768, 8192, local_attention=128),
    ),
    "modernbert-decoder": Family(
        windows="first",
        every=3,
        every_key="global_attn_every_n_layers",
        layered="both",
        defaults=_shape(22, 12, 768, 8192, local_attention=128),
    ),
    "smollm3": Family(
        without_rotary="flags",
        windows="smollm3",
        defaults=_shape(36, 16, 2048, 32768, no_rope_layer_interval=4),
    ),
    "cohere2": Family(
        without_rotary="global",
        windows="last",
        every=4,
        every_key="sliding_window_pattern",
        defaults=_shape(40, 64, 8192, 8192, sliding_window=4096),
    ),
    "afmoe": Family(
        without_rotary="global",
        windows="last",
        every=4,
        every_key="global_attn_every_n_layers",
        defaults=_shape(32, 16, 2048, 16384, 128, sliding_window=1024),
    ),
    "exaone4": Family(
        without_rotary="global if windowed",
        windows="last",
        every=4,
        every_key="sliding_window_pattern",
        defaults=_shape(32, 32, 4096, 2048, sliding_window=4096),
    ),
    "exaone_moe": Family(
        without_rotary="global if windowed",
        windows="last",
        every=4,
        every_key="sliding_window_pattern",
        defaults=_shape(32, 32, 4096, 2048, sliding_window=4096),
    ),
    "kolibri1": Family(
        without_rotary="global if windowed",
        windows="last",
        every=5,
        defaults=_shape(50, 48, 2560, 262144, 128, sliding_window=513),
    ),
    "llama4_text": Family(
        query="llama4",
        without_rotary="flags",
        windows="chunked",
        defaults=_shape(
            48, 40, 5120, 131072, 128, no_rope_layer_interval=4, attention_chunk_size=8192, floor_scale=8192,
            attn_scale=0.1, attn_temperature_tuning=True,
        ),
    ),
    "ministral3": Family(
        query="ministral", windows="all", rope=_MINISTRAL_ROPE, defaults=_shape(34, 32, 4096, 262144, 128)
    ),
    "mistral4": Family(
        query="ministral",
        latent=True,
        rope=_MINISTRAL_ROPE | {"factor": 128.0, "original_max_position_embeddings": 8192},
        defaults=_latent(36, 32, 4096, 1048576, 64, 64),
    ),
    "mistral_large4_text": Family(
        query="learned",
        latent=True,
        without_rotary="flags",
        rope={
            "rope_type": "yarn", "factor": 2048.0, "original_max_position_embeddings": 512, "attention_factor": 1.0,
        },
        defaults=_latent(72, 64, 6144, 1048576, 64, 64, no_rope_layer_interval=4),
    ),
    "inkling_text": Family(
        query="inkling",
        without_rotary="all",
        windows="last",
        every=6,
        defaults=_shape(66, 64, 6144, 131072, 128, sliding_window_size=512, log_scaling_alpha=0.1),
    ),
    "inkling2_text": Family(
        query="inkling",
        without_rotary="all",
        windows="last",
        every=6,
        defaults=_shape(
            48, 48, 4608, 1048576, 128, sliding_window=1024, log_scaling_n_floor=128000, log_scaling_alpha=0.1
        ),
    ),
    "inkling2_loop_text": Family(
        query="inkling",
        without_rotary="all",
        windows="last",
        every=6,
        defaults=_shape(24, 24, 2304, 1048576, 128, sliding_window=1024, log_scaling_n_floor=8192, log_scaling_alpha=0.1),
    ),
    "beam": Family(
        query="beam",
        without_rotary="null",
        windows="last",
        every=6,
        layered="given",
        rope={"sliding_attention": {"rope_type": "default"}, "full_attention": None},
        defaults=_shape(52, 48, 5120, 8192, 128, sliding_window=512),
    ),
    "deepseek_v2": Family(latent=True, defaults=_latent(32, 32, 4096, 2048, 128, 64)),
    "deepseek_v3": Family(latent=True, defaults=_latent(61, 128, 7168, 4096, 128, 64)),
    "deepseek_v32": Family(latent=True, defaults=_latent(61, 128, 7168, 163840, 128, 64)),
    "minicpm3": Family(latent=True, defaults=_latent(62, 40, 2560, 32768, 64, 32)),
    "youtu": Family(latent=True, defaults=_latent(32, 16, 2048, 131072, 128, 64)),
    "longcat_flash": Family(latent=True, defaults=_latent(56, 64, 6144, 131072, 128, 64)),
    "glm4_moe_lite": Family(latent=True, defaults=_latent(47, 20, 2048, 202752, 192, 64)),
    "glm_moe_dsa": Family(latent=True, defaults=_latent(78, 64, 6144, 202752, 192, 64)),
    "axk1": Family(latent=True, defaults=_latent(61, 64, 7168, 32768, 128, 64)),
    "axk2": Family(latent=True, defaults=_latent(48, 32, 2048, 131072, 64, 32)),
    "hy_v4": Family(latent=True, defaults=_latent(34, 32, 2816, 262144, 192, 64)),
    "hy_v4_vl_text": Family(latent=True, defaults=_latent(78, 64, 6144, 262144, 192, 64)),
    "bailing_hybrid": Family(latent=True, defaults=_latent(42, 32, 2560, 262144, 128, 64, layer_group_size=6)),
    "glm": Family(defaults=_shape(40, 32, 4096, 131072, 128, partial_rotary_factor=0.5)),
    "glm4": Family(defaults=_shape(40, 32, 4096, 131072, 128, partial_rotary_factor=0.5)),
    "glm4_moe": Family(defaults=_shape(46, 96, 4096, 131072, partial_rotary_factor=0.5)),
    "phi": Family(defaults=_shape(24, 32, 2048, 2048, partial_rotary_factor=0.5)),
    "stablelm": Family(defaults=_shape(32, 32, 2560, 4096, partial_rotary_factor=0.25)),
    "persimmon": Family(defaults=_shape(36, 64, 4096, 16384, partial_rotary_factor=0.5)),
    "nemotron": Family(defaults=_shape(32, 48, 6144, 4096, 128, partial_rotary_factor=0.5)),
    "gpt_neox": Family(defaults=_shape(44, 64, 6144, 2048, partial_rotary_factor=0.25)),
    # not in transformers: read as the code that came with the weights, or that serves them, applies them
    "qwen": Family(
        query="logn",
        applied_by="the code that came with Qwen-1",
        defaults=_shape(32, 32, 4096, 8192, seq_length=8192, use_logn_attn=True),
    ),
    "grok-2": Family(
        query="grok", applied_by="SGLang", defaults=_shape(64, 64, 8192, 131072, 128, attn_temperature_len=-1)
    ),
    "kimi_k2": Family(
        latent=True,
        applied_by="the code that came with Kimi K2, which is DeepSeek-V3's",
        defaults=_latent(61, 128, 7168, 4096, 128, 64),
    ),
    "swan": Family(applied_by="nobody that we could check"),
    **dict.fromkeys(
        (
            "albert", "bart", "bert", "bloom", "camembert", "codegen", "deberta", "deberta-v2", "distilbert", "electra",
            "gpt2", "gpt_bigcode", "gpt_neo", "gptj", "jamba", "mamba", "mamba2", "mpnet", "mpt", "mt5", "openai-gpt", "opt",
            "roberta", "rwkv", "t5", "umt5", "xglm", "xlm-roberta",
        ),
        _NO_ROTARY,
    ),
}  # fmt: skip

# others that read their configuration as a plain decoder does
PLAIN = frozenset(
    {
        "apertus", "arcee", "bitnet", "cohere", "dbrx", "diffllama", "dots1", "ernie4_5", "ernie4_5_moe",
        "eurobert", "falcon", "flex_olmo", "granite", "granitemoe", "granitemoeshared", "helium",
        "hunyuan_v1_dense", "hunyuan_v1_moe", "hyperclovax", "jais2", "jetmoe", "laguna", "mellum", "minimax",
        "minimax_m2", "mllama_text_model", "moshi", "nanochat", "olmo", "olmo2", "olmoe", "qwen2_vl_text",
        "qwen2_5_vl_text", "qwen3_5_text", "qwen3_next", "qwen3_vl_text", "seed_oss", "solar_open",
        "vaultgemma",
    }
)  # fmt: skip

# a configuration of several models names its language model in text_config, perhaps without saying of which kind
TEXT_MODEL_OF = {
    "gemma3": "gemma3_text", "gemma3n": "gemma3n_text", "inkling_mm_model": "inkling_text", "kimi_k25": "deepseek_v3",
    "llama4": "llama4_text",
    "llava": "llama", "mistral3": "mistral", "mistral_large4": "mistral_large4_text", "mllama": "mllama_text_model",
    "qwen2_5_vl": "qwen2_5_vl_text", "qwen2_vl": "qwen2_vl_text", "qwen3_vl": "qwen3_vl_text", "qwen3_5": "qwen3_5_text",
}  # fmt: skip
# what transformers takes the language model of a whole for, whatever it calls itself
TEXT_MODEL_AS = {("kimi_k25", "kimi_k2"): "deepseek_v3"}


def family_of(model_type: str) -> Family:
    """The entry for a model type; a plain decoder for one that is not in the table."""
    return FAMILIES.get(model_type, _ALL)


def is_known(model_type: str) -> bool:
    """Whether the table says how that kind reads its configuration."""
    return model_type in FAMILIES or model_type in PLAIN
