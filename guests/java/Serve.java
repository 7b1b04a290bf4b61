import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantLock;

/**
 * The servers of {@link Guest}: a platform thread for each connection, a virtual one, and one selector.
 *
 * <p>{@code echo} sends back what comes. {@code chat} is that of {@code guests/c/servers/chat_threads.c}: {@code join
 * NAME} is answered with {@code joined NAME}, and each further line goes to the others in the room. There a connection
 * has two threads, one that receives and one that sends what is in its queue.
 */
final class Serve {
    private static final int BACKLOG = 4096;
    private static final int MOST_BYTES = 65536;
    private static final int MOST_LINE = 16384;
    private static final int QUEUE = 1024;
    private static final String JOIN = "join ";

    private Serve() {}

    static void serve(String design, String protocol, int port) throws IOException {
        boolean chats = chats(protocol);
        switch (design) {
            case "platform-thread-per-connection":
                accept(Guest.units("platform"), chats, listen(port));
                break;
            case "virtual-thread-per-connection":
                accept(Guest.units("virtual"), chats, listen(port));
                break;
            case "selector":
                select(chats, port);
                break;
            default:
                throw new IllegalArgumentException("there is no design " + design);
        }
    }

    private static boolean chats(String protocol) {
        if (!protocol.equals("echo") && !protocol.equals("chat")) {
            throw new IllegalArgumentException("there is no protocol " + protocol);
        }
        return protocol.equals("chat");
    }

    private static void announce(int port) {
        System.out.println("listening on 127.0.0.1:" + port);
    }

    private static ServerSocket listen(int port) throws IOException {
        ServerSocket listener = new ServerSocket(port, BACKLOG, InetAddress.getLoopbackAddress());
        announce(listener.getLocalPort());
        return listener;
    }

    // --- threads ---

    /** Serves until the program ends, or the listener is closed. */
    static void accept(Guest.Units units, boolean chats, ServerSocket listener) throws IOException {
        while (true) {
            Socket socket = listener.accept();
            socket.setTcpNoDelay(true);
            if (chats) {
                Member member = new Member(socket);
                units.start(member::receive);
                units.start(member::send);
            } else {
                units.start(() -> echo(socket));
            }
        }
    }

    private static void echo(Socket socket) {
        try (Socket client = socket) {
            byte[] bytes = new byte[8192];
            InputStream input = client.getInputStream();
            OutputStream output = client.getOutputStream();
            for (int got; (got = input.read(bytes)) >= 0; ) {
                output.write(bytes, 0, got);
            }
        } catch (IOException e) {
            // The client has gone.
        }
    }

    /** A room, whose lock keeps its members and the order of what is said there. */
    private static final class Room {
        final ReentrantLock lock = new ReentrantLock();
        final List<Member> members = new ArrayList<>();
    }

    private static final Map<String, Room> rooms = new ConcurrentHashMap<>();

    private static final class Member {
        /** Ends a queue. */
        private static final byte[] END = new byte[0];

        private final Socket socket;
        private final BlockingQueue<byte[]> lines = new ArrayBlockingQueue<>(QUEUE);
        private Room room;

        Member(Socket socket) {
            this.socket = socket;
        }

