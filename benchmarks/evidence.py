"""What finished comparisons of `attnlim rescale` and the sweep of one multiplier say about the predictions, and what heads would rather be.

`python -m benchmarks.evidence RUN [RUN ...]` keeps what the page docs/evidence.md needs of the run folders as
benchmarks/results/rescale.json, in that order, `--again NAME RUN` of one of them once more, in another precision or on another
processor, as rescale_NAME.json, and `--audit RUN` of a run of `attnlim audit --sensitivity` as sensitivity.json; without any it
only puts the page's tables anew.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from attnlim.audit.wish_wording import sum_of_sizes, wish_counts
from attnlim.core.intervals import jackknife_mean
from attnlim.core.ranks import rank_correlation
from attnlim.core.runs import open_run
from attnlim.rules.rescale_dataset import BEYOND, WITHIN, pair
from attnlim.rules.rescale_words import rivals
from benchmarks.evidence_tables import again_table, multiplier_tables, rules_tables, wishes_table
from benchmarks.judging import Part, rank_interval, vertex
from benchmarks.machine import RESULTS, write
from benchmarks.pages import filled

PAGE = Path(__file__).parents[1] / "docs" / "evidence.md"
COMMAND = "benchmarks.evidence"
# what is no fixed rule; one slope for all heads was added after the predictions, which do not speak of it
NOT_FIXED = ("raw", "none", "slope", "calibrated")

Figures = dict[str, Any]


def condensed(data: xr.Dataset, record: Mapping[str, Any]) -> Figures:
    """One comparison as plain numbers; an interval is [estimate, low, high]."""
    names = data["variant"].values.tolist()
    about = data.attrs
    kept = (
        "model", "model_note", "trained_length", "target", "texts", "texts_sha256", "windows", "seed", "per", "block",
        "recommended", "begun", "constant", "shared_slope", "dtype", "device",
    )  # fmt: skip
    told: Figures = {name: _plain(about[name]) for name in kept if name in about}
    told |= {
        "verdict": about["verdict"].split("\n"),
        "taken": json.loads(about["taken"]),
        "seconds": record["seconds"],
        "peak_memory_bytes": record.get("peak_memory_bytes"),
        "variants": [_variant(data, name) for name in names],
        "buckets": data["bucket"].values.tolist(),
        "needles": data.sizes["needle"],
        "tried": dict(zip(data["tried_name"].values.tolist(), data["tried_loss"].values.tolist(), strict=True)),
        "pairs": {
            f"{name} − {base}": _interval(pair(data, name, base, BEYOND))
            for name, base in [
                *(("calibrated", other) for other in rivals(names)),
                ("critical", "qwen"),
            ]
            if name in names
        },
    }
    if "slope" in data:
        slope, first = data["slope"].values, data["direction"].isel(round=0).values
        assert np.isfinite(first).all()  # of SmolLM2 every head has a derivative
        told["slope"] = {
            "by_head": slope.round(4).tolist(), "least": float(slope.min()), "mean": float(slope.mean()), "largest": float(slope.max()),
            "negative": int((slope < 0).sum()), "sharper": int((first < 0).sum()), "softer": int((first > 0).sum()),
            "towards_layer": data["towards_layer"].values.tolist(), "towards_model": data["towards_model"].values.tolist(),
        }  # fmt: skip
        for name in ("kappa", "critical_multiplier", "critical_exponent"):
            if f"audit_{name}" in data:
                told["slope"][f"rank_with_{name}"] = rank_correlation(slope, data[f"audit_{name}"].values)
    return told


def _variant(data: xr.Dataset, name: str) -> Figures:
    at = data.sel(variant=name)
    beyond, within = at.sel(bucket=BEYOND), at.sel(bucket=WITHIN)
    company = data["needle_company"].values
    return {
        "name": name,
        "words": str(at["words"].item()),
        "loss": float(beyond["bucket_nll"]),
        "loss_within": float(within["bucket_nll"]),
        "against_none": [float(beyond[f"difference{end}"]) for end in ("", "_low", "_high")],
        "se_against_none": float(beyond["difference_se"]),
        "within_against_none": [float(within[f"difference{end}"]) for end in ("", "_low", "_high")],
        "within_against_raw": [float(within[f"difference_raw{end}"]) for end in ("", "_low", "_high")],
        "by_bucket": [[float(value) for value in at[f"difference{end}"].values] for end in ("", "_low", "_high")],
        "loss_by_bucket": [float(value) for value in at["bucket_nll"].values],
        "found": {
            kind: int(at["needle_found"].values[company == kind].sum()) for kind in dict.fromkeys(company.tolist())
        },
        "factor_quartiles": np.quantile(at["multiplier"].values, [0.25, 0.5, 0.75]).tolist(),
        "needle_loss": float(at["needle_nll"].mean()),
        "needle_against_none": [float(at[f"needle_difference{end}"]) for end in ("", "_low", "_high")],
    }


def _plain(value: Any) -> Any:
    return np.asarray(value).tolist()


def _interval(found: Any) -> list[float]:
    return [float(found.estimate), float(found.low), float(found.high)]


def wished(data: xr.Dataset, record: Mapping[str, Any]) -> Figures:
    """An audit's sensitivities as plain numbers, one entry a context."""
    contexts = []
    for n in data["context"].values.tolist():
        at = data.sel(context=n)
        each, (apart, by_chance) = at["sensitivity"], sum_of_sizes(at)
        contexts.append(
            {
                "n_tokens": n,
                **wish_counts(data, n),
                "by_chance": 0.05 * int(each.notnull().sum()),
                "together": [float(at[f"sensitivity_total{end}"]) for end in ("", "_low", "_high")],
                "apart": apart,
                "apart_by_chance": by_chance,
                "rank_with_kappa": rank_correlation(each, at["kappa"]),
                "rank_with_b_c": rank_correlation(each, at["critical_multiplier"]),
            }
        )
    about = {name: _plain(data.attrs[name]) for name in ("model", "model_note", "text", "text_sha256", "n_windows")}
    return {**about, "seconds": record["seconds"], "contexts": contexts}


