"""What everything stands on: input checks, stable numerics, seeds, intervals, notation, the run store."""
