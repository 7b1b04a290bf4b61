"""nats-py, the official client for Python: each function is what a program does with it.

Started as `scenarios.py CASE URL…`, once for each case, by the program around it. Ends with an exception where
something is not as it should be.
"""

import asyncio
import os
import sys

import nats
from nats import errors

DEADLINE_S = 120


async def connect(url, **options):
    """With the patience of the tests in place of the client's, which ends after 2 s."""
    return await nats.connect(url, connect_timeout=DEADLINE_S, drain_timeout=DEADLINE_S, **options)


async def settle(client):
    """The server has done all that the client sent before. A flush of this client does not tell: its PING can be
    written before what waits to be written."""
    try:
        await client.request("settle", timeout=DEADLINE_S)
        raise AssertionError("nobody should answer")
    except errors.NoRespondersError:
        pass


async def subscribed(client, subject, **options):
    """A subscription that the server knows of."""
    subscription = await client.subscribe(subject, **options)
    await settle(client)
    return subscription


async def following(subscription):
    return await subscription.next_msg(timeout=DEADLINE_S)


async def all_heard(sender, receiver):
    """What one has sent until now is with the other. That a flush of each tells so is true of one server with one
    loop, and not of a cluster, nor of servers with several loops."""
    subject = receiver.new_inbox()
    last = await subscribed(receiver, subject)
    await sender.publish(subject)
    await following(last)


