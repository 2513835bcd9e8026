"""Writes event files with the real writers, and reads them with TensorBoard's own loader. Runs where these are.

python events.py write FOLDER STEPS     # one folder for each writer
python events.py read FILE              # its scalars as JSON, and the seconds of CPU time that it took
"""

import json
import math
import sys
import time
from pathlib import Path


def write(folder: Path, steps: int) -> None:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.image.metadata import create_summary_metadata
    from tensorboard.plugins.scalar.summary_v2 import scalar_pb
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from tensorboardX import SummaryWriter

    def write_events(name: str, events: list) -> None:
        writer = EventFileWriter(str(folder / name))
        for event in events:
            writer.add_event(event)
        writer.close()

    def simple(step: int) -> Summary:  # as torch.utils.tensorboard does
        value = math.nan if step == 3 else math.sin(step / 10)
        return Summary(value=[Summary.Value(tag="loss/train", simple_value=value)])

    def tensor(step: int) -> Summary:  # as tf.summary.scalar does; only the first value has metadata
        made = scalar_pb("loss", math.cos(step / 10))
        if step:
            made.value[0].ClearField("metadata")
        return made

    image = Summary(
        value=[Summary.Value(tag="image", metadata=create_summary_metadata("", "", converted_to_tensor=True))]
    )
    large = Summary(value=[Summary.Value(tag="large", image=Summary.Image(encoded_image_string=bytes(2_000_000)))])
    times = [1_700_000_000 + step / 8 for step in range(steps)]
    write_events("simple", [Event(wall_time=at, step=n, summary=simple(n)) for n, at in enumerate(times)])
    write_events(
        "tensor",
        [
            Event(wall_time=1.0, step=0, summary=image),
            Event(wall_time=2.0, step=0, summary=large),
            *(Event(wall_time=at, step=n, summary=tensor(n)) for n, at in enumerate(times)),
        ],
    )
    write_events(
        "restart",
        [
            *(Event(wall_time=at, step=n, summary=simple(n)) for n, at in enumerate(times[:20])),
            Event(wall_time=2e9, step=10, session_log=SessionLog(status=SessionLog.START)),
            *(Event(wall_time=2e9 + n, step=n, summary=simple(n)) for n in range(10, 15)),
        ],
    )
    with SummaryWriter(str(folder / "tensorboardx")) as writer:
        for step, at in enumerate(times):
            writer.add_scalar("acc", step / steps, step, walltime=at)
            if step % 100 == 0:
                writer.add_histogram("weights", [step, 1.0, 2.0], step)
                writer.add_text("words", "hello", step)


def read(file: str) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    from tensorboard.util.tensor_util import make_ndarray

    started = time.process_time()
    found, scalar_tags = [], set()
    for event in EventFileLoader(file).Load():
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                scalar_tags.add(value.tag)
            if value.tag in scalar_tags:
                found.append((value.tag, event.step, event.wall_time, float(make_ndarray(value.tensor))))
    seconds = time.process_time() - started
    json.dump({"scalars": found, "seconds": seconds}, sys.stdout)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        read(sys.argv[2])
