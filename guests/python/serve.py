"""A server on asyncio: a task for each connection.

`echo` sends back what comes. `chat` is that of `guests/c/servers/chat_threads.c`: `join NAME` is answered with `joined
NAME`, and each further line goes to the others in the room.
"""

import asyncio
import collections

BACKLOG = 4096
MOST_LINE = 16384

rooms = collections.defaultdict(set)


async def echo(reader, writer):
    while data := await reader.read(MOST_LINE):
        writer.write(data)
        await writer.drain()


async def chat(reader, writer):
    word, _, name = (await reader.readuntil()).decode().rstrip("\r\n").partition(" ")
    if word != "join" or not name:
        return
    room = rooms[name]
    writer.write(f"joined {name}\n".encode())
    room.add(writer)
    try:
        while True:
            line = await reader.readuntil()
            for other in room:
                if other is not writer:
                    other.write(line)
    finally:
        room.discard(writer)


def until_it_has_gone(handle):
    async def handled(reader, writer):
        try:
            await handle(reader, writer)
        except (OSError, EOFError, UnicodeDecodeError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    return handled


async def listen(handle, port):
    server = await asyncio.start_server(handle, "127.0.0.1", port, backlog=BACKLOG, limit=MOST_LINE)
    print(f"listening on 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    async with server:
        await server.serve_forever()


def serve(design, protocol, port):
    if design != "asyncio":
        raise ValueError(f"there is no design {design}")
    handlers = {"echo": echo, "chat": chat}
    if protocol not in handlers:
        raise ValueError(f"there is no protocol {protocol}")
    asyncio.run(listen(until_it_has_gone(handlers[protocol]), int(port)))
