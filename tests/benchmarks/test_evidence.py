"""The evidence of docs/evidence.md: predictions are judged by what finished runs hold, and tables come from kept figures."""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.evidence import (
    COMMAND,
    PAGE,
    condensed,
    judged_multiplier,
    judged_rules,
    kept,
    kept_tables,
    wished,
)
from benchmarks.evidence_tables import (
    again_table,
    half_weight_table,
    interval,
    multiplier_tables,
    rules_tables,
    wishes_table,
)
from benchmarks.judging import Part, together
from benchmarks.pages import filled
from benchmarks.predictions import MULTIPLIER, RULES
from benchmarks.windows import ANSWER
from tests.audit.test_wish_wording import move, wishing
from tests.report.synthetic_rescale import rescale_dataset
from tests.script_modules import script_module

from attnlim.core.ranks import rank_correlation
from attnlim.rules.rescale_dataset import BEYOND, pair
from attnlim.rules.rescale_words import rivals
from benchmarks import multiplier as sweep

ROOT = Path(__file__).parents[2]
CONTEXTS, MULTIPLIERS = (512, 2048, 8192), (0.5, 0.7, 0.85, 1.0, 1.15, 1.35, 1.6, 2.0)


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    """Two targets, as they come back from JSON."""
    made = [condensed(rescale_dataset(stretch=stretch), {"seconds": 60.0}) for stretch in (2, 4)]
    found: list[dict[str, Any]] = json.loads(json.dumps(made))
    for run in found:
        run["constant"] = 1.1
    return found


def made_up_cells() -> dict[tuple[int, float, int], dict[str, np.ndarray]]:
    """Losses are parabolas in ln b around 1.1, steeper with n on the soft side; the rest are powers of b."""
    found = {}
    for n in CONTEXTS:
        for b in MULTIPLIERS:
            for w in range(sweep.N_WINDOWS):
                x = math.log(b / 1.1)
                nll = 3 + 0.1 * w + x * x * (1 + 0.1 * math.log(n) if x < 0 else 1 - 0.05 * math.log(n))
                heads = np.linspace(0.2, 0.9, 6).reshape(2, 3)
                found[n, b, w] = {
                    "nll": np.array(nll), "nll_late": np.array(nll), "perplexity": np.full((2, 3), n**0.8 * b**-1.5 * (1 + 0.01 * w)),
                    "largest_weight": np.minimum(1.0, heads * b), "critical_multiplier": np.full((2, 3), 1.3),
                    "sink_mass": np.full((2, 3), 0.4), "rho": np.array([0.3, 0.5 / b + 0.01 * w, 0.4]),
                    "eta_block": np.full(4, 1 + 0.1 * b), "eta_attention": np.full(4, 0.5 * b + 0.01 * w),
                }  # fmt: skip
    return found


@pytest.fixture(scope="module")
def multiplier() -> dict[str, Any]:
    """What ``benchmarks.multiplier`` keeps, of made-up cells."""
    cells = made_up_cells()
    figures = {
        "model": "toy", "windows": sweep.N_WINDOWS,
        "points": [sweep.point(cells, n, b) for n in CONTEXTS for b in MULTIPLIERS],
        "half_weight": [sweep.half_weight(cells, n, MULTIPLIERS) for n in CONTEXTS],
    }  # fmt: skip
    found: dict[str, Any] = json.loads(json.dumps(figures))
    return found


def test_every_prediction_is_judged(runs: list[dict[str, Any]], multiplier: dict[str, Any]) -> None:
    assert set(judged_rules(runs)) == {one.name for one in RULES}
    assert set(judged_multiplier(multiplier)) == {one.name for one in MULTIPLIER}


