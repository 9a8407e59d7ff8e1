"""A folder of JPEG files through a timm model.   predict.py PEER MODEL FOLDER [bf16] [cuda]

PEER: timm (its loader with two workers and the eager model, as its inference.py), compile (the same, torch.compile), onnxruntime
and openvino (the same loader, the model exported); `save`: writes the model into FOLDER as timm's directory, with weights from a
seed. Prints images a second over the whole loop, from the first file read to the last answer; importing, loading and compiling
come before it. cuda: timm and compile on the first GPU, 128 images at once, with a worker for each core.
"""
import json
import os
import sys
import time

import numpy as np
import timm
import torch
from timm.data import create_dataset, create_loader, resolve_data_config

CUDA = "cuda" in sys.argv[4:]
BATCH, WORKERS = (128, os.cpu_count()) if CUDA else (32, 2)
DEVICE = torch.device("cuda" if CUDA else "cpu")


def model_of(name):
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=1000).eval()


def runner(peer, model, size, half):
    """images, an array of torch -> logits"""
    example = torch.zeros(BATCH, 3, size, size)
    if peer in ("timm", "compile"):
        if CUDA:
            torch.set_float32_matmul_precision("high")  # TF32, as XLA has it
        model = model.to(DEVICE)
        forward = torch.compile(model) if peer == "compile" else model

        def run(images):
            with torch.inference_mode(), torch.autocast(DEVICE.type, torch.bfloat16, enabled=half):
                return forward(images.to(DEVICE)).float().cpu().numpy()
        return run
    if peer == "onnxruntime":
        import onnxruntime
        path = f"/tmp/tessera_bench_{os.getpid()}.onnx"
        torch.onnx.export(model, (example,), path, input_names=["x"], dynamo=True, external_data=False, verbose=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = WORKERS
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        os.remove(path)
        return lambda images: session.run(None, {"x": images.numpy()})[0]
    import openvino
    core = openvino.Core()
    core.set_property("CPU", {"INFERENCE_NUM_THREADS": WORKERS, "INFERENCE_PRECISION_HINT": "bf16" if half else "f32"})
    compiled = core.compile_model(openvino.convert_model(model, example_input=example, input=[example.shape]), "CPU")
    return lambda images: compiled(images.numpy())[0]


def main():
    peer, name, folder, half = sys.argv[1], sys.argv[2], sys.argv[3], "bf16" in sys.argv[4:]
    model = model_of(name)
    if peer == "save":
        timm.models.save_for_hf(model, folder, safe_serialization=True)
        return
    config = resolve_data_config({}, model=model)
    size = config["input_size"][-1]
    run = runner(peer, model, size, half)
    loader = create_loader(create_dataset("", folder), config["input_size"], BATCH, use_prefetcher=False, num_workers=WORKERS,
                           pin_memory=CUDA, interpolation=config["interpolation"], mean=config["mean"], std=config["std"],
                           crop_pct=config["crop_pct"], device=torch.device("cpu"))
    run(torch.zeros(BATCH, 3, size, size))
    start, images, top = time.perf_counter(), 0, []
    for batch, _ in loader:
        rows = len(batch)
        # Programs of one size take the last batch filled up.
        if rows < BATCH:
            batch = torch.cat([batch, torch.zeros(BATCH - rows, *batch.shape[1:])])
        top.append(np.argmax(run(batch)[:rows], axis=1))
        images += rows
    seconds = time.perf_counter() - start
    print(json.dumps({"name": peer, "images": images, "seconds": [seconds], "images_per_second": images / seconds}), flush=True)


if __name__ == "__main__":
    main()
