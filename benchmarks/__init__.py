"""Speed and memory, measured as ratios in one run. `make bench` runs all; figures are kept in results/."""
