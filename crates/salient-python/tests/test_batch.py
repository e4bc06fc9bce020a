"""Models over data sets, by themselves, on Ray and on Dask."""

import os
import pickle
import signal

import numpy as np
import pytest
import salient
import salient.batch

from conftest import LINEAR, ROOT

CHECKPOINT = {
    "model": str(ROOT / "examples" / "models" / "minilm.attn"),
    "weights": str(ROOT / "weights" / "minilm.safetensors"),
    "tokenizer": str(ROOT / "weights" / "minilm.tokenizer.json"),
}
TEXTS = ["a cat sat on the mat", "dogs", "the quick brown fox jumps over the lazy dog", "a dog", ""] * 3

needs_checkpoint = pytest.mark.skipif(
    not os.path.exists(CHECKPOINT["weights"]), reason="the checkpoint is not there: tools/fetch-models.sh fetches it"
)
WEIGHTS = {"out.weight": np.arange(12, dtype=np.float32).reshape(4, 3), "out.bias": np.ones(4, np.float32)}


@pytest.fixture
def embedder():
    return salient.batch.Embedder(**CHECKPOINT, threads=1)


@needs_checkpoint
def test_vectors_are_those_of_each_text_alone(embedder):
    together = embedder.embed(TEXTS)
    assert together.shape == (len(TEXTS), 384)
    for text, vector in zip(TEXTS[:5], together):
        np.testing.assert_allclose(embedder.embed([text])[0], vector, rtol=1e-4, atol=1e-5)
    batch = embedder({"text": np.array(TEXTS), "id": np.arange(len(TEXTS))})
    np.testing.assert_array_equal(batch["embedding"], together)
    assert list(batch) == ["text", "id", "embedding"]
    again = pickle.loads(pickle.dumps(embedder))
    np.testing.assert_array_equal(again.embed(TEXTS), together)


def test_a_map_reads_and_writes_columns():
    project = salient.batch.Map(LINEAR, WEIGHTS, inputs={"x": "features"}, outputs={"y": "projected"}, threads=1)
    x = np.random.default_rng(1).standard_normal((5, 3), np.float32)
    want = x @ WEIGHTS["out.weight"].T + 1
    found = pickle.loads(pickle.dumps(project))({"features": x, "id": np.arange(5)})
    np.testing.assert_allclose(found["projected"], want, rtol=1e-5)
    assert list(found) == ["features", "id", "projected"]
    rows = np.empty(5, object)
    rows[:] = list(x)
    np.testing.assert_allclose(project({"features": rows})["projected"], want, rtol=1e-5)


def test_on_dask():
    dataframe = pytest.importorskip("dask.dataframe", reason="dask is not installed")
    import dask
    import pandas

    x = np.random.default_rng(1).standard_normal((40, 3)).astype(np.float32)
    frame = pandas.DataFrame({"id": range(40), "x": list(x)})
    project = salient.batch.Map(LINEAR, WEIGHTS, threads=1)
    meta = frame.head(0).assign(y=pandas.Series([], dtype=object))
    # A column of arrays is one of objects, which Dask else takes for text.
    with dask.config.set({"dataframe.convert-string": False}):
        parts = dataframe.from_pandas(frame, npartitions=4)
        done = parts.map_partitions(project, meta=meta).compute(scheduler="threads")
    np.testing.assert_allclose(np.stack(done["y"].to_list()), x @ WEIGHTS["out.weight"].T + 1, rtol=1e-5)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    yield ray
    ray.shutdown()


def test_on_ray_a_killed_worker_changes_nothing(ray, tmp_path):
    class KilledOnce(salient.batch.Map):
        """A worker that dies at its third batch, the first time that one comes there."""

        def __init__(self, *args, mark, **named):
            super().__init__(*args, **named)
            self.mark, self.count = mark, 0

        def __call__(self, batch):
            self.count += 1
            if self.count == 3 and not os.path.exists(self.mark):
                open(self.mark, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    x = np.random.default_rng(1).standard_normal((400, 3)).astype(np.float32)
    data = ray.data.from_numpy(np.split(x, 20)).rename_columns({"data": "x"})
    mark = str(tmp_path / "killed")
    done = data.map_batches(
        KilledOnce,
        fn_constructor_args=(LINEAR, WEIGHTS),
        fn_constructor_kwargs={"mark": mark},
        num_cpus=1,
        batch_size=20,
        concurrency=2,
    ).take_all()
    assert os.path.exists(mark), "no worker was killed"
    np.testing.assert_array_equal(np.stack([row["x"] for row in done]), x)
    np.testing.assert_allclose(np.stack([row["y"] for row in done]), x @ WEIGHTS["out.weight"].T + 1, rtol=1e-5)
