# An echo server and a client over WebSocket. The client fails when its connection is
# disturbed, and ends in order at TERM.
import asyncio, os, random, signal, socket, sys

import websockets


def ready():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.connect(os.environ["NOTIFY_SOCKET"])
    s.send(b"READY=1")


async def echo(ws):
    async for message in ws:
        await ws.send(message)


async def server(port):
    async with websockets.serve(echo, "127.0.0.1", port, ping_interval=None):
        ready()
        await asyncio.Event().wait()


async def client(port):
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    async with websockets.connect(f"ws://127.0.0.1:{port}", ping_interval=1, ping_timeout=120) as ws:
        exchanges = 0
        while not over.is_set():
            said = random.choice(["hello", b"\0" * 1000, os.urandom(50_000)])
            await ws.send(said)
            if await ws.recv() != said:
                sys.exit("another message came back")
            exchanges += 1
            if exchanges == 1:
                ready()
            await asyncio.sleep(0.3)
    print(exchanges, "messages there and back")


asyncio.run({"server": server, "client": client}[sys.argv[1]](int(sys.argv[2])))
