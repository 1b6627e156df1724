"""Command line tools around the compiler: `pipeline-opt` and the runners of sweeps and benchmarks."""
