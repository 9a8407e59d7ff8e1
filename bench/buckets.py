"""How long training waits for data in a bucket whose answers take 20 ms: buckets.py FOLDER SOURCE RECIPE [key=value ...].

SOURCE is a source of data in FOLDER, with {} in the place of FOLDER: "folder({}/train)". Trains by RECIPE twice, on FOLDER itself and
on bench/slow_bucket.py, which serves it. Prints for each the steps, images a second, the share of the training time that was waited
for input, and the largest such share between two lines of the log. What is read comes from the server once, so that nothing is in
memory already: give it one epoch at most.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def measure(program, source, recipe, overrides, workdir, environment):
    subprocess.run([program, "train", recipe, *overrides, f"data.source={source}", "--workdir", workdir, "--no-report"],
                   env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(f"{workdir}/metrics.jsonl") as lines:
        rows = [json.loads(line) for line in lines]
    trained = [row for row in rows if "input_wait" in row]
    # The last lines, as the first ones hold what comes before the first step.
    rate = sorted(row["img/sec"] for row in trained[1:] or trained)[len(trained) // 2]
    print(f"{source}: {trained[-1]['step']} steps, {rate:.0f} images/s, waited {100 * trained[-1].get('badput/input', 0):.2f} %, "
          f"at most {100 * max(row['input_wait'] for row in trained):.2f} %", flush=True)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    folder, source, recipe, *overrides = sys.argv[1:]
    program = os.environ.get("TESSERA", str(HERE.parent / "bin/tessera"))
    server = subprocess.Popen([sys.executable, HERE / "slow_bucket.py", folder, "--delay", os.environ.get("DELAY", "0.02")],
                              stdout=subprocess.PIPE, text=True)
    environment = os.environ | {"AWS_ENDPOINT_URL": server.stdout.readline().strip(), "AWS_ACCESS_KEY_ID": "x",
                                "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    try:
        with tempfile.TemporaryDirectory() as runs:
            for name, root in [("here", folder), ("bucket", "s3://b")]:
                measure(program, source.format(root), recipe, overrides, f"{runs}/{name}", environment)
    finally:
        server.terminate()
    print(server.stdout.read().strip())


if __name__ == "__main__":
    main()
