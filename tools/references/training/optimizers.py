"""Twenty updates of every optimizer by timm's own classes (torch's where timm takes those), in float64:
tests/references/optimizers.safetensors. Problem, keys and config: optimizer_problem.py.

Run: tools/references/run.sh optimizers, or `python optimizers.py` in its environment.

Kernels are handed over in torch's layout, [out, in, h, w] and [out, in]. Parameters of one dimension don't decay. Muon's
Newton-Schulz steps run in float64 instead of bfloat16. A rate of None is Adafactor's own. "adafactor_scaled" is timm's class with
the rate that Fairseq's and Hugging Face's have with scale_parameter and without relative_step. "…_one_cycle" follow torch's
OneCycleLR, which cycles momentum, in place of the linear schedule.
"""
import functools

import numpy as np
import timm.optim
import timm.optim.muon as muon
import torch
from torch import nn

import optimizer_problem as problem
from tensors import save

muon.zeropower_via_newtonschulz = functools.partial(muon.zeropower_via_newtonschulz, dtype=torch.float64)


class ScaledAdafactor(timm.optim.Adafactor):
    @staticmethod
    def _get_lr(group, state):
        return group["lr"] * max(group["eps_scale"], state["RMS"])


# Moments of the big_vision variant are bfloat16 by default.
WIDE = dict(momentum_dtype=torch.float32)

