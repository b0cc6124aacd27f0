"""Old place of :func:`attnlim.context.stack_jacobian.simplex_stack`; to be removed with its last import."""

from attnlim.context.stack_jacobian import SimplexStack, simplex_stack

__all__ = ["SimplexStack", "simplex_stack"]
