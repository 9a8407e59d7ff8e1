"""Plans the training step of every named model for a TPU slice of 256 chips: docs/devices/plans.md.

Run: ./dev plan-models [PATTERN]

Each model of `tessera models PATTERN` goes into recipes/imagenet.toml (two towers into recipes/siglip_b16.toml) at its own size
of image and with a batch of 4,096, those of convolutions of 2,048 and optimization level 1. Models of over 60 GFLOP an image
train with a quarter of the batch, those of over 400 with a sixteenth, those that make libtpu abort with half; models of over 500
million parameters are split over all chips. Without PATTERN, rows that the table has are left as they are. Compiling takes most
of a minute for each model.
"""
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPOLOGY = "v5e:16x16"
TABLE = ROOT / "docs/devices/plans.md"
HEAD = f"""# Named models on 256 chips

What `tessera plan` says of one training step for {TOPOLOGY}, made by `./dev plan-models` on a machine without a TPU: the real
step, compiled by libtpu. Images are classified as [recipes/imagenet.toml](../recipes/imagenet.toml) does it (AdamW, bf16; the
state is split over all chips where the model has over 500 million parameters), pairs trained as
[recipes/siglip_b16.toml](../recipes/siglip_b16.toml). Images/s are the roofline's upper bound, not a measurement; memory is the
compiler's own figure for one chip of 16 GiB. Seconds are of compiling, on one or two cores with other work beside, and a host
whose speed varied; models of convolutions (bit, convnext, resnet) are compiled with `optimization_level = 1`, which takes libtpu
half as long as its own level, for programs that need up to a third more memory.
"""
COLUMNS = ["family", "variant", "px", "million parameters", "batch", "GiB a chip", "images/s", "MFU %", "bound", "seconds"]


def tessera(*words):
    return subprocess.run([ROOT / "bin/tessera", *words], cwd=ROOT, text=True, capture_output=True, check=False)


# Convolutions take libtpu longest to compile: with a batch of 4,096 and its own optimization level up to three minutes.
def convolves(model):
    return model["name"] in ("bit", "convnext", "resnet")


def batch_of(model):
    gflop = model["flops"] / 1e9
    usual = 2048 if convolves(model) else 4096
    return usual // (1 if gflop <= 60 else 4 if gflop <= 400 else 16)


def recipe_words(model, batch):
    size = model["image_size"]
    if model["name"] == "two_tower":
        tokens = f"tokenize({model['tokens']}, model=fake({model['vocabulary']}))"
        images = f"decode | resize({size}) | value_range(-1, 1)"
        return ["recipes/siglip_b16.toml", f"model={{name=\"two_tower\", variant=\"{model['variant']}\"}}",
                f"data.pp=decode | resize({size}) | flip_lr | value_range(-1, 1) | {tokens}",
                f"eval.retrieval_coco.data.pp={images} | {tokens}", f"eval.imagenet_zero_shot.data.pp={images}",
                f"data.batch={batch}"]
    chain = f"decode | resize({size}) | flip_lr | normalise()"
    mesh = "fsdp=-1" if model["parameters"] > 500e6 else "replica=-1"
    return ["recipes/imagenet.toml", f"mesh={mesh}", f"model.name={model['name']}", f"model.variant={model['variant']}",
            f"data.pp={chain}", f"eval.val.data.pp=decode | resize({size}) | normalise()", f"data.batch={batch}",
            *(["optimization_level=1"] if convolves(model) else [])]


def plan(model, batch):
    done = tessera("plan", *recipe_words(model, batch), "--sweep", TOPOLOGY, "--json")
    lines = done.stdout.strip().splitlines()
    if done.returncode < 0:  # libtpu's way of reporting a bug of its own is to end the process
        return None
    if not lines:
        sys.exit(f"{model['variant']}: exit {done.returncode}\n{done.stderr}")
    return json.loads(lines[-1])


def row(model, p):
    if p is None:
        return [model["name"], model["variant"], str(model["image_size"]), f"{model['parameters'] / 1e6:,.1f}",
                *["–" for _ in COLUMNS[4:-2]], "libtpu aborts", "–"]
    memory = f"{p['per_device']['peak_bytes'] / 2**30:.2f}" + ("" if p["fits"] else " (too much)")
    cells = [model["name"], model["variant"], model["image_size"], f"{p['parameters'] / 1e6:,.1f}", f"{p['batch']:,}", memory,
             f"{p['images_per_second']:,.0f}", f"{100 * p['mfu']:.0f}", p["bound"], f"{p['compile_seconds']:.0f}"]
    return [str(cell) for cell in cells]


def read_table():
    """(family, variant) -> cells."""
    lines = TABLE.read_text().splitlines() if TABLE.exists() else []
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {(cells[0], cells[1]): cells for cells in rows[1:]}


def write_table(rows):
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cells) + " |" for _, cells in sorted(rows.items())]
    TABLE.write_text(HEAD + "\n" + "\n".join(lines) + "\n")


def main():
    rows = read_table()
    models = [json.loads(line) for line in tessera("models", *sys.argv[1:], "--json").stdout.splitlines()]
    if len(sys.argv) == 1:
        models = [model for model in models if (model["name"], model["variant"]) not in rows]
    for number, model in enumerate(models, 1):
        batch = batch_of(model)
        rows[model["name"], model["variant"]] = cells = row(model, plan(model, batch) or plan(model, batch // 2))
        write_table(rows)
        print(f"{number:>4} of {len(models)}  {model['variant']:<44}{cells[-1]:>5} s", flush=True)


if __name__ == "__main__":
    main()
