"""Old place of :func:`attnlim.context.simplex_energy.simplex_jacobian`; to be removed with its last import."""

from attnlim.context.simplex_energy import SimplexJacobian, simplex_jacobian

__all__ = ["SimplexJacobian", "simplex_jacobian"]
