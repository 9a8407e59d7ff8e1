"""A matrix product of PyTorch (oneDNN or MKL, whichever its build takes) on one thread.   torch_product.py DTYPE M N K TIMES"""
import json
import sys
import time

import torch


def main():
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
    m, n, k, times = map(int, sys.argv[2:])
    torch.set_num_threads(1)
    a, b = torch.rand(m, k).to(dtype), torch.rand(k, n).to(dtype)
    c = torch.empty(m, n, dtype=dtype)
    seconds, cpu_seconds = [], []
    for i in range(times + 2):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        torch.mm(a, b, out=c)
        if i >= 2:
            seconds.append(time.perf_counter() - begin)
            cpu_seconds.append(time.process_time() - cpu_begin)
    print(json.dumps({"name": f"torch {torch.__version__}", "seconds": seconds, "cpu_seconds": cpu_seconds}))


main()
