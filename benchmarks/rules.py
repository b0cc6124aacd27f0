"""An attached rule against the plain forward of the same tokens: time in alternation, while reading and while decoding.

Run with `make bench` or `python -m benchmarks.rules [--context 4096] [--rounds 9]`. Ratios of single rounds scatter where other
programs share the processor, so the rule's own part of a forward is timed as well, from inside; `--shares` does that alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from attnlim.models import cut_windows, load, read_text
from attnlim.rules import Rule, attach, critical, detach, logn, ssmax
from attnlim.rules.attaching import layer_rules
from benchmarks.machine import write

# read, then decoded one by one after a prompt of as many
N_DECODED, N_PROMPT = 32, 256


def rules(shape: tuple[int, int], context: int) -> dict[str, Rule]:
    """One factor for all heads and layers; one exponent a layer and head; one learned scale a head. All act at ``context``."""
    exponents = torch.linspace(0.2, 1.0, shape[0] * shape[1]).reshape(shape).numpy()
    return {"logn": logn(context // 4), "critical": critical(context // 4, exponents), "ssmax": ssmax()}


def reading(model: Any, ids: torch.Tensor, padded: bool) -> Callable[[], None]:
    """A forward of all tokens; with padding the model needs a mask of n × n, whose rows the rule counts."""
    mask = torch.ones_like(ids)
    mask[:, : ids.shape[1] // 8] = 0 if padded else 1

    def run() -> None:
        with torch.inference_mode():
            model(input_ids=ids, attention_mask=mask, use_cache=False)

    return run


def decoding(model: Any, ids: torch.Tensor) -> Callable[[], None]:
    """Greedy decoding after a short prompt."""
    prompt = ids[:, :N_PROMPT]

    def run() -> None:
        model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=N_DECODED,
            min_new_tokens=N_DECODED,
            do_sample=False,
            pad_token_id=0,
        )

    return run


def alternated(model: Any, rule: Rule, run: Callable[[], None], rounds: int) -> dict[str, Any]:
    """Wall and processor seconds without and with the rule in turn; who goes first changes with the round."""
    found: dict[str, list[tuple[float, float]]] = {"plain": [], "rule": []}
    run()
    for turn in range(rounds):
        for kind in ("plain", "rule") if turn % 2 == 0 else ("rule", "plain"):
            if kind == "rule":
                attach(model, rule)
            start = time.perf_counter(), time.process_time()
            run()
            found[kind].append((time.perf_counter() - start[0], time.process_time() - start[1]))
            if kind == "rule":
                detach(model)
    pairs = list(zip(found["plain"], found["rule"], strict=True))
    wall, processor = ([with_it[i] / without[i] for without, with_it in pairs] for i in (0, 1))
    return {
        "plain_seconds": [seconds for seconds, _ in found["plain"]],
        "rule_seconds": [seconds for seconds, _ in found["rule"]],
        "wall_ratios": wall,
        "processor_ratios": processor,
        "median_wall_ratio": median(wall),
        "median_processor_ratio": median(processor),
    }


def own_shares(model: Any, rule: Rule, run: Callable[[], None], rounds: int) -> list[float]:
    """Seconds inside the rule's modules over all seconds of the same run, one a round."""
    spent = [0.0]

    def begin(module: Any, arguments: Any) -> None:
        spent[0] -= time.perf_counter()

    def end(module: Any, arguments: Any, result: Any) -> None:
        spent[0] += time.perf_counter()

    attach(model, rule)
    for layer in layer_rules(model):
        layer.register_forward_pre_hook(begin)
        layer.register_forward_hook(end)
    found = []
    for _ in range(rounds):
        spent[0], start = 0.0, time.perf_counter()
        run()
        found.append(spent[0] / (time.perf_counter() - start))
    detach(model)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--shares", action="store_true", help="only the rule's own part, from inside")
    given = parser.parse_args()
    loaded = load("smollm2", device="cpu", head=True)
    model = loaded.model
    model.generation_config.eos_token_id = None
    ids = cut_windows(loaded.tokenizer, read_text(), 1, given.context).ids(0, given.context)
    shape = (model.config.num_hidden_layers, model.config.num_attention_heads)
    about: dict[str, Any] = {
        "model": "SmolLM2-135M-Instruct (4-bit weights, dequantised)",
        "context": given.context,
        "rounds": given.rounds,
        "decoded": N_DECODED,
        "prompt": N_PROMPT,
    }
    backbone = model.base_model
    modes = {"reading": (backbone, reading(backbone, ids, padded=False)), "decoding": (model, decoding(model, ids))}
    padded = reading(backbone, ids, padded=True)
    every = rules(shape, given.context)
    if not given.shares:
        figures = {
            name: {mode: alternated(part, rule, run, given.rounds) for mode, (part, run) in modes.items()}
            for name, rule in every.items()
        }
        figures["logn"]["reading padded"] = alternated(backbone, every["logn"], padded, given.rounds)
        write("rules", {**about, **figures})
    shares = {
        name: {mode: own_shares(part, rule, run, given.rounds) for mode, (part, run) in modes.items()}
        for name, rule in every.items()
    }
    shares["logn"]["reading padded"] = own_shares(backbone, every["logn"], padded, given.rounds)
    write("rules_shares", {**about, **shares})


if __name__ == "__main__":
    main()