def test_rules_are_judged_by_their_paired_differences(runs: list[dict[str, Any]]) -> None:
    parts = judged_rules(runs)
    words = {name: together(found) for name, found in parts.items()}
    # the made-up effects: raw 3 nats worse, ssmax .4 worse within, calibrated .05 better than all, needles .6 nats cheaper
    sure = ("stretching-needed", "below-the-length", "calibrated-wins", "needles")
    assert [words[name] for name in sure] == ["confirmed"] * len(sure)
    raw = next(part for part in parts["stretching-needed"] if part.where.startswith("256 "))
    assert raw.estimate == pytest.approx(3.0, abs=0.02) and raw.low < raw.estimate < raw.high
    data = rescale_dataset(stretch=4)
    fixed = [name for name in data["variant"].values.tolist() if name not in ("raw", "none", "slope", "calibrated")]
    closest = max(float(pair(data, "calibrated", name, BEYOND).estimate) for name in fixed)
    assert parts["calibrated-wins"][-1].estimate == pytest.approx(closest)
    gains = [-min(one["against_none"][0] for one in run["variants"] if one["name"] in fixed) for run in runs]
    assert parts["fixed-rules-help-little"][-1].estimate == pytest.approx(gains[1] - gains[0])
    assert words["constant-grows"] == "confirmed"  # the same constant at both
    sharper = int((data["direction"].isel(round=0) < 0).sum())
    assert parts["more-sharper-than-softer"][-1].estimate == pytest.approx(
        sharper / data["direction"].isel(round=0).size
    )


def test_a_rule_that_is_better_contradicts_not_better(runs: list[dict[str, Any]]) -> None:
    changed = json.loads(json.dumps(runs))
    assert together(judged_rules(changed)["critical-is-not-better"]) == "confirmed"
    changed[0]["pairs"]["critical − qwen"] = [-0.02, -0.03, -0.01]
    assert together(judged_rules(changed)["critical-is-not-better"]) == "contradicted"


def test_one_multiplier_is_judged_over_windows(multiplier: dict[str, Any]) -> None:
    parts = judged_multiplier(multiplier)
    assert {name: together(found) for name, found in parts.items()} == {one.name: "confirmed" for one in MULTIPLIER}
    assert all(0.85 < part.estimate < 1.15 for part in parts["trained-optimum"])
    softer = [
        math.log(0.7 / 1.1) ** 2 * (1 + 0.1 * math.log(n)) - math.log(1 / 1.1) ** 2 * (1 + 0.1 * math.log(n))
        for n in (512, 8192)
    ]
    assert parts["blunt-hurts-more-with-n"][0].estimate == pytest.approx(softer[1] - softer[0])
    step = max(8192**0.8 * (b**-1.5 - a**-1.5) for a, b in itertools.pairwise(MULTIPLIERS))
    assert parts["tokens-attended-fall"][-1].estimate == pytest.approx(step * 1.015)


def test_half_weight_is_between_multipliers(multiplier: dict[str, Any]) -> None:
    found = multiplier["half_weight"][0]
    # largest weights .2 … .9 at b = 1, proportional to b: half-weight at b = .5/weight
    places = 0.5 / np.linspace(0.2, 0.9, 6)
    assert found["heads"] == 6 and found["below_range"] == 0
    assert found["above_range"] == int((places > 2).sum())
    assert found["median"] == pytest.approx(np.median(places), rel=1e-6)  # linear in b: the interpolation is exact
    assert f"{found['median']:.2f} |" in half_weight_table(multiplier)


def test_heads_below_the_range_rank_first() -> None:
    cells = made_up_cells()
    for (n, b, w), found in cells.items():
        # of four heads two have half their weight on one key at every multiplier, two never
        weights = np.array([[0.9, 0.9], [0.1, 0.1 * b]])
        cells[n, b, w] = {**found, "largest_weight": weights}
    found = sweep.half_weight(cells, 512, MULTIPLIERS)
    assert (found["below_range"], found["above_range"], found["median"]) == (2, 2, None)
    cells = {key: {**one, "largest_weight": np.array([[0.9, 0.4 * key[1]]])} for key, one in cells.items()}
    assert sweep.half_weight(cells, 512, MULTIPLIERS)["median"] is None  # one is below the range, whatever the other


