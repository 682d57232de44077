"""Run every benchmark, or those named: ``python -m benchmarks gradient startup``."""

import importlib
import platform
import sys

import torch

# Files and sizes are for the benchmarks themselves to read.
names = [
    w
    for w in sys.argv[1:]
    if not w.endswith(".csv") and "/" not in w and "=" not in w and not w[0].isdigit()
]
names = names or ["gradient", "whole_fit", "infinity", "startup", "bootstrap"]
print(
    f"Python {platform.python_version()}, torch {torch.__version__}, "
    f"{torch.get_num_threads()} threads, {platform.machine()}; medians, rivals taking turns."
)
for name in names:
    importlib.import_module(f"benchmarks.{name}").main()
