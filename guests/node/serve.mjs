// A server on Node's event loop.
//
// `echo` sends back what comes. `chat` is that of guests/c/servers/chat_threads.c: `join NAME` is answered with `joined
// NAME`, and each further line goes to the others in the room.

import { createServer } from 'node:net';

const MOST_LINE = 16384;
const NEWLINE = 0x0a;

const echo = (socket) => socket.pipe(socket);

const rooms = new Map();

function roomNamed(name) {
  if (!rooms.has(name)) rooms.set(name, new Set());
  return rooms.get(name);
}

function chat(socket) {
  let room = null;
  let held = Buffer.alloc(0);
  const hear = (line) => {
    if (room) {
      for (const other of room) if (other !== socket) other.write(line);
      return;
    }
    const [, name] = /^join (.+?)\r?\n$/.exec(line.toString()) ?? [];
    if (!name) return void socket.destroy();
    socket.write(`joined ${name}\n`);
    room = roomNamed(name).add(socket);
  };
  socket.on('data', (bytes) => {
    let all = held.length ? Buffer.concat([held, bytes]) : bytes;
    for (let end; (end = all.indexOf(NEWLINE)) >= 0 && !socket.destroyed; all = all.subarray(end + 1)) {
      hear(all.subarray(0, end + 1));
    }
    held = all;
    if (held.length > MOST_LINE) socket.destroy();
  });
  socket.on('close', () => room?.delete(socket));
}

const protocols = { echo, chat };

export async function serve(design, protocol, port) {
  if (design !== 'event-loop') throw new Error(`there is no design ${design}`);
  const handle = protocols[protocol];
  if (!handle) throw new Error(`there is no protocol ${protocol}`);
  const server = createServer({ noDelay: true }, (socket) => {
    // Its client has gone.
    socket.on('error', () => socket.destroy());
    handle(socket);
  });
  await new Promise((listens, fails) => {
    server.once('error', fails);
    server.listen({ host: '127.0.0.1', port: Number(port), backlog: 4096 }, listens);
  });
  console.log(`listening on 127.0.0.1:${server.address().port}`);
}