def test_tables_hold_every_variant(runs: list[dict[str, Any]], multiplier: dict[str, Any]) -> None:
    tables = rules_tables(runs, judged_rules(runs))
    names = [one["name"] for one in runs[0]["variants"]]
    for title, base in (("beyond the trained length", "none"), ("within the trained length", "raw")):
        first, *others = [line.strip("| ").split(" | ") for line in tables[title].splitlines()[2:]]
        assert first[0] == f"*{base} itself*" and {row[0] for row in others} == set(names) - {base}
        assert all(len(row) == 1 + len(runs) for row in (first, *others))
    of = {one["name"]: one for one in runs[1]["variants"]}
    assert (
        f"| *none itself* | {runs[0]['variants'][1]['loss']:.4f} | {of['none']['loss']:.4f} |"
        in tables["beyond the trained length"]
    )
    assert (
        tables["within the trained length"]
        .splitlines()[-1]
        .endswith(f"| {interval(*of[names[-1]]['within_against_raw'])} |")
    )
    needles = [line.strip("| ").split(" | ") for line in tables["needles"].splitlines()[2:]]
    assert [row[0] for row in needles] == names
    assert needles[-1][2] == "{}, {}; ".format(*of[names[-1]]["found"].values()) + interval(
        *of[names[-1]]["needle_against_none"]
    )
    assert len(tables["predictions of rules"].splitlines()) == 2 + len(RULES)
    again = {**json.loads(json.dumps(runs[0])), "dtype": "bfloat16"}
    again["variants"] = again["variants"][:3]
    again["variants"][2]["against_none"] = [-0.5, -0.75, -0.25]
    table = again_table({"float32": runs[0], "bfloat16": again}).splitlines()
    assert table[0] == "| nats a token less none | float32 | bfloat16 |" and len(table) == 1 + len(names)
    assert table[3] == f"| yarn | {interval(*runs[0]['variants'][2]['against_none'])} | −0.500 (−0.750 to −0.250) |"
    assert table[4] == f"| longrope | {interval(*runs[0]['variants'][3]['against_none'])} | – |"
    tables = multiplier_tables(multiplier, judged_multiplier(multiplier))
    assert len(tables["one multiplier"].splitlines()) == 2 + len(CONTEXTS) * len(MULTIPLIERS)


def test_wishes_are_counted_by_context() -> None:
    data = wishing(-0.001).assign_attrs(model="toy", model_note="", text="t", text_sha256="0", n_windows=4)
    move(data, (1, 0, 1), -0.03)
    move(data, (1, 2), 0.05)
    figures = json.loads(json.dumps(wished(data, {"seconds": 1.0})))
    first, last = figures["contexts"]
    assert [first[name] for name in ("sharper", "softer", "undecided")] == [0, 0, 24]
    assert [last[name] for name in ("sharper", "softer", "undecided")] == [1, 4, 19] and last[
        "by_chance"
    ] == pytest.approx(1.2)
    assert last["apart"] == pytest.approx(0.031 + 4 * 0.049 + 19 * 0.001)
    assert last["apart_by_chance"] == pytest.approx(24 * math.sqrt(2 / math.pi) * 0.01 / 3.18 / 0.9213177)  # c4 of four
    assert (
        wishes_table(figures)
        .splitlines()[-1]
        .startswith("| 8192 | 1 | 4 | 19 | 1 | −0.0240 (−0.0740 to +0.0260) | 0.25 | 0.07 | ")
    )


def test_words() -> None:
    assert interval(-0.0213, -0.03, -0.01) == "−0.0213 (−0.0300 to −0.0100)"
    assert interval(0.5, 0.5, 0.5) == "+0.500"
    undecided, good = Part("a", 0.0, -1.0, 1.0, 0.0), Part("b", 1.0, 0.5, 2.0, 0.0)
    assert [together([one, good]) for one in (undecided, good)] == ["undecided", "confirmed"]


def test_figures_are_drawn_from_results(runs: list[dict[str, Any]], multiplier: dict[str, Any], tmp_path: Path) -> None:
    drawn = script_module(ROOT / "examples" / "evidence_figures.py")
    for name, figures in (("multiplier", multiplier), ("rules", {"runs": runs})):
        path = drawn.write_figure(drawn.FIGURES[name][1](figures), tmp_path / f"{name}.svg")
        assert 10_000 < path.stat().st_size < 200_000
    shown = (tmp_path / "rules.svg").read_text()
    assert all(one["name"] in shown for one in runs[0]["variants"] if one["name"] not in ("raw", "none"))