# name: (our options, timm's name, lr, weight decay, timm's options)
RUNS = {
    "adamw": ("", "adamw", 1e-2, 0.1, {}),
    "adamw_square": ('decoupled = "square"', "adamc", 1e-2, 0.1, {}),
    "adamw_cautious": ("caution = true", "cadamw", 1e-2, 0.1, {}),
    "adam": ("", "adam", 1e-2, 0.1, {}),
    "adamw_amsgrad": ("amsgrad = true", "adamw", 1e-2, 0.1, dict(amsgrad=True)),
    "adam_amsgrad": ("amsgrad = true, b2 = 0.9", "adam", 1e-2, 0.1, dict(amsgrad=True, betas=(0.9, 0.9))),
    "adamw_one_cycle": ("", "adamw", 1e-2, 0.1, {}),
    "adam_one_cycle": ("", "adam", 1e-2, 0.1, {}),
    "sgd_one_cycle": ("nesterov = true", "sgd", 1e-2, 0.1, {}),
    "nadamw": ("", "nadamw", 1e-2, 0.1, {}),
    "nadam": ("", "nadam", 1e-2, 0.1, {}),
    "nadam_decoupled": ('decoupled = "lr", b1 = 0.8', "nadam", 1e-2, 0.1, dict(decoupled_weight_decay=True, betas=(0.8, 0.999))),
    "radam": ("", "radam", 1e-2, 0.1, {}),
    "radam_decoupled": ('decoupled = "lr", b2 = 0.9', "radamw", 1e-2, 0.1, dict(betas=(0.9, 0.9))),
    "adabelief": ("", "adabelief", 1e-2, 0.1, {}),
    "adabelief_rectified": ('rectify = true, decoupled = "none"', "radabelief", 1e-2, 0.1, dict(decoupled_decay=False)),
    "sgd": ("", "sgd", 1e-2, 0.1, {}),
    "sgd_momentum": ("nesterov = false, momentum = 0.8", "momentum", 1e-2, 0.1, dict(momentum=0.8)),
    "sgd_decoupled": ('decoupled = "lr", caution = true', "csgdw", 1e-2, 0.1, {}),
    "lars": ("", "lars", 0.5, 0.1, {}),
    "lars_nesterov": ("nesterov = true, always_adapt = true, trust = 0.1", "nlars", 0.5, 0.1,
                      dict(always_adapt=True, trust_coeff=0.1)),
    "larc": ("trust = 0.1", "larc", 0.05, 0.1, dict(trust_coeff=0.1)),
    "lamb": ("", "lamb", 1e-2, 0.1, {}),
    "lamb_always": ('always_adapt = true, max_norm = 0, grad_averaging = false, decoupled = "lr", caution = true', "clambw", 1e-2,
                    0.1, dict(always_adapt=True, max_grad_norm=None, grad_averaging=False)),
    "lambc": ("", "lambc", 0.1, 0.1, {}),
    "lion": ("", "lion", 1e-2, 0.1, dict(foreach=False)),
    "lion_cautious": ('caution = true, decoupled = "square"', "clionc", 1e-2, 0.1, dict(foreach=False)),
    "adafactor": ("min_factored = 5", "adafactor", 1e-2, 0.1, dict(min_dim_size_to_factor=5)),
    "adafactor_momentum": ("min_factored = 4, b1 = 0.9, clip_threshold = 0.5, caution = true", "cadafactor", 1e-2, 0.1,
                           dict(min_dim_size_to_factor=4, clip_threshold=0.5)),
    "adafactor_relative": ("min_factored = 5, relative_step = true", "adafactor", None, 0.1, dict(min_dim_size_to_factor=5)),
    "adafactor_warmup": ("min_factored = 5, relative_step = true, warmup_init = true, scale_parameter = false, b1 = 0.9",
                         "adafactor", None, 0.1,
                         dict(min_dim_size_to_factor=5, warmup_init=True, scale_parameter=False, betas=(0.9, 0.999))),
    "adafactor_scaled": ("min_factored = 5, scale_parameter = true, eps_scale = 0.2", ScaledAdafactor, 1e-2, 0.1,
                         dict(min_dim_size_to_factor=5, eps_scale=0.2)),
    "adafactor_bv": ('min_factored = 5, decoupled = "lr"', "adafactorbv", 1e-2, 0.1, dict(min_dim_size_to_factor=5, **WIDE)),
    "rmsprop": ("eps = 1e-3", "rmsprop", 1e-2, 0.1, dict(eps=1e-3, alpha=0.99, momentum=0.0)),
    "rmsprop_centered": ("alpha = 0.8, eps = 1e-2, momentum = 0.9, centered = true", "rmsprop", 1e-2, 0.1,
                         dict(eps=1e-2, alpha=0.8, momentum=0.9, centered=True)),
    "adamax": ("", "adamax", 1e-2, 0.1, {}),
    "adamax_fast": ("b1 = 0.8, b2 = 0.9, eps = 1e-3", "adamax", 1e-2, 0.1, dict(betas=(0.8, 0.9), eps=1e-3)),
    "adagrad": ("eps = 1e-8", "adagrad", 1e-2, 0.1, {}),
    "adagrad_initial": ("lr_decay = 0.1, initial = 0.2, eps = 1e-3", "adagrad", 1e-2, 0.1,
                        dict(lr_decay=0.1, initial_accumulator_value=0.2, eps=1e-3)),
    "adadelta": ("", "adadelta", 1.0, 0.1, {}),
    "adadelta_slow": ("rho = 0.5, eps = 1e-3", "adadelta", 0.5, 0.1, dict(rho=0.5, eps=1e-3)),
    "rmsprop_tf": ("eps = 1e-3", "rmsproptf", 1e-2, 0.1, dict(eps=1e-3)),
    "rmsprop_tf_centered": ('centered = true, lr_in_momentum = false, decoupled = "lr", eps = 1e-2', "rmsproptfw", 1e-2, 0.1,
                            dict(centered=True, lr_in_momentum=False, eps=1e-2)),
    "rmsprop_tf_plain": ("momentum = 0, eps = 1e-3", "rmsproptf", 1e-2, 0.1, dict(momentum=0.0, eps=1e-3)),
    "novograd": ("", "novograd", 1e-2, 0.1, {}),
    "novograd_decoupled": ('decoupled = "lr", grad_averaging = true', "novogradw", 1e-2, 0.1, dict(grad_averaging=True)),
    "madgrad": ("", "madgrad", 1e-2, 0.1, {}),
    "madgrad_decoupled": ('decoupled = "lr"', "madgradw", 1e-2, 0.1, {}),
    "madgrad_plain": ("momentum = 0", "madgrad", 1e-2, 0.1, dict(momentum=0.0)),
    "muon": ('iterate = "f32"', "muon", 1e-2, 0.1, dict(momentum=0.95)),
    "muon_nesterov": ('iterate = "f32", nesterov = true, coefficients = "original", scale = "original", fallback_lr = 0.5',
                      "nmuon", 1e-2, 0.1,
                      dict(momentum=0.95, ns_coefficients="original", adjust_lr_fn="original", fallback_lr_scale=0.5)),
    "muon_polar": ('iterate = "f32", coefficients = "polar_express", scale = "rms_to_rms", steps = 7, momentum = 0.9', "muon", 1e-2,
                   0.1, dict(momentum=0.9, ns_coefficients="polar_express", adjust_lr_fn="rms_to_rms", ns_steps=7)),
    "adamp": ("", "adamp", 1e-2, 0.1, {}),
    "adamp_units": ("delta = 2, wd_ratio = 0.3", "adamp", 1e-2, 0.1, dict(delta=2.0, wd_ratio=0.3)),
    "adamp_plain": ("nesterov = false, delta = 0.9, b2 = 0.9", "adamp", 1e-2, 0.1,
                       dict(delta=0.9, nesterov=False, betas=(0.9, 0.9))),
    "sgdp": ("", "sgdp", 1e-2, 0.1, {}),
    "sgdp_units": ("nesterov = false, momentum = 0.8, delta = 2, wd_ratio = 0.3", "sgdp", 1e-2, 0.1,
                   dict(nesterov=False, momentum=0.8, delta=2.0, wd_ratio=0.3)),
    "adamw_layers": ("layer_decay = 0.7", "adamw", 1e-2, 0.1, dict(layer_decay=0.7)),
    "larc_layers": ("layer_decay = 0.7, trust = 0.1", "larc", 0.05, 0.1, dict(trust_coeff=0.1, layer_decay=0.7)),
    "madgrad_layers": ("layer_decay = 0.7", "madgrad", 1e-2, 0.1, dict(layer_decay=0.7)),
    "lookahead_adamw": ("lookahead = 6", "lookahead_adamw", 1e-2, 0.1, {}),
    "lookahead_sgd": ("lookahead = 6", "lookahead_sgd", 1e-2, 0.1, {}),
}