def same(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


async def publish_and_subscribe(url):
    one, two = await connect(url), await connect(url)
    heard = [await subscribed(one, "news"), await subscribed(two, "news")]
    payloads = [b"%d " % i + b"x" * (i * 37 % 4096) for i in range(500)]
    for payload in payloads:
        await one.publish("news", payload)
    for subscription in heard:
        for payload in payloads:
            message = await following(subscription)
            same((message.data, message.subject, message.reply, message.headers), (payload, "news", "", None))
    await one.close()
    await two.close()


async def wildcards(url):
    client, publisher = await connect(url), await connect(url)
    published = ["w.a", "w.a.b", "w.a.b.c", "w.a.x.c", "w.b.b.c", "w.a.b.c.d"]
    matching = {
        "w.a.*.c": ["w.a.b.c", "w.a.x.c"],
        "w.a.>": ["w.a.b", "w.a.b.c", "w.a.x.c", "w.a.b.c.d"],
        "w.*": ["w.a"],
        "*.*.b.*": ["w.a.b.c", "w.b.b.c"],
        "w.>": published,
    }
    heard = {wildcard: await subscribed(client, wildcard) for wildcard in matching}
    for subject in published:
        await publisher.publish(subject, subject.encode())
    await all_heard(publisher, client)
    for wildcard, expected in matching.items():
        same([(await following(heard[wildcard])).subject for _ in expected], expected)
        same(heard[wildcard].pending_msgs, 0)
    await client.close()
    await publisher.close()


async def queue(url):
    members = [await connect(url) for _ in range(3)]
    heard = [await subscribed(member, "work", queue="workers") for member in members]
    publisher = await connect(url)
    for i in range(300):
        await publisher.publish("work", b"%d" % i)
    shares = []
    for member, subscription in zip(members, heard):
        await all_heard(publisher, member)
        shares.append([int((await following(subscription)).data) for _ in range(subscription.pending_msgs)])
    for share in shares:
        assert share == sorted(share) and len(share) < 300, share
    same(sorted(sum(shares, [])), list(range(300)))
    for client in [*members, publisher]:
        await client.close()


async def requests(url):
    asking, answering = await connect(url), await connect(url)

    async def answer(message):
        await message.respond(b"%d" % (2 * int(message.data)))

    await subscribed(answering, "double", cb=answer)
    answers = await asyncio.gather(
        *(asking.request("double", b"%d" % i, timeout=DEADLINE_S) for i in range(100))
    )
    same([int(answer.data) for answer in answers], [2 * i for i in range(100)])
    await asking.close()
    await answering.close()


async def no_responders(url):
    client = await connect(url)
    try:
        await client.request("nobody.there", b"", timeout=DEADLINE_S)
        raise AssertionError("answered")
    except errors.NoRespondersError:
        pass
    await client.close()


async def headers(url):
    one, two = await connect(url), await connect(url)
    heard = await subscribed(two, "letters")
    for payload in [b"", b"hello", b"NATS/1.0\r\n\r\n"]:
        await one.publish("letters", payload, headers={"Kind": "letter", "To": "a b"})
        message = await following(heard)
        same((message.data, message.headers), (payload, {"Kind": "letter", "To": "a b"}))
    await one.publish("letters", b"bare")
    same((await following(heard)).headers, None)
    await one.close()
    await two.close()


async def room(url):
    members = [await connect(url, no_echo=True) for _ in range(10)]
    heard = [await subscribed(member, "rooms.blue") for member in members]
    for turn in range(20):
        for who, member in enumerate(members):
            await member.publish("rooms.blue", b"%d %d" % (who, turn))
    for own, subscription in enumerate(heard):
        turns = {who: 0 for who in range(10) if who != own}
        for _ in range(20 * 9):
            who, turn = map(int, (await following(subscription)).data.split())
            same(turn, turns[who])
            turns[who] += 1
    for member in members:
        await member.close()


async def refused(url, **options):
    try:
        client = await connect(url, allow_reconnect=False, error_cb=ignore, **options)
    except errors.Error as error:
        assert "authorization violation" in str(error).lower(), repr(error)
    else:
        await client.close()
        raise AssertionError(f"let in with {options}")


async def ignore(_error):
    pass


async def token(url):
    await refused(url)
    await refused(url, token="s3crett")
    await refused(url, user="s3cret", password="s3cret")
    await in_and_out(await connect(url, token="s3cret"))


async def user_and_password(url):
    await refused(url)
    await refused(url, user="ada", password="PW")
    await refused(url, user="bob", password="pw")
    await refused(url, token="pw")
    await in_and_out(await connect(url, user="ada", password="pw"))


async def in_and_out(client):
    heard = await subscribed(client, "x")
    await client.publish("x", b"y")
    same((await following(heard)).data, b"y")
    await client.close()


async def maximum_payload(url):
    client = await connect(url)
    same(client.max_payload, 2000)
    heard = await subscribed(client, "big")
    await client.publish("big", b"x" * 2000)
    same((await following(heard)).data, b"x" * 2000)
    try:
        await client.publish("big", b"x" * 2001)
        raise AssertionError("it was sent")
    except errors.MaxPayloadError:
        pass
    await client.close()


async def slow_consumer(url):
    """A client that stops reading is cut off, comes back by itself, and others miss nothing."""
    lost, back = asyncio.Event(), asyncio.Event()

    async def on_lost():
        lost.set()

    async def on_return():
        back.set()

    slow = await connect(
        url, disconnected_cb=on_lost, reconnected_cb=on_return, error_cb=ignore, reconnect_time_wait=0.01
    )
    await subscribed(slow, "flood", cb=ignore, pending_bytes_limit=-1, pending_msgs_limit=-1)
    transport = slow._transport._io_writer.transport
    transport.pause_reading()
    quick, publisher = await connect(url), await connect(url)
    heard = await subscribed(quick, "flood")
    payload = b"x" * 65536
    for _ in range(600):
        await publisher.publish("flood", payload)
        same((await following(heard)).data, payload)
    transport.resume_reading()
    await asyncio.wait_for(lost.wait(), DEADLINE_S)
    await asyncio.wait_for(back.wait(), DEADLINE_S)
    await settle(slow)
    for client in [slow, quick, publisher]:
        await client.close()


async def drain(url):
    closed = asyncio.Event()

    async def on_closed():
        closed.set()

    heard, answered = [], asyncio.Event()

    async def hear(message):
        heard.append(int(message.data))
        await client.publish("out", message.data)

    async def last(message):
        if message.data == b"199":
            answered.set()

    client, other = await connect(url, closed_cb=on_closed), await connect(url)
    await subscribed(other, "out", cb=last)
    await subscribed(client, "in", cb=hear)
    for i in range(200):
        await other.publish("in", b"%d" % i)
    await all_heard(other, client)
    await client.drain()
    await asyncio.wait_for(closed.wait(), DEADLINE_S)
    same(heard, list(range(200)))
    await asyncio.wait_for(answered.wait(), DEADLINE_S)
    await other.close()


async def unsubscribe_after(url):
    client, publisher = await connect(url), await connect(url)
    heard = await client.subscribe("few")
    await heard.unsubscribe(limit=5)
    await settle(client)
    for i in range(10):
        await publisher.publish("few", b"%d" % i)
    await all_heard(publisher, client)
    for i in range(5):
        same((await following(heard)).data, b"%d" % i)
    same(heard.pending_msgs, 0)
    await client.close()
    await publisher.close()


class Duckling:
    """A client of a server that is about to leave, and what happens to it."""

    def __init__(self):
        self.told, self.lost, self.back = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def connect(self, *urls):
        async def on_told():
            self.told.set()

        async def on_lost():
            self.lost.set()

        async def on_return():
            self.back.set()

        self.client = await connect(
            list(urls),
            dont_randomize=True,
            lame_duck_mode_cb=on_told,
            disconnected_cb=on_lost,
            reconnected_cb=on_return,
            error_cb=ignore,
            reconnect_time_wait=0.01,
        )
        same(self.client.connected_url.geturl(), urls[0])
        return self.client


async def lame_duck(url, elsewhere, pid, signal):
    """A client is told that the server leaves, and is served until it goes itself."""
    ducklings = [Duckling(), Duckling()]
    one, two = [await duckling.connect(url, elsewhere) for duckling in ducklings]
    heard = await subscribed(two, "room")
    await settle(one)
    for i in range(100):
        await one.publish("room", b"%d" % i)
    os.kill(int(pid), int(signal))
    for duckling in ducklings:
        await duckling.told.wait()
    for i in range(100, 200):
        await one.publish("room", b"%d" % i)
    for i in range(200):
        same((await following(heard)).data, b"%d" % i)
    for client in [one, two]:
        await client.drain()


async def lame_duck_over(url, elsewhere, pid, signal):
    """A client that stays is closed when the time is over, and comes back by itself to another server."""
    ducklings = [Duckling(), Duckling()]
    one, two = [await duckling.connect(url, elsewhere) for duckling in ducklings]
    heard = await subscribed(two, "room")
    os.kill(int(pid), int(signal))
    for duckling in ducklings:
        await duckling.told.wait()
        await duckling.lost.wait()
        await duckling.back.wait()
        same(duckling.client.connected_url.geturl(), elsewhere)
        await settle(duckling.client)
    await one.publish("room", b"here")
    same((await following(heard)).data, b"here")
    for client in [one, two]:
        await client.close()


def main():
    case, *arguments = sys.argv[1:]
    asyncio.run(asyncio.wait_for(globals()[case](*arguments), DEADLINE_S))


main()