def test_what_was_not_run_is_not_judged(runs: list[dict[str, Any]]) -> None:
    one = judged_rules(runs[:1])
    assert "constant-grows" not in one
    other = {**runs[1], "texts": ["another"]}
    assert "constant-grows" not in judged_rules([runs[0], other])  # targets are compared on the same text
    table = rules_tables(runs[:1], one)["predictions of rules"]
    assert next(line for line in table.splitlines() if "constant that is chosen" in line).endswith(
        "|  | not measured yet |"
    )
    both = rules_tables(runs, judged_rules(runs))["predictions of rules"]
    assert "confirmed so far" in table and "confirmed |" in both and "so far" not in both


def test_the_page_holds_what_was_kept() -> None:
    page, tables = PAGE.read_text(encoding="utf-8"), kept_tables()
    assert filled(page, COMMAND, tables) == page
    assert set(re.findall(rf"printed by: python -m {COMMAND} · (.+) -->", page)) == set(tables)


def test_sentences_on_one_multiplier() -> None:
    flat = " ".join(PAGE.read_text(encoding="utf-8").split())
    figures = kept("multiplier")
    assert figures is not None
    best = judged_multiplier(figures)["trained-optimum"]
    assert {part.where for part in best} == {str(n) for n in CONTEXTS}
    assert {f"{part.estimate:.2f}" for part in best} == {"1.02"} and "says 1.02 at every context" in flat
    points = {(point["n_tokens"], point["b"]): point for point in figures["points"]}
    ends = [points[8192, 0.5][name]["mean"] for name in ("rho_middle", "eta_block")]
    assert f"(ρ̂ is {ends[0]:.2f} and η of the block {ends[1]:.2f} at 8192), and at no other b" in flat
    rho = {b: [points[n, b]["rho_middle"]["mean"] for n in CONTEXTS] for b in MULTIPLIERS}
    assert rho[0.5] == sorted(rho[0.5]) and not any(rho[b] == sorted(rho[b]) for b in MULTIPLIERS if b != 0.5)
    sinks = [100 * points[n, 1.0]["sink_mass"]["mean"] for n in CONTEXTS]
    assert f"which takes {min(sinks):.0f} to {max(sinks):.0f} % of the mean head's weight at b = 1" in flat


def test_sentences_on_wishes() -> None:
    flat = " ".join(PAGE.read_text(encoding="utf-8").split())
    found = kept("sensitivity")
    assert found is not None
    assert f"of the same text, {['one', 'two', 'three', 'four'][found['n_windows'] - 1]} windows" in flat
    last = found["contexts"][-1]
    assert (
        f"at {last['n_tokens']} tokens {last['sharper']} would rather be sharper and {last['softer']} softer, "
        f"where about {last['by_chance']:.0f} would be called either by chance" in flat
    )
    first, ratios = found["contexts"][0], [one["apart"] / one["apart_by_chance"] for one in found["contexts"]]
    assert f"{ratios[-1]:.1f} times what chance gives ({ratios[0]:.1f} times at {first['n_tokens']})" in flat
    assert last["rank_with_kappa"] > 0.1 and "heads with a larger κ would rather be *softer*" in flat
    assert last["together"][1] < 0 < last["together"][2] and "changes nothing that these windows can tell" in flat
    assert max(abs(last[f"rank_with_{name}"]) for name in ("kappa", "b_c")) < 0.3 and "say little of its wish" in flat


def _against_none(run: dict[str, Any], name: str) -> float:
    return float(next(each["against_none"][0] for each in run["variants"] if each["name"] == name))