def to_torch(name, array):
    """Our layout -> torch's."""
    return np.moveaxis(array, (-1, -2), (0, 1)) if name.partition("#")[0].endswith("kernel") else array


def tensor(name, array):
    return torch.from_numpy(np.array(to_torch(name, array), np.float64))


def from_torch(name, array):
    return np.moveaxis(array, (0, 1), (-1, -2)) if name.partition("#")[0].endswith("kernel") else array


RISE, DIV = 11, 10.0
CYCLE = f"rise={RISE} steps, div={DIV}, div_final=1000, momentum=[0.95, 0.85]"


def one_cycle(optimizer, lr):
    """Ours has the top of N steps at `rise`, torch's of N + 1 too."""
    steps = problem.TOTAL + 1
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps, pct_start=(RISE + 1) / steps, div_factor=DIV,
                                               final_div_factor=1000 / DIV, base_momentum=0.85, max_momentum=0.95)


def schedule(key, lr):
    return "1" if lr is None else f"one_cycle({lr}, {CYCLE})" if key.endswith("one_cycle") else f"linear({lr})"


def run(key, timm_name, lr, weight_decay, layer_decay=1.0, **options):
    """{our name: values after the last update}"""
    arrays, groups = {}, []
    for name, dims, stacked, layer in problem.PARAMETERS:
        for part, array in problem.blocks(name, stacked, problem.initial(name, dims)):
            arrays[part] = nn.Parameter(tensor(part, array))
            scale = layer_decay ** (problem.LAST_LAYER - problem.layers(part, layer))
            groups.append(dict(params=[arrays[part]], weight_decay=weight_decay if problem.decays(array) else 0.0, lr_scale=scale))
    if isinstance(timm_name, str):
        optimizer = timm.optim.create_optimizer_v2(groups, timm_name, lr=lr, weight_decay=0.0, **options)
    else:
        optimizer = timm_name(groups, lr=lr, **options)
    cycle = one_cycle(optimizer, lr) if key.endswith("one_cycle") else None
    for step in range(problem.STEPS):
        for group in optimizer.param_groups:
            if lr is not None and cycle is None:
                group["lr"] = lr * (1 - step / problem.TOTAL) * group["lr_scale"]
        for name, dims, stacked, _ in problem.PARAMETERS:
            for part, array in problem.blocks(name, stacked, problem.gradient(name, dims, step)):
                arrays[part].grad = tensor(part, array)
        optimizer.step()
        if cycle is not None:
            cycle.step()
    after = {}
    for name, _, stacked, _ in problem.PARAMETERS:
        parts = [from_torch(part, p.detach().numpy()) for part, p in arrays.items() if part.partition("#")[0] == name]
        after[name] = np.stack(parts) if stacked else parts[0]
    return after


def main():
    torch.set_default_dtype(torch.float64)
    tensors, runs = {}, {}
    for key, (ours, timm_name, lr, weight_decay, options) in RUNS.items():
        name = ours_name(key)
        runs[key] = f'name = "{name}", lr = "{schedule(key, lr)}", weight_decay = {weight_decay}' + (", " + ours if ours else "")
        for parameter, value in run(key, timm_name, lr, weight_decay, **options).items():
            tensors[f"{key}/{parameter}"] = value
    save("optimizers.safetensors", tensors,
         dict(parameters=problem.PARAMETERS, steps=problem.STEPS, total=problem.TOTAL, runs=runs))


def ours_name(key):
    """The longest of our names that the run's begins with."""
    names = ["adamw", "adam", "nadamw", "nadam", "radam", "adabelief", "sgd", "lars", "larc", "lamb", "lambc", "lion", "adafactor",
             "adafactor_bv", "rmsprop", "rmsprop_tf", "adamax", "adagrad", "adadelta", "novograd", "madgrad", "muon", "adamp",
             "sgdp"]
    key = key.removeprefix("lookahead_")
    return max((n for n in names if key == n or key.startswith(n + "_")), key=len)


if __name__ == "__main__":
    main()