        void receive() {
            try {
                Lines input = new Lines();
                byte[] bytes = new byte[8192];
                InputStream from = socket.getInputStream();
                for (int got; (got = from.read(bytes)) >= 0; ) {
                    input.add(bytes, got);
                    for (byte[] line; (line = input.next()) != null; ) {
                        hear(line);
                    }
                }
            } catch (IOException e) {
                // The client has gone, or does not speak the protocol.
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            leave();
        }

        private void hear(byte[] line) throws IOException, InterruptedException {
            if (room == null) {
                String name = nameIn(line);
                room = rooms.computeIfAbsent(name, of -> new Room());
                room.lock.lock();
                try {
                    lines.put(("joined " + name + "\n").getBytes(StandardCharsets.UTF_8));
                    room.members.add(this);
                } finally {
                    room.lock.unlock();
                }
                return;
            }
            room.lock.lock();
            try {
                for (Member member : room.members) {
                    if (member != this) {
                        member.lines.put(line);
                    }
                }
            } finally {
                room.lock.unlock();
            }
        }

        private void leave() {
            if (room != null) {
                room.lock.lock();
                try {
                    room.members.remove(this);
                } finally {
                    room.lock.unlock();
                }
            }
            try {
                lines.put(END);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }

        /** Sends what is in the queue until its end; what a client that has gone does not take is taken from it. */
        void send() {
            boolean isOpen = true;
            try (Socket client = socket) {
                OutputStream output = client.getOutputStream();
                for (byte[] line; (line = lines.take()) != END; ) {
                    try {
                        if (isOpen) {
                            output.write(line);
                        }
                    } catch (IOException e) {
                        isOpen = false;
                    }
                }
            } catch (IOException e) {
                // It has gone before it was served.
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** The room that a first line names. */
    private static String nameIn(byte[] line) throws IOException {
        String text = new String(line, StandardCharsets.UTF_8).trim();
        if (!text.startsWith(JOIN) || text.length() == JOIN.length()) {
            throw new IOException("this is no greeting");
        }
        return text.substring(JOIN.length());
    }

    /** Lines, with their end, out of what comes in pieces. */
    static final class Lines {
        private byte[] held = new byte[MOST_LINE];
        private int used, end;

        void add(byte[] bytes, int count) {
            if (used > 0) {
                System.arraycopy(held, used, held, 0, end - used);
                end -= used;
                used = 0;
            }
            if (end + count > held.length) {
                held = Arrays.copyOf(held, Math.max(2 * held.length, end + count));
            }
            System.arraycopy(bytes, 0, held, end, count);
            end += count;
        }

        /** The next that is whole, or null. */
        byte[] next() throws IOException {
            for (int at = used; at < end; at++) {
                if (held[at] == '\n') {
                    byte[] line = Arrays.copyOfRange(held, used, at + 1);
                    used = at + 1;
                    return line;
                }
            }
            if (end - used > MOST_LINE) {
                throw new IOException("a line has at most " + MOST_LINE + " bytes");
            }
            return null;
        }
    }

    // --- one selector ---

    /** A connection of the selector: what has come, and what its client has still to take. */
    private static final class Client {
        final SocketChannel channel;
        final SelectionKey key;
        final Lines input = new Lines();
        final ArrayDeque<ByteBuffer> left = new ArrayDeque<>();
        List<Client> room;

        Client(SocketChannel channel, Selector selector) throws IOException {
            this.channel = channel;
            channel.configureBlocking(false);
            channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
            key = channel.register(selector, SelectionKey.OP_READ, this);
        }

        /** Sends it, or keeps what the client does not take now. */
        void send(ByteBuffer bytes) {
            try {
                if (left.isEmpty()) {
                    channel.write(bytes);
                }
                if (bytes.hasRemaining()) {
                    ByteBuffer rest = ByteBuffer.allocate(bytes.remaining());
                    rest.put(bytes).flip();
                    left.add(rest);
                    key.interestOpsOr(SelectionKey.OP_WRITE);
                }
            } catch (IOException e) {
                close();
            }
        }

        void sendLeft() throws IOException {
            for (ByteBuffer next; (next = left.peek()) != null; left.remove()) {
                channel.write(next);
                if (next.hasRemaining()) {
                    return;
                }
            }
            key.interestOpsAnd(~SelectionKey.OP_WRITE);
        }

        void close() {
            key.cancel();
            try {
                channel.close();
            } catch (IOException e) {
                // It is gone all the same.
            }
        }
    }

    private static void select(boolean chats, int port) throws IOException {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open();
        listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), BACKLOG);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        announce(listener.socket().getLocalPort());
        Map<String, List<Client>> rooms = new HashMap<>();
        ByteBuffer bytes = ByteBuffer.allocateDirect(MOST_BYTES);
        byte[] copy = new byte[MOST_BYTES];
        while (true) {
            selector.select();
            for (Iterator<SelectionKey> ready = selector.selectedKeys().iterator(); ready.hasNext(); ready.remove()) {
                SelectionKey key = ready.next();
                if (!key.isValid()) {
                    continue;
                }
                if (key.isAcceptable()) {
                    for (SocketChannel channel; (channel = listener.accept()) != null; ) {
                        new Client(channel, selector);
                    }
                    continue;
                }
                Client client = (Client) key.attachment();
                try {
                    if (key.isWritable()) {
                        client.sendLeft();
                    }
                    // Who does not take what is sent back is not heard meanwhile.
                    if (key.isReadable() && (chats || client.left.isEmpty())) {
                        bytes.clear();
                        if (client.channel.read(bytes) < 0) {
                            throw new IOException("the client has gone");
                        }
                        bytes.flip();
                        if (chats) {
                            int count = bytes.remaining();
                            bytes.get(copy, 0, count);
                            client.input.add(copy, count);
                            hear(client, rooms);
                        } else {
                            client.send(bytes);
                        }
                    }
                } catch (IOException e) {
                    client.close();
                }
                if (!key.isValid() && client.room != null) {
                    client.room.remove(client);
                }
            }
        }
    }

    private static void hear(Client client, Map<String, List<Client>> rooms) throws IOException {
        for (byte[] line; (line = client.input.next()) != null; ) {
            if (client.room == null) {
                String name = nameIn(line);
                client.room = rooms.computeIfAbsent(name, of -> new ArrayList<>());
                client.room.add(client);
                client.send(ByteBuffer.wrap(("joined " + name + "\n").getBytes(StandardCharsets.UTF_8)));
                continue;
            }
            for (Client other : client.room) {
                if (other != client && other.key.isValid()) {
                    other.send(ByteBuffer.wrap(line));
                }
            }
        }
    }
}