def test_sentences_on_rules() -> None:
    flat = " ".join(PAGE.read_text(encoding="utf-8").split())
    manual = (PAGE.parent / "rescale.md").read_text(encoding="utf-8")
    rescaled = kept("rescale")
    assert rescaled is not None
    runs = rescaled["runs"]
    assert [(run["texts"][-1], run["target"]) for run in runs] == [
        ("pydoc_data.topics", 16384),
        ("emma", 16384),
        ("emma", 32768),
    ]
    of = [{one["name"]: one for one in run["variants"]} for run in runs]
    ahead = [
        max((run["pairs"][f"calibrated − {name}"] for name in rivals(one)), key=lambda value: value[0])
        for run, one in zip(runs, of, strict=True)
    ]

    def listed(values: list[str]) -> str:
        return f"{', '.join(values[:-1])} and {values[-1]}".replace("-", "−")

    def each(pick: Callable[[dict[str, Any]], str]) -> str:
        return listed([pick(one) for one in of])

    def number(name: str, kept_as: str, layout: str) -> str:
        return each(lambda one: format(one[name][kept_as][0], layout))

    def gain(interval: list[float]) -> str:
        return f"{-interval[0]:.3f} ({-interval[2]:.3f} to {-interval[1]:.3f})"

    def signed(interval: list[float]) -> str:
        return f"{interval[0]:+.3f} ({interval[1]:+.3f} to {interval[2]:+.3f})"

    def share(name: str) -> str:
        return each(lambda one: f"{100 * one[name]['against_none'][0] / one['calibrated']['against_none'][0]:.0f} %")

    def taken_back(one: dict[str, Any]) -> str:
        return f"{100 * (1 - one['longrope']['within_against_raw'][0] / one['none']['within_against_raw'][0]):.0f} %"

    def found(one: dict[str, Any]) -> list[int]:
        return sorted(sum(variant["found"].values()) for name, variant in one.items() if name != "raw")

    def middle(name: str, run: int) -> str:
        return "{0:.2f} and {2:.2f}".format(*of[run][name]["factor_quartiles"])

    def ranks(name: str) -> str:
        return listed([f"{run['slope'][f'rank_with_{name}']:.2f}" for run in runs])

    def lowest(names: dict[float, str]) -> tuple[float, float]:
        """Where the parabola through three losses to choose by is least, and how far below the least of them."""
        losses = [runs[2]["tried"][name] for name in names.values()]
        curve = np.polynomial.Polynomial.fit(list(names), losses, 2)
        place = float(curve.deriv().roots()[0])
        return place, min(losses) - float(curve(place))

    by_head = [run["slope"]["by_head"] for run in runs]
    slope, below_slope = lowest({0.0: "slope 0", 1 / math.log(8192): "slope 0.111", 0.2: "slope 0.2"})
    far = [of[2][name]["by_bucket"][0] for name in ("longrope", "calibrated")]
    assert runs[2]["buckets"][2:4] == ["8192–12288", "12288–16384"]
    first = [values[2] for values in far]
    assert first[0] < first[1] and all(far[1][i] < far[0][i] for i in range(3, runs[2]["buckets"].index("within")))
    constant, below_constant = lowest({value: f"constant {value:g}" for value in (1.05, 1.1, 1.2)})
    for said in (
        f"The first two runs took {runs[0]['seconds'] / 60:.0f} and {runs[1]['seconds'] / 60:.0f} minutes",
        f"for another {runs[2]['seconds'] / 60:.0f} minutes after 5 of its 61 pieces",
        f"costs {number('raw', 'against_none', '.2f')} nats a token more than YaRN's frequencies",
        f"by {each(lambda one: gain(one['calibrated']['against_none']))} nats a token against none, and by "
        f"{listed([gain(one) for one in ahead])} against the best of the others",
        f"One slope for all heads has {share('slope')} of the gain",
        f"the two texts have a rank correlation of {rank_correlation(*by_head[:2]):.2f}, those of the novels at the two "
        f"lengths one of {rank_correlation(*by_head[1:]):.2f}",
        f"LongRoPE's, ln(target)/ln 8192 on every logit, has {share('longrope')} of the gain",
        f"takes back {each(taken_back)} of what YaRN's frequencies cost",
        f"from 8192 to 12288, it has {first[0]:.3f} nats against none and slopes by head {first[1]:.3f}; from 12288 to 16384 on "
        "they are ahead".replace("-", "−"),
        f"its least at a slope of {slope:.2f} and a constant of {constant:.2f}, {below_slope:.3f} and {below_constant:.3f} nats",
        f"The critical rule: {each(lambda one: signed(one['critical']['against_none']))} against none",
        f"lies between {middle('critical', 0)} at twice the length and between {middle('critical', 2)} at four times, the "
        f"calibrated one between {middle('calibrated', 0)}, {middle('calibrated', 1)}, and {middle('calibrated', 2)};",
        f"is {ranks('kappa')} with κ, {ranks('critical_multiplier')} with b<sub>c</sub>",
        f"costs {number('ssmax', 'within_against_none', '.3f')} nats below the trained length",
        f"Of {runs[0]['needles']}, every rule but raw finds {each(lambda one: f'{found(one)[0]} to {found(one)[-1]}')}",
        f"a number costs {number('constant', 'needle_against_none', '+.2f')} nats against none, with slopes by head "
        f"{number('calibrated', 'needle_against_none', '+.2f')}.",
        f"cost {number('none', 'within_against_raw', '.3f')}: keep the plain model",
    ):
        assert said in flat, said
    assert middle("critical", 0) == middle("critical", 1)  # told once for twice the length
    assert sum(of[2]["calibrated"]["found"].values()) == found(of[2])[0] < found(of[2])[1]  # "finds fewest"
    assert all(run["recommended"] == "calibrated" for run in runs)
    again, amd = kept("rescale_float32"), kept("rescale_amd")
    assert again is not None and amd is not None
    gib = amd["peak_memory_bytes"] / 2**30
    assert f"that run took {amd['seconds'] / 60:.0f} minutes and {gib:.1f} GiB on two cores" in flat
    assert amd["recommended"] == again["recommended"] == "calibrated"
    three = [runs[0], again, amd]
    moved = [
        abs(_against_none(one, variant["name"]) - variant["against_none"][0])
        for one, other in itertools.combinations(three, 2)
        for variant in other["variants"]
        if variant["name"] in {each["name"] for each in one["variants"]}
    ]
    assert f"moves by more than {math.ceil(1e4 * max(moved)) / 1e4:.4f} nats" in flat
    alike = min(
        rank_correlation(one["slope"]["by_head"], other["slope"]["by_head"])
        for one, other in itertools.combinations(three, 2)
    )
    assert f"a rank correlation of at least {math.floor(1000 * alike) / 1000:.3f}" in flat
    assert f"[took {again['seconds'] / 60:.0f} minutes](evidence.md#rules) on two cores in float32" in manual
    assert f"{runs[0]['seconds'] / 60:.0f} in bfloat16" in manual
    calibrated = next(one for one in again["variants"] if one["name"] == "calibrated")
    assert abs(calibrated["against_none"][0] - of[0]["calibrated"]["against_none"][0]) < 0.003


