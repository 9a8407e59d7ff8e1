"""timm's learning-rate schedules at every time of short runs, its plateau, its averages of weights: tests/references/schedules.safetensors.

Run: tools/references/run.sh schedules, or `python schedules.py` in its environment.

One array a run, rates at t = 0 … 199 (for a plateau those after each of the scores "scores", of
t = 1 … 200), and torch's OneCycleLR of 201 steps, with "<key>/momentum". config: total, runs {key:
our schedule}, cycles {key: our schedule}, plateaus {key: our schedule}, averages {key: our section}: "<key>/decays" of updates 1 … 200, and "<key>/values",
the average after each of a weight that walks along formula.array("schedules/walk"). A time of timm's is a step of ours, and batch = examples per epoch = 1.
"""
import warnings

import numpy as np
import torch
from timm.scheduler import (CosineLRScheduler, MultiStepLRScheduler, PlateauLRScheduler, PolyLRScheduler, StepLRScheduler,
                            TanhLRScheduler)
from timm.scheduler.wsd_lr import WSDLRScheduler
from timm.utils import ModelEmaV3

import formula
from tensors import save

TOTAL = 200
WARM = dict(warmup_t=20, warmup_lr_init=1e-3)
PREFIX = dict(WARM, warmup_prefix=True)
OVERLAP = "warmup=20 steps, warmup_start=1e-3, warmup_mode=overlap"
BEFORE = "warmup=20 steps, warmup_start=1e-3, warmup_mode=prefix"
# key: (ours, timm's scheduler, its options); lr 0.1
RUNS = {
    "cosine": ("cosine(0.1, min=1e-4)", CosineLRScheduler, dict(t_initial=200, lr_min=1e-4)),
    "cosine_overlap": (f"cosine(0.1, min=1e-4, {OVERLAP})", CosineLRScheduler, dict(t_initial=200, lr_min=1e-4, **WARM)),
    "cosine_prefix": (f"cosine(0.1, min=1e-4, {BEFORE})", CosineLRScheduler, dict(t_initial=180, lr_min=1e-4, **PREFIX)),
    "cosine_cooldown": ("cosine(0.1, min=1e-2, length=150 steps)", CosineLRScheduler, dict(t_initial=150, lr_min=1e-2)),
    "cosine_k": ("cosine(0.1, k=1.7)", CosineLRScheduler, dict(t_initial=200, k_decay=1.7)),
    "cosine_cycles": (f"cosine(0.1, min=1e-3, cycles=4, cycle_decay=0.5, length=40 steps, {OVERLAP})", CosineLRScheduler,
                      dict(t_initial=40, lr_min=1e-3, cycle_limit=4, cycle_decay=0.5, **WARM)),
    "cosine_growing": (f"cosine(0.1, cycles=3, cycle_mul=2, cycle_decay=0.7, length=23 steps, k=0.9, {BEFORE})", CosineLRScheduler,
                       dict(t_initial=23, cycle_limit=3, cycle_mul=2.0, cycle_decay=0.7, k_decay=0.9, **PREFIX)),
    "cosine_noise": (f"cosine(0.1, noise=[30 %, 90 %], noise_pct=0.5, noise_std=0.8, noise_seed=7, {OVERLAP})", CosineLRScheduler,
                     dict(t_initial=200, noise_range_t=[60.0, 180.0], noise_pct=0.5, noise_std=0.8, noise_seed=7, **WARM)),
    "poly": (f"polynomial(0.1, 0.9, min=1e-3, {OVERLAP})", PolyLRScheduler,
             dict(t_initial=200, power=0.9, lr_min=1e-3, **WARM)),
    "poly_cycles": ("polynomial(0.1, 0.5, k=2, cycles=2, length=90 steps, cycle_decay=0.1)", PolyLRScheduler,
                    dict(t_initial=90, power=0.5, k_decay=2.0, cycle_limit=2, cycle_decay=0.1)),
    "tanh": (f"tanh(0.1, min=1e-3, length=190 steps, {OVERLAP})", TanhLRScheduler, dict(t_initial=190, lr_min=1e-3, **WARM)),
    "tanh_prefix": (f"tanh(0.1, lower=-5, upper=2, {BEFORE})", TanhLRScheduler, dict(t_initial=180, lb=-5.0, ub=2.0, **PREFIX)),
    "step": (f"step(0.1, 0.7, every=23 steps, {OVERLAP})", StepLRScheduler,
             dict(decay_t=23, decay_rate=0.7, warmup_prefix=False, **WARM)),
    "step_prefix": (f"step(0.1, 0.97, every=2 steps, noise=50 steps, {BEFORE})", StepLRScheduler,
                    dict(decay_t=2, decay_rate=0.97, noise_range_t=50, noise_seed=42, **PREFIX)),
    # A milestone of timm's is one earlier.
    "multistep": (f"step(0.1, 0.3, milestones=[49 steps, 99 steps, 100 steps], {OVERLAP})", MultiStepLRScheduler,
                  dict(decay_t=[50, 100, 101], decay_rate=0.3, warmup_prefix=False, **WARM)),
    "wsd": (f"wsd(0.1, decay=45 steps, min=1e-3, {BEFORE})", WSDLRScheduler,
            dict(t_initial=180, decay_t=45, lr_min=1e-3, decay_fn="1-sqrt", **WARM)),
    "wsd_cosine": ("wsd(0.1, shape=cosine)", WSDLRScheduler, dict(t_initial=200, decay_t=40, decay_fn="cosine")),
    "wsd_rsqrt": (f"wsd(0.1, decay=60 steps, shape=linear, timescale=15 steps, min=1e-2, {BEFORE})", WSDLRScheduler,
                  dict(t_initial=180, decay_t=60, lr_min=1e-2, stable_fn="rsqrt", stable_timescale=15, decay_fn="linear", **WARM)),
    "constant": (f"constant(0.1, {OVERLAP})", StepLRScheduler, dict(decay_t=1, decay_rate=1.0, warmup_prefix=False, **WARM)),
}
# Ours has its top at `rise` and its end at the run's, torch's of one step more too.
CYCLES = {
    "one_cycle": ("one_cycle(0.1, rise=50 steps, div=20, div_final=500, momentum=[0.95, 0.85])",
                  dict(max_lr=0.1, total_steps=TOTAL + 1, pct_start=51 / (TOTAL + 1), div_factor=20.0, final_div_factor=25.0,
                       base_momentum=0.85, max_momentum=0.95)),
}
PLATEAUS = {
    "plateau": ("plateau(0.1, metric=val/prec@1, factor=0.5, patience=3, cooldown=2, min=1e-3)",
                dict(decay_rate=0.5, patience_t=3, cooldown_t=2, lr_min=1e-3)),
    "plateau_loss": ("plateau(0.1, metric=val/loss, patience=1, threshold=0.05, factor=0.3, warmup=20 steps, warmup_start=1e-3, "
                     "warmup_mode=overlap)",
                     dict(decay_rate=0.3, patience_t=1, threshold=0.05, mode="min", **WARM)),
}


