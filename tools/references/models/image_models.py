"""Logits, loss, gradients and five SGD steps of small models of each family, in float64: tests/references/model_<case>.safetensors.

Run: tools/references/run.sh image_models, or `python image_models.py [CASE...]` in its environment.

Weights, images and labels come from formula.py. In eval mode, with images of step 0:
  logits               [B, classes]
  loss                 [1] mean softmax cross-entropy
  grad/<name>          gradient of the loss for that parameter, whole, where it has up to 512 elements; else
  grad_norm/<name>, grad_proj/<name>, grad_head/<name>   as in vit.py
Then, in train mode and from the first weights, five steps of SGD (momentum 0.9, lr of the config; step k on images and labels of step k):
  losses               [5] before each update
  param_norms          [parameters] L2 norms of (parameter - its first value) after the last step
  buffer/<name>        running statistics after the last step
config: case, family and args (Tessera's: models/family.h; args are those of timm's class, with a word for what is a class there),
batch, input, labels, parameters [[name, shape]], buffers [[name, shape]], lr, zero_grads, float32_error as in vit.py, with torch's largest relative error of the losses and of the
param_norms.
"""
import sys
from functools import partial

import torch
from timm.layers import StdConv2d
from timm.models.convnext import ConvNeXt
from timm.models.mlp_mixer import Affine, MlpMixer, ResBlock
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from timm.models.resnetv2 import ResNetV2
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cross_entropy

import formula
from tensors import save
from vit import SMALL, float32_error, is_zero, run

BATCH, STEPS, WHOLE = 4, 5, 512
MIXER = dict(img_size=16, patch_size=4, embed_dim=24, num_blocks=3)
RESNET = dict(layers=[1, 3, 2, 1], channels=[8, 8, 12, 16])
CONVNEXT = dict(dims=[8, 12, 16, 24], depths=[1, 2, 3, 1])


def mixer(args):
    return MlpMixer(num_classes=10, **args)


def resmlp(args):
    return MlpMixer(num_classes=10, block_layer=ResBlock, norm_layer=Affine, **args)


def vit(args):
    return VisionTransformer(num_classes=10, **args)


def bit(args):
    return ResNetV2(num_classes=10, stem_type="fixed", conv_layer=partial(StdConv2d, eps=1e-8), **args)


def resnet(args):
    blocks = dict(basic=BasicBlock, bottleneck=Bottleneck)
    return ResNet(num_classes=10, **{k: blocks[v] if k == "block" else v for k, v in args.items()})


def convnext(args):
    return ConvNeXt(num_classes=10, **args)


DEIT3 = {k: v for k, v in SMALL.items() if k != "num_classes"} | dict(no_embed_class=True, init_values=1e-6)
# case: (family, builder, arguments, side of the images)
CASES = {
    "mixer": ("mixer", mixer, MIXER, 16),
    "mixer_ratio": ("mixer", mixer, MIXER | dict(mlp_ratio=[1.25, 3.0]), 16),
    "resmlp": ("resmlp", resmlp, MIXER | dict(mlp_ratio=4), 16),
    "deit3": ("vit", vit, DEIT3, 16),
    "siglip": ("vit", vit, dict(DEIT3, no_embed_class=False, init_values=None, class_token=False, global_pool="map"), 16),
    "convnext": ("convnext", convnext, CONVNEXT, 64),
    "convnext_conv_mlp": ("convnext", convnext, CONVNEXT | dict(conv_mlp=True, stem_type="overlap_tiered"), 64),
    "convnext_hnf": ("convnext", convnext, CONVNEXT | dict(conv_mlp=True, head_norm_first=True, stem_type="overlap"), 64),
    "convnext_v2": ("convnext", convnext, CONVNEXT | dict(use_grn=True, ls_init_value=None, head_hidden_size=16), 64),
    "bit": ("bit", bit, dict(layers=[1, 2, 3, 1], channels=[32, 32, 64, 64], stem_chs=32, bottle_ratio=1.0), 64),
    "resnet_basic": ("resnet", resnet, RESNET | dict(block="basic"), 64),
    "resnet": ("resnet", resnet, RESNET | dict(block="bottleneck", cardinality=2, base_width=64), 64),
    "resnet_d": ("resnet", resnet, RESNET | dict(
        block="bottleneck", stem_width=16, stem_type="deep_tiered", avg_down=True), 72),
    "resnet_gn": ("resnet", resnet, dict(
        block="basic", layers=[1, 2, 1, 1], channels=[32, 32, 64, 64], norm_layer="groupnorm"), 64),
}


def fill(model):
    """formula.fill, and running statistics."""
    formula.fill(model)
    with torch.no_grad():
        for name, b in model.named_buffers():
            if b.is_floating_point() and "running" in name:
                b.copy_(torch.from_numpy(formula.parameter(name, tuple(b.shape))))
    return model


def rate(case):
    """Norms over few values amplify what they are given: at a higher rate rounding alone would lead astray."""
    return 1e-4 if case == "bit" or case.startswith("resnet") else 0.02


def train(case, model, shape):
    """losses, norms of the updates, buffers"""
    model = fill(model).train()
    dtype = next(model.parameters()).dtype
    first = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=rate(case), momentum=0.9)
    losses = []
    for step in range(STEPS):
        images = torch.from_numpy(formula.images(case, step, shape)).to(dtype)
        loss = cross_entropy(model(images), torch.from_numpy(formula.labels(step, shape[0], 10)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    norms = [(p.detach() - first[n]).norm().item() for n, p in model.named_parameters()]
    return losses, norms, {n: b.double().numpy() for n, b in model.named_buffers()}


def reference(case):
    family, build, args, side = CASES[case]
    shape = (BATCH, 3, side, side)
    model = fill(build(args)).eval()
    images = torch.from_numpy(formula.images(case, 0, shape))
    labels = torch.from_numpy(formula.labels(0, BATCH, 10))
    single = run(model, images, labels)
    exact = logits, loss, grads = run(model.double(), images.double(), labels)
    error = float32_error(single, exact)
    tensors = dict(logits=logits.numpy(), loss=loss)
    for name, grad in grads.items():
        if grad.numel() <= WHOLE:
            tensors[f"grad/{name}"] = grad.numpy()
        else:
            flat = grad.flatten().numpy()
            tensors[f"grad_norm/{name}"] = grad.norm().item()
            tensors[f"grad_proj/{name}"] = flat @ formula.array("proj/" + name, flat.shape)
            tensors[f"grad_head/{name}"] = flat[:8]
    single = train(case, build(args), shape)
    losses, norms, buffers = train(case, model, shape)
    for name, got, want in (("losses", single[0], losses), ("param_norms", single[1], norms)):
        error[name] = float(f"{max(abs(a / b - 1) for a, b in zip(got, want) if b > 1e-9):.2g}")
    tensors |= dict(losses=losses, param_norms=norms) | {f"buffer/{n}": b for n, b in buffers.items()}
    save(f"model_{case}.safetensors", tensors, dict(
        case=case, family=family, args=args, batch=BATCH, lr=rate(case), input=list(shape), labels=labels.tolist(),
        parameters=[[n, list(p.shape)] for n, p in model.named_parameters()],
        buffers=[[n, list(b.shape)] for n, b in model.named_buffers()],
        zero_grads=[n for n, g in grads.items() if is_zero(g)], float32_error=error))
    print(f"  losses {[round(v, 4) for v in losses]}, float32 error {error}")


if __name__ == "__main__":
    torch.manual_seed(0)
    for case in sys.argv[1:] or CASES:
        reference(case)