def test_sentences_on_what_a_window_takes() -> None:
    flat = " ".join((PAGE.parent / "rescale.md").read_text(encoding="utf-8").split())
    windows = kept("windows")
    assert windows is not None
    of = {(case, one["n_tokens"]): one for case in windows if ", " in case for one in windows[case]}
    ratios = [of[f"{dtype}, usual", 32768]["whole_over_behind"] for dtype in ("float32", "bfloat16")]
    assert f"in {ratios[0]:.2f} of the time in float32, in {ratios[1]:.2f} in bfloat16" in flat
    kept_blocks, usual = (of[f"bfloat16, {name}", 16384]["behind"][0] for name in ("keeping", "usual"))
    assert f"takes {kept_blocks / usual:.2f} of its time in bfloat16" in flat
    assert windows["rounds"] == 1 and "one round" in flat
    other = kept("windows_amd")
    assert other is not None
    as_it_is, answered = (
        [other[f"{dtype}, {setting}"][0]["whole"][0] for dtype in ("float32", "bfloat16")]
        for setting in ("usual", "answered")
    )
    assert f"took {as_it_is[0]:.0f} s in float32 and {as_it_is[1]:.0f} s in bfloat16 as it is" in flat
    assert f"{answered[0]:.0f} s and {answered[1]:.0f} s with this answer preloaded" in flat
    run = kept("rescale_amd")
    assert run is not None and f"the comparison above {run['seconds'] / 60:.0f} minutes in bfloat16" in flat
    # a comparison is some 65 windows' time: what is expected where it was not run
    assert all(whole / answered[1] * run["seconds"] > 90 * 60 for whole in as_it_is)
    assert ANSWER in flat
