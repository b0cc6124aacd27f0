"""attnlim: what happens to a transformer as its context, its depth and its number of heads grow.

Packages: :mod:`attnlim.context` (theory of the context limit), :mod:`attnlim.models` (real checkpoints),
:mod:`attnlim.audit` (measuring attention in them), :mod:`attnlim.report` (figures and the HTML report),
:mod:`attnlim.core` (what everything stands on).
"""

__version__ = "0.1.0"