def judged_rules(runs: Sequence[Figures]) -> dict[str, list[Part]]:
    """The parts of every prediction of ``predictions.RULES``, one a run; targets are compared on the same texts."""
    found: dict[str, list[Part]] = {}
    for run in runs:
        for name, part in _one_run(run).items():
            found.setdefault(name, []).append(part)
    for run in runs:
        for longer in runs:
            if longer["texts"] == run["texts"] and longer["target"] > run["target"]:
                for name, part in _longer(run, longer).items():
                    found.setdefault(name, []).append(part)
    return found


def _longer(run: Figures, longer: Figures) -> dict[str, Part]:
    """What is predicted of one target against another."""
    short, long = _best_fixed(run), _best_fixed(longer)
    more = short["against_none"][0] - long["against_none"][0]
    error = 1.96 * float(np.hypot(short["se_against_none"], long["se_against_none"]))
    constants = longer["constant"] - run["constant"]
    where = f"{longer['target']} less {run['target']}"
    return {
        "fixed-rules-help-little": Part(f"gain at {where}", more, more - error, more + error, 0.0),
        "constant-grows": Part(where, constants, constants, constants, 0.0),
    }


def place(run: Figures) -> str:
    """The target and the text that a run was tested on."""
    return f"{run['target']} tokens of {run['texts'][-1]}"


def _one_run(run: Figures) -> dict[str, Part]:
    of = {variant["name"]: variant for variant in run["variants"]}
    where, slope = place(run), run["slope"]
    fixed = [f"calibrated − {one['name']}" for one in run["variants"] if one["name"] not in NOT_FIXED]
    calibrated = max((run["pairs"][name] for name in fixed), key=lambda value: value[0])
    gain = [-value for value in _best_fixed(run)["against_none"]]
    share = slope["sharper"] / (slope["sharper"] + slope["softer"])
    rank = slope["rank_with_kappa"]
    rank_ends = rank_interval(rank, slope["sharper"] + slope["softer"])
    return {
        "stretching-needed": Part(where, *of["raw"]["against_none"], 0.0),
        "fixed-rules-help-little": Part(f"gain at {where}", gain[0], gain[2], gain[1], -np.inf, 0.05 if run["target"] == 2 * run["trained_length"] else np.inf),
        "calibrated-wins": Part(f"{where}, against the closest", *calibrated, -np.inf, 0.0),
        "critical-is-not-better": _not_better(where, run["pairs"]["critical − qwen"]),
        "below-the-length": Part(where, *of["ssmax"]["within_against_none"], 0.0),
        "more-sharper-than-softer": Part(f"share at {where}, from {run['begun']}", share, share, share, 0.5, 0.75),
        "phase-does-not-say": Part(where, rank, *rank_ends, -0.3, 0.3),
        "needles": Part(where, *of["calibrated"]["needle_against_none"], -np.inf, 0.0),
    }  # fmt: skip


def _not_better(where: str, apart: Sequence[float]) -> Part:
    """Confirmed unless the whole interval is below 0."""
    estimate, low, high = apart
    return Part(where, estimate, low, high, *((low, high) if high >= 0 else (0.0, np.inf)))


def _best_fixed(run: Figures) -> Figures:
    fixed: list[Figures] = [variant for variant in run["variants"] if variant["name"] not in NOT_FIXED]
    return min(fixed, key=lambda variant: float(variant["loss"]))


