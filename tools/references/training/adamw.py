"""Ten optimizer steps of the case `avg` of vit.py, in float64: tests/references/adamw.safetensors.

Run: tools/references/run.sh adamw, or `python adamw.py` in its environment.

Weights by formula; batch 16, step k uses images "adamw/input<k>" and formula.labels(k).
Five runs; the suffix of the keys in brackets:
  AdamW [none]       lr 1e-3, betas .9 .999, eps 1e-8, weight decay 0.05 (timm's mask: none for
                     ndim <= 1, biases, pos_embed), gradients clipped to a global norm of 1
  AdamW [_smooth]    the same with label smoothing 0.1
  AdamW [_agc]       the same as the first with timm's adaptive gradient clipping 0.01 instead,
                     on all parameters but head.weight and head.bias
  Adam  [_adam]      lr 1e-3, no weight decay, clip 1
  SGD   [_sgd]       Nesterov momentum 0.9, lr 0.05, no weight decay, clip 1
Keys: losses<s> [10], before each update; grad_norms<s> [10], global L2 norms before clipping;
param_norms<s> [parameters], L2 norms after the last step, in the order of config.parameters.
config: args, batch, steps, input, runs {suffix: settings}, parameters [[name, shape, decayed]],
float32_error {suffix: {losses, param_norms, qkv_bias_norms}}: torch's own float32 run against these
values, the largest |difference| of the losses and the largest relative one of the norms, those of
the attn.qkv.bias apart: the key part of that bias has a gradient of zero (it cannot change a
softmax), and Adam divides the rounding noise there by its own size, so compare it loosely.
torch's clipping multiplies by min(1, clip / (norm + 1e-6)).
"""
import torch
from timm.models import model_parameters
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_weight_decay
from timm.utils import adaptive_clip_grad
from torch.nn.functional import cross_entropy

import formula
from tensors import save
from vit import AVG, SMALL

BATCH, STEPS = 16, 10
ADAMW = dict(optimizer="AdamW", lr=1e-3, betas=[0.9, 0.999], eps=1e-8, weight_decay=0.05)
RUNS = {
    "": dict(ADAMW, clip_norm=1.0),
    "_smooth": dict(ADAMW, clip_norm=1.0, label_smoothing=0.1),
    "_agc": dict(ADAMW, agc=0.01),
    "_adam": dict(ADAMW, optimizer="Adam", weight_decay=0.0, clip_norm=1.0),
    "_sgd": dict(optimizer="SGD", lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.0, clip_norm=1.0),
}
SHAPE = (BATCH, 3, SMALL["img_size"], SMALL["img_size"])


def groups(model, weight_decay):
    return param_groups_weight_decay(model, weight_decay, no_weight_decay_list=model.no_weight_decay())


def train(settings, dtype):
    """(losses, grad_norms, param_norms, model)"""
    model = formula.fill(VisionTransformer(**SMALL | AVG)).train().to(dtype)
    options = {k: v for k, v in settings.items() if k not in ("optimizer", "clip_norm", "agc", "label_smoothing")}
    optimizer = getattr(torch.optim, settings["optimizer"])(groups(model, options.pop("weight_decay")), **options)
    losses, norms = [], []
    for step in range(STEPS):
        images = torch.from_numpy(formula.images("adamw", step, SHAPE)).to(dtype)
        labels = torch.from_numpy(formula.labels(step, BATCH, SMALL["num_classes"]))
        loss = cross_entropy(model(images), labels, label_smoothing=settings.get("label_smoothing", 0.0))
        optimizer.zero_grad()
        loss.backward()
        limit = settings.get("clip_norm", float("inf"))
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item())
        if "agc" in settings:
            adaptive_clip_grad(model_parameters(model, exclude_head=True), settings["agc"])
        optimizer.step()
        losses.append(loss.item())
    return losses, norms, [p.detach().norm().item() for p in model.parameters()], model


def worst(model, exact, single, qkv_bias):
    """Largest relative difference over the parameters that are (not) an attn.qkv.bias."""
    names = [n for n, _ in model.named_parameters()]
    errors = [abs(a - b) / a for n, a, b in zip(names, exact, single) if n.endswith("qkv.bias") == qkv_bias]
    return float(f"{max(errors):.2g}")


def main():
    tensors, error = {}, {}
    for suffix, settings in RUNS.items():
        losses, norms, param_norms, model = train(settings, torch.float64)
        single = train(settings, torch.float32)
        error[suffix] = dict(
            losses=float(f"{max(abs(a - b) for a, b in zip(losses, single[0])):.2g}"),
            param_norms=worst(model, param_norms, single[2], False),
            qkv_bias_norms=worst(model, param_norms, single[2], True))
        tensors["losses" + suffix] = losses
        tensors["grad_norms" + suffix] = norms
        tensors["param_norms" + suffix] = param_norms
        print(suffix, [round(v, 4) for v in losses], [round(v, 2) for v in norms])
    decayed = {p for g in groups(model, 0.05) if g["weight_decay"] for p in g["params"]}
    save("adamw.safetensors", tensors, dict(
        args=SMALL | AVG, batch=BATCH, steps=STEPS, input=list(SHAPE), runs=RUNS,
        parameters=[[n, list(p.shape), p in decayed] for n, p in model.named_parameters()],
        float32_error=error))
    print("  float32 error", error)


if __name__ == "__main__":
    main()
