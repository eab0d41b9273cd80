"""A process that appends batches of three to a store, says which seq was committed, and goes on until it is killed."""

import asyncio
import sys

from toolyard.core.conversation.events import Entry, StopRequested
from toolyard.core.store import Append
from toolyard.stores.sqlite import SqliteStore

CONVERSATION = "c"
BATCH = 3


async def main(path: str) -> None:
    store = await SqliteStore.open(path)
    epoch = (await store.claim(CONVERSATION)).epoch
    last = len(await store.read(CONVERSATION))
    while True:
        batch = [
            Entry(conversation=CONVERSATION, seq=last + number, at=0.0, event=StopRequested(by="ana" * 200))
            for number in range(1, BATCH + 1)
        ]
        await store.append(Append(conversation=CONVERSATION, epoch=epoch, entries=batch))
        last += BATCH
        sys.stdout.write(f"{last}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
