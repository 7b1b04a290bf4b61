import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;

/**
 * The load of VolanoMark as its publications describe it: rooms of users, each of whose messages goes to all others in
 * its room. A user is two threads, one that sends and one that receives, and so is each connection of the server, which
 * is in this JVM or in another.
 *
 * <p>All have said all twice: first while the JVM is cold, then again, timed.
 */
final class Talk {
    private static final int CONNECT_MS = 20_000;
    /** A sender's number, that of its message, and a blank behind each. */
    private static final int HEAD = 14;

    private Talk() {}

    /** What went wrong first. */
    private static final AtomicReference<Exception> wrong = new AtomicReference<>();

    private static final class User {
        final int number, room;
        final Socket socket;
        final OutputStream output;
        final Serve.Lines input = new Serve.Lines();
        final InputStream from;
        private final int[] heard;
        private int said;

        User(int number, int room, int first, int size, int port) throws IOException {
            this.number = number;
            this.room = room;
            this.first = first;
            heard = new int[size];
            socket = new Socket(InetAddress.getLoopbackAddress(), port);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(CONNECT_MS);
            output = socket.getOutputStream();
            from = socket.getInputStream();
            output.write(("join " + room + "\n").getBytes(StandardCharsets.UTF_8));
            String answer = new String(line(), StandardCharsets.UTF_8);
            if (!answer.equals("joined " + room + "\n")) {
                throw new IOException("the server answered " + answer.trim());
            }
        }

        private final int first;

        private byte[] line() throws IOException {
            byte[] bytes = new byte[8192];
            for (byte[] line; ; ) {
                if ((line = input.next()) != null) {
                    return line;
                }
                int got = from.read(bytes);
                if (got < 0) {
                    throw new IOException("the server has closed a connection");
                }
                input.add(bytes, got);
            }
        }

        void send(int messages, int bytes) throws IOException {
            byte[] line = new byte[bytes + 1];
            for (int at = 0; at < bytes; at++) {
                line[at] = (byte) ('a' + at % 26);
            }
            line[bytes] = '\n';
            for (int i = 0; i < messages; i++) {
                byte[] head = String.format("%06d %06d ", number, said++).getBytes(StandardCharsets.UTF_8);
                System.arraycopy(head, 0, line, 0, HEAD);
                output.write(line);
            }
        }

        /** Each message of each other in the room, in order and whole. */
        void receive(int messages, int bytes) throws IOException {
            for (int left = messages * (heard.length - 1); left > 0; left--) {
                byte[] line = line();
                if (line.length != bytes + 1) {
                    throw new IOException("a message of " + (line.length - 1) + " bytes instead of " + bytes);
                }
                int sender = digits(line, 0) - first, message = digits(line, 7);
                if (sender < 0 || sender >= heard.length || sender + first == number || message != heard[sender]++) {
                    throw new IOException("message " + message + " of user " + (sender + first) + " is out of order");
                }
                for (int at = HEAD; at < bytes; at++) {
                    if (line[at] != 'a' + at % 26) {
                        throw new IOException("a message was changed");
                    }
                }
            }
        }

        private static int digits(byte[] line, int at) {
            int number = 0;
            for (int i = at; i < at + 6; i++) {
                number = 10 * number + line[i] - '0';
            }
            return number;
        }
    }

    @FunctionalInterface
    private interface Body {
        void run() throws Exception;
    }

    private static Thread start(Guest.Units units, CountDownLatch open, Body body) {
        return units.start(() -> {
            try {
                open.await();
                body.run();
            } catch (Exception e) {
                if (wrong.compareAndSet(null, e)) {
                    // The others would wait for what does not come.
                    System.out.println("error " + e.getMessage());
                    System.exit(1);
                }
            }
        });
    }

    /** The time until all have what all have said. */
    private static long talk(Guest.Units units, List<User> users, int messages, int bytes) throws InterruptedException {
        CountDownLatch open = new CountDownLatch(1);
        List<Thread> threads = new ArrayList<>();
        for (User user : users) {
            threads.add(start(units, open, () -> user.receive(messages, bytes)));
            threads.add(start(units, open, () -> user.send(messages, bytes)));
        }
        long begun = System.nanoTime();
        open.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        return System.nanoTime() - begun;
    }

    /** With a port of 0 the server is in this JVM, of the same units. */
    static void run(Guest.Units units, int rooms, int size, int messages, int bytes, int port) throws Exception {
        if (size < 2 || bytes < HEAD) {
            throw new IllegalArgumentException("a room has two users at least, and a message " + HEAD + " bytes");
        }
        int at = port;
        if (port == 0) {
            ServerSocket listener = new ServerSocket(0, 4096, InetAddress.getLoopbackAddress());
            at = listener.getLocalPort();
            units.start(() -> {
                try {
                    Serve.accept(units, true, listener);
                } catch (IOException e) {
                    System.out.println("error " + e.getMessage());
                    System.exit(1);
                }
            });
        }
        List<User> users = new ArrayList<>();
        for (int number = 0; number < rooms * size; number++) {
            int room = number / size;
            users.add(new User(number, room, room * size, size, at));
        }
        long first = talk(units, users, messages, bytes);
        long wall = talk(units, users, messages, bytes);
        long sent = (long) users.size() * messages;
        Map<String, Long> figures = new LinkedHashMap<>();
        figures.put("wall_ns", wall);
        figures.put("first_ns", first);
        figures.put("sent", sent);
        figures.put("received", sent * (size - 1));
        Guest.done(figures);
    }
}
