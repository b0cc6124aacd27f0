"""What is measured in a phase diagram, in words: labels of figures, columns and choices."""

from __future__ import annotations

from dataclasses import dataclass

from attnlim.core.symbols import lookup


@dataclass(frozen=True)
class Quantity:
    """A measured quantity.

    Attributes:
        name: its column in the dataset, and in the table of symbols.
        words: what it is called.
        about: what it says, in one sentence.
        bounded: its scale goes from 0 to an end that is known in advance.
        crossing: the curve at which it passes its critical value.
        logarithmic: its scale is that of its logarithm.
    """

    name: str
    words: str
    about: str
    bounded: bool = False
    crossing: str = ""
    logarithmic: bool = False

    @property
    def symbol(self) -> str:
        """Its symbol in plain text."""
        return lookup("context", self.name).symbol

    @property
    def label(self) -> str:
        """Words and symbol, for an axis of a figure."""
        return f"{self.words} ${lookup('context', self.name).latex}$"


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        Quantity(
            "contraction", "contraction",
            "Mean over pairs of 1 − cosine after the layer, divided by that before: near 0 all tokens become one, at 1 nothing happens.",
            True, "forward",
        ),
        Quantity("fraction_contracted", "contracted pairs", "The share of pairs that come closer in angle.", True),
        Quantity("min_cosine", "smallest cosine", "The smallest cosine of any two tokens after the layer."),
        Quantity("worst_ratio", "largest ratio", "The pair that comes apart most: its 1 − cosine after, divided by that before."),
        Quantity(
            "eta", "Jacobian energy",
            "Mean squared singular value of the layer’s Jacobian: near 0 gradients vanish in it.", True,
        ),
        Quantity(
            "eta_attention", "attention part",
            "The part of η that has neither β nor α in it; it is what vanishes below the threshold.", True, "backward",
        ),
        Quantity("eta_covariance", "covariance part", "The part of η that comes from moving the attention weights themselves."),
        Quantity("eta_residual", "residual part", "The part of η that the residual branch adds."),
        Quantity(
            "distance", "distance from the limit",
            "Squared distance of the Jacobian from that of a layer in which every token sees only itself.",
        ),
        Quantity("entropy", "entropy in nats", "Entropy of an attention row, averaged over rows."),
        Quantity("perplexity", "tokens attended", "Tokens that a row attends to by its entropy, averaged over rows.", logarithmic=True),
        Quantity("participation", "participation", "Tokens that a row attends to by the sum of its squared weights.", logarithmic=True),
    )
}  # fmt: skip
