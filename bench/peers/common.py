"""What the comparisons share: threads, turns, checks, JSON lines.

Import this before any other library: it pins the process, and so every thread pool in it, to --threads processors.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

_parser = argparse.ArgumentParser()
_parser.add_argument("--threads", type=int, default=1)
_parser.add_argument("--salient", default="target/release/salient", help="the program under test")
_parser.add_argument("--out", default="", help="file to which JSON lines are appended")
_parser.add_argument("--seconds", type=float, default=0.2, help="length of a turn")
_parser.add_argument("--rounds", type=int, default=7, help="turns of each contestant")
_parser.add_argument("--cases", default="", help="only cases whose names contain one of these: a,b")
_parser.add_argument("--only", default="", help="only contestants whose names begin with one of these: a,b")
options, _ = _parser.parse_known_args()

os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: options.threads]))
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_name] = str(options.threads)
# Threads of one contestant do not spin into the turn of the next.
os.environ.setdefault("KMP_BLOCKTIME", "1")
os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", tempfile.mkdtemp(prefix="inductor-"))

import numpy as np  # noqa: E402

RUN = int(time.time())
HERE = os.path.dirname(os.path.abspath(__file__))


def _listed(name, wanted, matches):
    return not wanted or any(matches(name, part) for part in wanted.split(","))


def listed(case):
    """Whether --cases wants it."""
    return _listed(case, options.cases, lambda name, part: part in name)


def emit(**row):
    line = json.dumps({"run": RUN, "threads": options.threads, **row})
    print(line, flush=True)
    if options.out:
        with open(options.out, "a") as file:
            file.write(line + "\n")


class Call:
    """A contestant of this process: a function without arguments that returns its output."""

    def __init__(self, function, turn_output=lambda x: x):
        self.function = function
        self.turn_output = turn_output

    def output(self):
        return self.turn_output(np.asarray(self.function(), dtype=np.float32))

    def turn(self, seconds):
        self.function()  # caches and pools settle; not counted
        times, end = [], time.perf_counter() + seconds
        while not times or time.perf_counter() < end:
            start = time.perf_counter()
            self.function()
            times.append((time.perf_counter() - start) * 1e3)
        return times


class Salient:
    """The program under test as a process that stays loaded: `salient bench-server`."""

    def __init__(self, file, model, inputs, weights=None, sets=(), extra=(), request="turn"):
        self.request = request
        self.folder = tempfile.TemporaryDirectory()
        path = lambda name: os.path.join(self.folder.name, name)  # noqa: E731
        np.savez(path("inputs.npz"), **inputs)
        words = [options.salient, "bench-server", os.path.join(HERE, file), "--model", model, "--threads", str(options.threads)]
        words += ["--inputs", path("inputs.npz"), *extra]
        if weights:
            np.savez(path("weights.npz"), **weights)
            words += ["--weights", path("weights.npz")]
        for name, value in sets:
            words += ["--set", f"{name}={value}"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.start = self._answer()

    def _answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the program ended with code {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()
        return self._answer()

    def outputs(self):
        self.ask("turn 0")
        path = os.path.join(self.folder.name, "outputs.npz")
        self.ask(f"write {path}")
        arrays = np.load(path)
        return [arrays[name] for name in arrays.files]

    def output(self):
        return self.outputs()[0]

    def turn(self, seconds):
        return self.ask(f"{self.request} {seconds}")["ms"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(group, case, makers, flops, tolerance=2e-3, beside=()):
    """Lets contestants, {name: function that makes one}, take turns; the first one's output is the reference.

    `flops` counts what the result needs: what a mask hides is credited to nobody. Contestants named in `beside` compute something
    else, for a ratio of times: their outputs are not compared, and they are no peers in reports.
    """
    if not listed(case):
        return
    ready, about, reference = {}, {}, None
    for name, make in makers.items():
        if not _listed(name, options.only, str.startswith):
            continue
        try:
            start = time.perf_counter()
            contestant = make()
            output = contestant.output()
            first = time.perf_counter() - start
            reference = output if reference is None else reference
            error = 0.0 if name in beside else float(np.abs(output.reshape(-1) - reference.reshape(-1)).max())
        except Exception as error:  # that a peer cannot do it is a result too
            emit(group=group, case=case, peer=name, error=f"{type(error).__name__}: {error}".replace("\n", " ")[:300])
            continue
        ready[name] = contestant
        about[name] = {"first_s": round(first, 3), "max_error": float(f"{error:.2g}")}
        if name in beside:
            about[name] = {"first_s": round(first, 3), "beside": True}
        if error > tolerance or not np.isfinite(error):
            about[name]["wrong"] = True
    race(group, case, ready, flops, about)


def race(group, case, ready, flops=None, about=None):
    """Lets contestants that are made, {name: contestant}, take turns; `about` says more of each."""
    times = {name: [] for name in ready}
    peak = None
    for _ in range(options.rounds):
        for name, contestant in ready.items():
            times[name].append(contestant.turn(options.seconds))
            if isinstance(contestant, Salient):
                peak = max(peak or 0, contestant.ask("peak")["fma"])
    for name, contestant in ready.items():
        calls = np.array([ms for turn in times[name] for ms in turn])
        median = float(np.median(calls))
        row = {"median_ms": round(median, 4), "min_ms": round(float(calls.min()), 4), "calls": len(calls)}
        if flops:
            row["gflops"] = round(flops / median / 1e6, 1)
        if flops and peak:
            row["of_peak"] = round(flops / median / 1e6 / peak / options.threads, 3)
            row["fma_peak"] = round(peak, 1)
        emit(group=group, case=case, peer=name, **row, **(about or {}).get(name, {}))
        if isinstance(contestant, Salient):
            contestant.close()


# ---- how peers are made


def torch_call(function, *arrays, **words):
    """A PyTorch function on arrays, without gradients."""
    import torch

    torch.set_num_threads(options.threads)

    def call():
        with torch.inference_mode():
            return function(*arrays, **words)

    return Call(call)


def plain_call(function, *arrays):
    """A PyTorch function on its own arrays, without gradients; freezing wants `no_grad` and not `inference_mode`."""
    import torch

    def call():
        with torch.no_grad():
            return function(*arrays)

    return Call(call)


def torch_arrays(*arrays):
    import torch

    torch.set_num_threads(options.threads)
    torch._dynamo.reset()
    return [torch.from_numpy(x) for x in arrays]


def ort_session(model):
    """An ONNX model, or its path, in ONNX Runtime."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.log_severity_level = 3
    # Otherwise its threads spin through the turns of others.
    settings.add_session_config_entry("session.force_spinning_stop", "1")
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    model = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(model, settings, providers=["CPUExecutionProvider"])


def ort_call(model, feeds, turn_output=lambda x: x):
    """A call of an ONNX model in ONNX Runtime."""
    session = ort_session(model)
    return Call(lambda: session.run(None, feeds)[0], turn_output)


def onnx_model(node, inputs, output, constants=()):
    """A model of one node: inputs and output are (name, shape)."""
    from onnx import TensorProto, helper

    info = lambda pair: helper.make_tensor_value_info(pair[0], TensorProto.FLOAT, pair[1])  # noqa: E731
    graph = helper.make_graph([node], "graph", [info(x) for x in inputs], [info(output)], list(constants))
    sets = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets)
    model.ir_version = 10
    return model


def openvino_call(model, feeds):
    """An OpenVINO model, in- and outputs shared rather than copied."""
    import openvino

    hints = {"NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    hints["INFERENCE_NUM_THREADS"] = options.threads
    request = openvino.Core().compile_model(model, "CPU", hints).create_infer_request()
    return Call(lambda: request.infer(feeds, share_inputs=True, share_outputs=True)[0])