# key: (our `average`, timm's ModelEmaV3's options)
AVERAGES = {
    "average": ("decay = 0.98", dict(decay=0.98)),
    "average_start": ('decay = 0.98, start = "30 steps"', dict(decay=0.98, update_after_step=30)),
    "average_warmup": ("decay = 0.97, warmup = true, min_decay = 0.1", dict(decay=0.97, use_warmup=True, min_decay=0.1)),
    "average_gamma": ('decay = 0.9, warmup = true, warmup_gamma = 20.0, warmup_power = 0.75, start = "5 steps"',
                      dict(decay=0.9, use_warmup=True, warmup_gamma=20.0, warmup_power=0.75, update_after_step=5)),
}


def averages(options):
    """(decays of updates 1 … 200, the average of a walk after each)"""
    model = torch.nn.Linear(1, 1, bias=False).to(torch.float64)
    walk = formula.array("schedules/walk", (TOTAL,))
    ema = ModelEmaV3(model, **options)
    decays, values = [], []
    for step in range(1, TOTAL + 1):
        with torch.no_grad():
            model.weight.fill_(float(walk[step - 1]))
        ema.update(model, step=step)
        decays.append(ema.get_decay(step))
        values.append(ema.module.weight.item())
    return np.array(decays), np.array(values)


def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)


def rates(scheduler, options):
    sgd = optimizer()
    schedule = scheduler(sgd, **options)
    out = []
    for t in range(TOTAL):
        schedule.step(t)
        out.append(sgd.param_groups[0]["lr"])
    return np.array(out)


def one_cycle(options):
    """(rates, momenta)"""
    sgd = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1, momentum=0.9)
    schedule, rates, momenta = torch.optim.lr_scheduler.OneCycleLR(sgd, **options), [], []
    for _ in range(TOTAL):
        rates.append(sgd.param_groups[0]["lr"])
        momenta.append(sgd.param_groups[0]["momentum"])
        sgd.step()
        schedule.step()
    return np.array(rates), np.array(momenta)


def plateau(options, scores):
    sgd = optimizer()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        schedule = PlateauLRScheduler(sgd, **options)
    out = []
    for t, score in enumerate(scores, 1):  # timm's first is of epoch 1
        schedule.step(t, float(score))
        out.append(sgd.param_groups[0]["lr"])
    return np.array(out)


def main():
    scores = (np.minimum(np.arange(TOTAL), 60) / 60 + 0.2 * formula.array("schedules/scores", (TOTAL,)) + 1).astype(np.float32)
    tensors = {"scores": scores}
    for key, (_, scheduler, options) in RUNS.items():
        tensors[key] = rates(scheduler, options)
    for key, (_, options) in CYCLES.items():
        tensors[key], tensors[key + "/momentum"] = one_cycle(options)
    for key, (_, options) in PLATEAUS.items():
        tensors[key] = plateau(options, scores)
    for key, (_, options) in AVERAGES.items():
        tensors[key + "/decays"], tensors[key + "/values"] = averages(options)
    save("schedules.safetensors", tensors,
         dict(total=TOTAL, runs={k: v[0] for k, v in RUNS.items()}, cycles={k: v[0] for k, v in CYCLES.items()},
              plateaus={k: v[0] for k, v in PLATEAUS.items()},
              averages={k: v[0] for k, v in AVERAGES.items()}))


if __name__ == "__main__":
    main()
