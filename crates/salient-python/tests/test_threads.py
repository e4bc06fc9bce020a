"""Calls from several threads, and what they leave behind."""

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import salient

from conftest import ATTEND


def test_eight_threads_get_the_same_bits(attend, random):
    arrays = [random.standard_normal((200, 32), np.float32) for _ in range(3)]
    want = attend(*arrays)
    wrong = []

    def run():
        for _ in range(20):
            if not np.array_equal(attend(*arrays), want):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_threads_of_many_shapes_share_a_model(random):
    attend = salient.compile(ATTEND)
    sets = [[random.standard_normal((n, 8), np.float32) for n in (t, 7, 7)] for t in range(1, 25)]
    want = [attend(*arrays) for arrays in sets]
    wrong = []

    def run(start):
        for at in range(48):
            at = (start + at) % len(sets)
            if not np.array_equal(attend(*sets[at]), want[at]):
                wrong.append(at)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(0, 24, 3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_python_runs_while_a_model_runs(random):
    attend = salient.compile(ATTEND, threads=1)
    arrays = [random.standard_normal((4000, 64), np.float32) for _ in range(3)]
    attend(*arrays)
    done = threading.Event()

    def run():
        attend(*arrays)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    steps = 0
    while not done.is_set():
        steps += 1
        time.sleep(0)
    thread.join()
    assert steps > 10, "this thread stood still"


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_many_calls_leave_no_memory_behind(attend, qkv):
    def calls(count):
        for _ in range(count):
            attend(*qkv)
        gc.collect()
        return _resident()

    before = calls(2_000)
    after = calls(100_000)
    assert after - before < 4 << 20, f"{after - before} bytes more after 100,000 calls"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_gets_the_same(random):
    # In a process of its own: a test runner has threads that a fork does not take along.
    program = f"""
import os, sys, numpy as np, salient
attend = salient.compile({ATTEND!r}, threads=2)
x = np.random.default_rng(0).standard_normal((300, 16), np.float32)
want = attend(x, x, x)
child = os.fork()
if child == 0:
    sys.exit(0 if np.array_equal(attend(x, x, x), want) else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
