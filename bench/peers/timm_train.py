"""Training a timm model from a folder of JPEG files on the first GPU.

  timm_train.py MODEL FOLDER BATCH STEPS (eager | compile) (plain | randaugment)

As timm's train.py does it: its loader with a worker for each core and its prefetcher, autocast to bf16, fused AdamW. plain: a
random resized crop and a flip; randaugment: rand-m9-mstd0.5-inc1 and mixup with CutMix besides. The loss is read every 50 steps.
Prints one JSON line; `seconds`: of each 50 steps after the first 50, input included.
"""
import json
import os
import sys
import time

import timm
import torch
from timm.data import Mixup, create_dataset, create_loader
from timm.loss import SoftTargetCrossEntropy

EACH = 50


def loader_of(folder, batch, augmented):
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=1000) if augmented else None
    loader = create_loader(
        create_dataset("", folder), (3, 224, 224), batch, is_training=True, use_prefetcher=True, no_aug=False, hflip=0.5,
        auto_augment="rand-m9-mstd0.5-inc1" if augmented else None, color_jitter=None, interpolation="random",
        num_workers=os.cpu_count(), persistent_workers=True, device=torch.device("cuda"))
    return loader, mixup


def main():
    name, folder, batch, steps, mode, augmented = *sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4]), *sys.argv[5:7]
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = timm.create_model(name, num_classes=1000).cuda().train()
    forward = torch.compile(model) if mode == "compile" else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    loader, mixup = loader_of(folder, batch, augmented == "randaugment")
    loss_of = SoftTargetCrossEntropy() if mixup else torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    seconds, done, start = [], 0, time.perf_counter()
    while done < steps:
        for images, labels in loader:
            if mixup:
                images, labels = mixup(images, labels)
            with torch.autocast("cuda", torch.bfloat16):
                loss = loss_of(forward(images), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if done % EACH == 0:
                value, now = loss.item(), time.perf_counter()
                if done > EACH:
                    seconds.append(now - start)
                start = now
            if done == steps:
                break
    print(json.dumps({"name": f"timm {timm.__version__} {mode}", "loss": value, "seconds": seconds,
                      "images_per_second": EACH * batch * len(seconds) / sum(seconds)}), flush=True)


if __name__ == "__main__":
    main()