def judged_multiplier(figures: Figures) -> dict[str, list[Part]]:
    """The parts of every prediction of ``predictions.MULTIPLIER``; windows are the units."""
    points = {(point["n_tokens"], point["b"]): point for point in figures["points"]}
    contexts, multipliers = (sorted({key[i] for key in points}) for i in (0, 1))

    def windows(quantity: str, n: int, b: float) -> NDArray[np.float64]:
        return np.array(points[n, b][quantity]["windows"])

    def added(n: int, b: float) -> NDArray[np.float64]:
        return windows("nll", n, b) - windows("nll", n, 1.0)

    first, last = contexts[0], contexts[-1]
    both = f"{last} less {first}"
    found = {
        "trained-optimum": [
            _part(str(n), [_best(multipliers, losses) for losses in zip(*(windows("nll", n, b) for b in multipliers), strict=True)], 0.85, 1.15)
            for n in contexts
        ],
        "blunt-hurts-more-with-n": [_part(both, added(last, 0.7) - added(first, 0.7), 0.0)],
        "sharp-hurts-less-with-n": [_part(both, added(last, 1.35) - added(first, 1.35), high=0.0)],
        "tokens-attended-fall": [
            _part(
                f"largest step at {n}",
                max(
                    (windows("median_tokens", n, b) - windows("median_tokens", n, a) for a, b in itertools.pairwise(multipliers)),
                    key=np.mean,
                ),
                high=0.0,
            )
            for n in contexts
        ],
    }  # fmt: skip
    for name, quantity, low, high in (
        ("gradient-rises", "eta_attention", 0.0, np.inf),
        ("cosine-falls", "rho_middle", -np.inf, 0.0),
    ):
        found[name] = [
            _part(str(n), windows(quantity, n, 2.0) - windows(quantity, n, 0.5), low, high) for n in contexts
        ]
    return found


def _best(multipliers: Sequence[float], losses: Sequence[float]) -> float:
    return float(np.exp(vertex(np.log(multipliers), np.array(losses))[0]))


def _part(where: str, units: ArrayLike, low: float = -np.inf, high: float = np.inf) -> Part:
    interval = jackknife_mean(np.asarray(units, dtype=np.float64))
    return Part(where, float(interval.estimate), float(interval.low), float(interval.high), low, high)


def kept_tables() -> dict[str, str]:
    """The page's tables, of the results that there are."""
    tables: dict[str, str] = {}
    if (multiplier := kept("multiplier")) is not None:
        tables |= multiplier_tables(multiplier, judged_multiplier(multiplier))
    if (sensitivity := kept("sensitivity")) is not None:
        tables["wishes"] = wishes_table(sensitivity)
    if (rescaled := kept("rescale")) is not None:
        tables |= rules_tables(rescaled["runs"], judged_rules(rescaled["runs"]))
        if again := once_more(rescaled["runs"]):
            tables["once more"] = again_table(again)
    return tables


def once_more(runs: Sequence[Figures]) -> dict[str, Figures]:
    """The run that was run more than once and then its repetitions, by precision and processor; empty without any."""
    again = [_result(path) for path in sorted(RESULTS.glob("rescale_*.json"))]
    if not again:
        return {}
    one = again[0]["figures"]
    first = next(run for run in runs if (run["texts_sha256"], run["target"]) == (one["texts_sha256"], one["target"]))
    first_machine = _result(RESULTS / "rescale.json")["machine"]
    return {
        f"{result['figures']['dtype']}, {_processor(result['machine'])}": result["figures"]
        for result in ({"figures": first, "machine": first_machine}, *again)
    }


def _processor(machine: Figures) -> str:
    """Without the marks of its maker."""
    return " ".join(machine["processor"].replace("(R)", "").replace("Processor", "").split())


def kept(name: str) -> Figures | None:
    """The figures of one result file; None where it was not measured."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return None
    found: Figures = _result(path)["figures"]
    return found


def _result(path: Path) -> Figures:
    found: Figures = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--again", nargs=2, metavar=("NAME", "RUN"), help="one of the runs once more")
    parser.add_argument("--audit", type=Path)
    given = parser.parse_args()
    if given.runs:
        runs = [condensed(*open_run(folder)) for folder in given.runs]
        for folder, run in zip(given.runs, runs, strict=True):
            if "rank_with_kappa" not in run.get("slope", {}):
                parser.error(f"{folder} must be a run with --rule calibrate and --audit; predictions speak of both")
        write("rescale", {"runs": runs})
    if given.again:
        name, folder = given.again
        write(f"rescale_{name}", condensed(*open_run(Path(folder))))
    if given.audit:
        write("sensitivity", wished(*open_run(given.audit)))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), COMMAND, kept_tables()), encoding="utf-8")


if __name__ == "__main__":
    main()
