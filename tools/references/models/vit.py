"""Logits, loss and gradients of ViTs, in float64: tests/references/vit_<case>.safetensors.

Run: tools/references/run.sh vit, or `python vit.py [CASE...]` in its environment.

Weights, images and labels come from formula.py (step 0). Keys, all float32:
  logits               [B, classes]; case `none`: [B, tokens, classes], the head on every token; `token_distillation`: those of
                       the class head
  loss                 [1] mean softmax cross-entropy; case `none`: sum(logits * formula array "ct"); `token_distillation`: that
                       of timm's TokenDistillationTask, soft, task_loss_weight 0.3, temperature 2, of a teacher whose logits are
                       the formula array "teacher" of scale 3
  grad/<name>          gradient of the loss for that parameter, whole
or, where the whole gradient would be too big to keep (every parameter of small_patch16_224,
and the four matrices of blocks.1 in all small cases but `token` and `avg`):
  grad_norm/<name>     [1] its L2 norm
  grad_proj/<name>     [1] its dot product with the formula array "proj/<name>" of scale 1
  grad_head/<name>     [<= 8] its first entries
  pos_embed            cases with sincos2d only: the fixed positions, [1, tokens, dim]
config: case, source ("timm": `args` are VisionTransformer's, with the word "distilled" VisionTransformerDistilled's, or those of
`model`; "big_vision": BigVisionViT's), batch, input (shape), labels, loss, parameters ([[name, shape]] in the model's
order, the fixed positions left out), zero_grads (names of the parameters whose gradient is zero
but for rounding: compare those absolutely), float32_error (torch's own float32 run against these values:
largest |difference| of the logits, and of any gradient relative to its norm).
"""
import sys

import timm
import torch
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from timm.task.distillation import DistillationTeacher
from timm.task.token_distillation import TokenDistillationTask
from torch.nn.functional import cross_entropy

import formula
from big_vision_vit import BigVisionViT, sincos2d
from tensors import save

SMALL = dict(img_size=16, patch_size=4, embed_dim=48, depth=3, num_heads=3, num_classes=10)
AVG = dict(class_token=False, global_pool="avg")
TIMM = {
    "token": {},
    "avg": AVG,
    "avg_cls": dict(global_pool="avg"),
    "map": dict(class_token=False, global_pool="map"),
    "none": dict(global_pool=""),
    "no_embed_class": dict(no_embed_class=True),
    "no_qkv_bias": dict(qkv_bias=False),
    "layer_scale": dict(init_values=0.1),
    "qk_norm": dict(qk_norm=True),
    "pre_norm": dict(pre_norm=True),
    "avg_no_fc_norm": dict(AVG, fc_norm=False),
    "gelu_tanh": dict(act_layer="gelu_tanh"),
    "reg2": dict(reg_tokens=2),
    "reg2_no_embed_class": dict(reg_tokens=2, no_embed_class=True),
    "sincos2d": AVG,
    "distilled": dict(distilled=True),
    "token_distillation": dict(distilled=True),
}
BIG_VISION = {
    "bv_gap": dict(pool_type="gap"),
    "bv_map": dict(pool_type="map"),
    "bv_tok": dict(pool_type="tok"),
    "bv_rep": dict(pool_type="gap", rep_size=32, posemb="sincos2d"),
}
LARGE = "small_patch16_224"


def build(case):
    """(model, source, args, batch)"""
    if case == LARGE:
        return timm.create_model("vit_" + LARGE), "timm", dict(model="vit_" + LARGE), 2
    if case in BIG_VISION:
        args = {"width" if k == "embed_dim" else k: v for k, v in SMALL.items()} | BIG_VISION[case]
        return BigVisionViT(**args), "big_vision", args, 4
    args = SMALL | TIMM[case]
    if "distilled" in args:
        return VisionTransformerDistilled(**SMALL), "timm", args, 4
    model = VisionTransformer(**args)
    if case == "sincos2d":
        del model.pos_embed
        model.register_buffer("pos_embed", sincos2d(4, 4, args["embed_dim"]).float())
        args = args | dict(pos_embed="sincos2d")
    return model, "timm", args, 4


