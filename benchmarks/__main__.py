"""Run every benchmark, or those named: ``python -m benchmarks gradient startup``."""

import importlib
import platform
import sys

import torch

names = sys.argv[1:] or ["gradient", "whole_fit", "infinity", "startup"]
print(
    f"Python {platform.python_version()}, torch {torch.__version__}, "
    f"{torch.get_num_threads()} threads, {platform.machine()}; medians, rivals taking turns."
)
for name in names:
    importlib.import_module(f"benchmarks.{name}").main()
