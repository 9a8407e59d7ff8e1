"""big_vision's ViT (models/vit.py at commit 0127fb6) in torch, with timm's parameter names.

Written by hand because big_vision is not a package one can install. It was compared once with the
original (JAX 0.10.2, flax 0.12.8, float64): the logits, the loss and the gradients looked at
(embedding, fc1, head, probe) of the four cases in vit.py agree to the float32 rounding of the files.
Differences from timm's defaults: tanh GELU; the final norm (`norm` = encoder_norm) before the
pooling; the position added before the class token is put in front; a tanh layer `pre_logits` when
rep_size is given.

flax -> names here: embedding = patch_embed.proj, pos_embedding = pos_embed, cls = cls_token,
Transformer/encoderblock_i = blocks.i (query, key, value = attn.qkv, out = attn.proj),
encoder_norm = norm, MAPHead_0 = attn_pool (probe = latent, query = q, key and value = kv,
out = proj, LayerNorm_0 = norm, MlpBlock_0 = mlp), pre_logits, head.
"""
import torch
from torch import nn
from torch.nn.functional import gelu


def sincos2d(height, width, dim, temperature=1e4):
    """Fixed positions [1, height*width, dim], float64: [sin x, cos x, sin y, cos y] by quarters."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    omega = 1 / temperature ** (torch.arange(dim // 4, dtype=torch.float64) / (dim // 4 - 1))
    y, x = (t.flatten()[:, None] * omega for t in (y, x))
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], dim=1)[None]


class Mlp(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(gelu(self.fc1(x), approximate="tanh"))


def attend(q, k, v, heads):
    q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
    weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        return self.proj(attend(*self.qkv(x).chunk(3, -1), self.heads))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(dim, 1e-6), Attention(dim, heads)
        self.norm2, self.mlp = nn.LayerNorm(dim, 1e-6), Mlp(dim)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class MapHead(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.latent = heads, nn.Parameter(torch.zeros(1, 1, dim))
        self.q, self.kv, self.proj = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)
        self.norm, self.mlp = nn.LayerNorm(dim, 1e-6), Mlp(dim)

    def forward(self, x):
        q = self.q(self.latent).expand(len(x), -1, -1)
        x = self.proj(attend(q, *self.kv(x).chunk(2, -1), self.heads))
        return (x + self.mlp(self.norm(x)))[:, 0]


class BigVisionViT(nn.Module):
    """pool_type: gap | map | tok; rep_size 0: no pre_logits layer; posemb: learn | sincos2d."""

    def __init__(self, img_size, patch_size, width, depth, num_heads, num_classes,
                 pool_type="gap", rep_size=0, posemb="learn"):
        super().__init__()
        side = img_size // patch_size
        self.pool_type = pool_type
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width)) if pool_type == "tok" else None
        if posemb == "learn":
            self.pos_embed = nn.Parameter(torch.zeros(1, side * side, width))
        else:
            self.register_buffer("pos_embed", sincos2d(side, side, width).float())
        self.patch_embed = nn.Module()
        self.patch_embed.proj = nn.Conv2d(3, width, patch_size, patch_size)
        self.blocks = nn.Sequential(*(Block(width, num_heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, 1e-6)
        self.attn_pool = MapHead(width, num_heads) if pool_type == "map" else None
        self.pre_logits = nn.Linear(width, rep_size) if rep_size else None
        self.head = nn.Linear(rep_size or width, num_classes)

    def forward(self, images):
        x = self.patch_embed.proj(images).flatten(2).transpose(1, 2) + self.pos_embed
        if self.cls_token is not None:
            x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1)
        x = self.norm(self.blocks(x))
        if self.pool_type == "map":
            x = self.attn_pool(x)
        else:
            x = x.mean(1) if self.pool_type == "gap" else x[:, 0]
        if self.pre_logits is not None:
            x = self.pre_logits(x).tanh()
        return self.head(x)