class Answers(torch.nn.Module):
    """A teacher of given logits."""

    def __init__(self, shape):
        super().__init__()
        self.register_buffer("logits", torch.from_numpy(formula.array("teacher", shape, 3.0)))

    def forward(self, images):
        return self.logits.to(images.dtype)


def token_distillation(model, images, labels):
    """Logits of the class head, and the loss."""
    model.pretrained_cfg = dict(mean=(0.5,) * 3, std=(0.5,) * 3)
    task = TokenDistillationTask(model, DistillationTeacher(Answers((len(labels), model.num_classes))), torch.nn.CrossEntropyLoss(),
                                 task_loss_weight=0.3, temperature=2.0)
    out = task.train()(images, labels)
    return out["output"], out["loss"]


def run(model, images, labels, case=None):
    model.zero_grad()
    if case == "token_distillation":
        logits, loss = token_distillation(model, images, labels)
        loss.backward()
        return logits.detach().double(), loss.item(), {n: p.grad.double() for n, p in model.named_parameters()}
    logits = model(images)
    if logits.ndim == 3:
        loss = (logits * torch.from_numpy(formula.array("ct", logits.shape))).sum()
    else:
        loss = cross_entropy(logits, labels)
    loss.backward()
    return logits.detach().double(), loss.item(), {n: p.grad.double() for n, p in model.named_parameters()}


def is_zero(grad):
    """A bias added to every key cannot change a softmax: k_norm.bias has rounding noise here."""
    return grad.norm().item() < 1e-12


def float32_error(got, want):
    logits = (got[0] - want[0]).abs().max().item()
    grads = max(((got[2][n] - g).norm() / g.norm()).item() for n, g in want[2].items() if not is_zero(g))
    return dict(logits=float(f"{logits:.2g}"), grads=float(f"{grads:.2g}"))


def whole(case, name, grad):
    middle = name.startswith("blocks.1.") and grad.ndim == 2
    return case != LARGE and (case in ("token", "avg") or not middle)


def reference(case):
    model, source, args, batch = build(case)
    formula.fill(model).eval()
    shape = (batch, 3, 224, 224) if case == LARGE else (batch, 3, 16, 16)
    images = torch.from_numpy(formula.images(case, 0, shape))
    labels = torch.from_numpy(formula.labels(0, batch, model.head.out_features))
    single = run(model, images, labels, case)
    exact = logits, loss, grads = run(model.double(), images.double(), labels, case)
    error = float32_error(single, exact)

    tensors = dict(logits=logits.numpy(), loss=loss)
    for name, grad in grads.items():
        flat = grad.flatten().numpy()
        if whole(case, name, grad):
            tensors[f"grad/{name}"] = grad.numpy()
        else:
            tensors[f"grad_norm/{name}"] = grad.norm().item()
            tensors[f"grad_proj/{name}"] = flat @ formula.array("proj/" + name, flat.shape)
            tensors[f"grad_head/{name}"] = flat[:8]
    if "sincos2d" in args.values():
        tensors["pos_embed"] = model.pos_embed.numpy()
    save(f"vit_{case}.safetensors", tensors, dict(
        case=case, source=source, args=args, batch=batch, input=list(shape), labels=labels.tolist(),
        loss="sum(logits * ct)" if logits.ndim == 3 else case if case == "token_distillation" else "softmax cross-entropy, mean",
        parameters=[[n, list(p.shape)] for n, p in model.named_parameters()],
        zero_grads=[n for n, g in grads.items() if is_zero(g)], float32_error=error))
    print(f"  loss {loss:.6f}, float32 error {error}")


if __name__ == "__main__":
    torch.manual_seed(0)
    for case in sys.argv[1:] or [*TIMM, *BIG_VISION, LARGE]:
        reference(case)
