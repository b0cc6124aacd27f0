"""Needles: sentences with a number at several depths of a filler text, alone in their form or among others of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from attnlim.core.checks import InputError
from attnlim.core.seeds import generator

Company = Literal["alone", "competing"]
COMPANIES: tuple[Company, ...] = ("alone", "competing")

# each of a form of its own: what one asks for is not what another one says
ALONE = (
    "The harbour master's telephone number is",
    "The parcel from the clockmaker weighs, in grams,",
    "The year that is engraved under the fountain is",
    "The combination of the safe behind the painting is",
    "The number of tiles on the roof of the old mill is",
)
# one form, so that only the name tells them apart
PLACES = ("Lisbon", "Oslo", "Cairo", "Lima", "Delhi", "Quito", "Perth", "Kyiv")
COMPETING = "The number of the locker in {} is"
DIGITS = 5
# a needle is put where a line ends, at most this many tokens after its depth; the text is cut open if none does
SEARCHED = 512


@dataclass(frozen=True)
class Needle:
    """A number hidden in a context.

    Attributes:
        company: "alone" in its form, or "competing" with others of the same form.
        depth: where its sentence begins, as a share of the context, in [0, 1).
        begins: the first token of the sentence in the context.
        ends: one past its last token.
        question: (q,) int64, the words before the number, as asked at the end.
        answer: (a,) int64, the number.
    """

    company: Company
    depth: float
    begins: int
    ends: int
    question: Tensor
    answer: Tensor


@dataclass(frozen=True)
class Haystack:
    """A context with its needles.

    Attributes:
        ids: (1, n) int64, filler and sentences; every question is asked behind it.
        needles: in the order of their depths.
    """

    ids: Tensor
    needles: tuple[Needle, ...]


def haystack(tokenizer: Any, filler: Tensor, company: Company, n_tokens: int, seed: int) -> Haystack:
    """Needles in a filler text, with room for a question behind it.

    Numbers have five digits and are drawn; k needles stand near (i + 1/2)/k of the filler, at the ends of lines.

    Args:
        tokenizer: the model's.
        filler: (1, n) int64, at least ``n_tokens`` tokens, special tokens in front included.
        company: "alone" takes five sentences of different forms, "competing" eight of one form.
        n_tokens: the length with question and answer, tokens.
        seed: of the numbers.

    Raises:
        InputError: a filler that is too short to hold them.
    """

    def encode(text: str) -> Tensor:
        return torch.tensor(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"], dtype=torch.int64)

    draws = generator(seed, "needles", company)
    opening = (
        [ALONE[i] for i in draws.permutation(len(ALONE))]
        if company == "alone"
        else [COMPETING.format(PLACES[i]) for i in draws.permutation(len(PLACES))]
    )
    values = [
        f" {number}"
        for number in draws.choice(10**DIGITS - 10 ** (DIGITS - 1), len(opening), replace=False) + 10 ** (DIGITS - 1)
    ]
    sentences = [encode(f"\n{words}{value}.\n") for words, value in zip(opening, values, strict=True)]
    asked = [
        _split(encode(f"\n{words}"), encode(f"\n{words}{value}")) for words, value in zip(opening, values, strict=True)
    ]
    questions, answers = [question for question, _ in asked], [answer for _, answer in asked]
    room = max(len(q) + len(a) for q, a in zip(questions, answers, strict=True))
    n_filler = n_tokens - room - sum(map(len, sentences))
    if n_filler < len(sentences) * 16 or filler.shape[1] < n_filler:
        raise InputError(
            f"needles need a context of at least {room + sum(map(len, sentences)) + 16 * len(sentences)} tokens and as much "
            f"text, got {n_tokens} and {filler.shape[1]}; use a longer --target or text"
        )
    body = filler[0, :n_filler]
    ends_line = _line_ends(tokenizer, body)
    pieces: list[Tensor] = []
    needles, taken, length = [], 0, 0
    for i, sentence in enumerate(sentences):
        cut = _cut(ends_line, int((i + 0.5) / len(sentences) * n_filler))
        pieces += [body[taken:cut], sentence]
        length += cut - taken
        place = length / n_tokens
        needles.append(Needle(company, place, length, length + len(sentence), questions[i], answers[i]))
        taken, length = cut, length + len(sentence)
    return Haystack(torch.cat([*pieces, body[taken:]])[None], tuple(needles))


def _split(question: Tensor, whole: Tensor) -> tuple[Tensor, Tensor]:
    """Question and answer as the text that holds both is tokenised: by itself a number may begin with other tokens."""
    shared = min(len(question), len(whole) - 1)
    unlike = (question[:shared] != whole[:shared]).nonzero()
    shared = int(unlike[0]) if len(unlike) else shared
    return whole[:shared], whole[shared:]


def _line_ends(tokenizer: Any, body: Tensor) -> Tensor:
    """Ascending places after a token that ends a line."""
    breaks = {token for token in set(body.tolist()) if tokenizer.decode([token]).endswith("\n")}
    return torch.tensor([place + 1 for place, token in enumerate(body.tolist()) if token in breaks], dtype=torch.int64)


def _cut(ends: Tensor, wanted: int) -> int:
    after = ends[ends >= wanted]
    return int(after[0]) if len(after) and int(after[0]) < wanted + SEARCHED else wanted
