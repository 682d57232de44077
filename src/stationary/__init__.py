"""Learn how a system behaves under heavy load from what was measured under light load.

Answers
    fit              fit one model to windows
    compare          fit several models, and test them on held-out heavier load
    plan             the same with service-level objectives: how much load can the system take?
    load             read a saved plan
    Plan             what these return: forecast, max_load, what_if, report, save, ...
    Slo, Limit       a service-level objective, and the largest load that meets it

Data
    Windows          inputs, and what was observed at them
    read_windows     windows from a CSV or Parquet file
    simulate         windows from a model; simulation has ways of sampling, and sample paths
    Observation      one kind of observed quantity; Counts, States
    data, ingest     logs and other sources of windows

Models
    Model, Param     a chain of your own, and its parameters
    Measure          a functional of the steady state
    models           queues, rules, PRISM files, ...

Chains
    Generator, Edges           batches of chains
    steady_state, SteadyState  pi as a differentiable layer
    spectral_gap, mixing_time  how fast a chain forgets
    Exact, Infinity, BPTT, DivideAndConquerBPTT
                               ways from dL/dpi to the rates; gradients has their parts
    solvers                    GTH, LU, SparseLU, Multigrid, ...

Fitting
    Newton, Stochastic         methods of fit; optimisers has the step rules
    conditional_nll            the paper's loss
    covariances                standard errors of estimates: Sandwich, Correlated, ...
    paper                      the paper's way to fit, its rows, and estimators beside its own

errors, words                  errors that are raised, and sentences about results

Names are loaded on first use, so that ``stationary --help`` does not wait for torch.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
