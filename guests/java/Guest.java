import java.io.BufferedOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.LongAdder;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * The cases of the experiments as a Java program would have them: platform threads and virtual ones.
 *
 * <pre>
 * java Guest create UNIT COUNT                   makes and ends COUNT units, one after the other, in ten batches
 * java Guest ring UNIT RING WARM_NS TIMED_NS     a token goes round RING units by blocking queues
 * java Guest idle UNIT COUNT                     keeps COUNT units that wait, until its standard input ends
 * java Guest most UNIT LIMIT                     makes units that wait until one is refused, LIMIT at most
 * java Guest pool UNIT DEGREE KIND MS/MS/…       runs computations, DEGREE at a time: KIND is cpu or io
 * java Guest print UNIT UNITS PRINTS TEXT LOG    prints lines into what standard input is, and into the file LOG, or -
 * java Guest together UNIT UNITS PRINTS TEXT LOG the same into the file alone, once all units are there and input ends
 * java Guest past UNIT COUNT                     makes units that wait once its input has ended, and says what refused one
 * java Guest stacks UNIT COUNT                   makes units that wait, and looks for no refusal: alive NUMBER each
 * java Guest serve DESIGN PROTOCOL PORT          a server (Serve): says where it listens, and serves until it is ended
 * java Guest talk UNIT ROOMS USERS MESSAGES BYTES PORT   rooms of users who talk, at that server or their own (Talk)
 * </pre>
 *
 * UNIT is platform or virtual. It answers as the programs in C do ({@code guests/c/guest.h}): one line,
 * {@code done NAME=NUMBER …} or {@code error WORDS}. {@code idle} and {@code past} say {@code ready made=NUMBER} first.
 *
 * <p>Virtual threads are there since Java 21. They are reached by reflection, so that an older compiler builds this.
 */
final class Guest {
    private static final int BATCHES = 10;

    /** Starts a thread that runs this. */
    @FunctionalInterface
    interface Units {
        Thread start(Runnable body);
    }

    private Guest() {}

    static Units units(String name) {
        switch (name) {
            case "platform":
                return body -> {
                    Thread thread = new Thread(body);
                    thread.setDaemon(true);
                    thread.start();
                    return thread;
                };
            case "virtual":
                return virtual();
            default:
                throw new IllegalArgumentException("there is no unit " + name);
        }
    }

    private static Units virtual() {
        Method start;
        try {
            start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        } catch (NoSuchMethodException e) {
            throw new UnsupportedOperationException(
                    "virtual threads need Java 21 or later, this is " + System.getProperty("java.version"));
        }
        return body -> {
            try {
                return (Thread) start.invoke(null, body);
            } catch (IllegalAccessException e) {
                throw new IllegalStateException(e);
            } catch (InvocationTargetException e) {
                throw new IllegalStateException(e.getCause());
            }
        };
    }

    private static String words(Map<String, Long> figures) {
        Stream<String> words = figures.entrySet().stream().map(figure -> figure.getKey() + "=" + figure.getValue());
        return words.collect(Collectors.joining(" "));
    }

    static void done(Map<String, Long> figures) {
        System.out.println("done " + words(figures));
    }

    private static void create(Units units, int count) throws InterruptedException {
        Runnable nothing = () -> {};
        int each = count / BATCHES;
        Map<String, Long> figures = new LinkedHashMap<>();
        figures.put("made", (long) each * BATCHES);
        long before = System.nanoTime();
        for (int batch = 1; batch <= BATCHES; batch++) {
            for (int i = 0; i < each; i++) {
                units.start(nothing).join();
            }
            long after = System.nanoTime();
            figures.put("batch_" + batch + "_ns", after - before);
            before = after;
        }
        done(figures);
    }

    /** A token that ends the ring. */
    private static final Integer END = -1;

    private static void handOn(BlockingQueue<Integer> own, BlockingQueue<Integer> following) {
        try {
            Integer token;
            do {
                token = own.take();
                following.put(token);
            } while (!token.equals(END));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void laps(long count, BlockingQueue<Integer> own, BlockingQueue<Integer> following)
            throws InterruptedException {
        for (long i = 0; i < count; i++) {
            following.put(1);
            own.take();
        }
    }

    /** Unit 0 is of the same kind as the others, and has the clock: a lap is a token that comes back. */
    private static void ring(Units units, int size, long warmNs, long timedNs) throws InterruptedException {
        List<BlockingQueue<Integer>> queues = new ArrayList<>();
        for (int i = 0; i < size; i++) {
            queues.add(new ArrayBlockingQueue<>(1));
        }
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i < size; i++) {
            BlockingQueue<Integer> own = queues.get(i), following = queues.get((i + 1) % size);
            threads.add(units.start(() -> handOn(own, following)));
        }
        BlockingQueue<Integer> own = queues.get(0), following = queues.get(1 % size);
        long[] found = new long[2];
        Thread first = units.start(() -> {
            try {
                // Twice as many laps as before until they have lasted for the warm-up; then so many again and again.
                long count = 1;
                for (long begun = System.nanoTime(); System.nanoTime() - begun < warmNs; count *= 2) {
                    laps(count, own, following);
                }
                long begun = System.nanoTime();
                for (; System.nanoTime() - begun < timedNs; found[1] += count) {
                    laps(count, own, following);
                }
                found[0] = System.nanoTime() - begun;
                following.put(END);
                own.take();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        });
        first.join();
        for (Thread thread : threads) {
            thread.join();
        }
        Map<String, Long> figures = new LinkedHashMap<>();
        figures.put("wall_ns", found[0]);
        figures.put("hops", found[1] * size);
        done(figures);
    }

    @FunctionalInterface
    private interface Ready {
        void say(long made) throws Exception;
    }

    /** Makes units that wait until one is refused, and says how many there are. */
    private static void keep(Units units, int count, Ready ready) throws Exception {
        CountDownLatch open = new CountDownLatch(1);
        Semaphore waiting = new Semaphore(0);
        Runnable wait = () -> {
            waiting.release();
            try {
                open.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        };
        List<Thread> threads = new ArrayList<>();
        try {
            while (threads.size() < count) {
                threads.add(units.start(wait));
            }
        } catch (OutOfMemoryError refused) {
            // What "unable to create native thread" is.
        }
        waiting.acquire(threads.size());
        ready.say(threads.size());
        open.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void idle(Units units, int count) throws Exception {
        keep(units, count, made -> {
            System.gc();
            System.out.println("ready made=" + made);
            while (System.in.read() >= 0) {
                // Until it ends.
            }
            done(Map.of("made", made));
        });
    }

    private static void most(Units units, int limit) throws Exception {
        keep(units, limit, made -> {
            Map<String, Long> figures = new LinkedHashMap<>();
            figures.put("made", made);
            figures.put("refused", made < limit ? 1L : 0L);
            done(figures);
        });
    }

    /** How long units may take to begin: those that are made and have no thread do not. */
    private static final long TO_BEGIN_MS = 500;
    /** How often it is tried, 10 ms apart, to make a unit again: a thread's end may still be under way. */
    private static final int TRIES = 50;

    private static void past(Units units, int count) throws Exception {
        System.out.println("ready made=0");
        while (System.in.read() >= 0) {
            // Until it ends.
        }
        CountDownLatch open = new CountDownLatch(1);
        Semaphore waiting = new Semaphore(0);
        Runnable wait = () -> {
            waiting.release();
            try {
                open.await();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        };
        List<Thread> threads = new ArrayList<>();
        long refused = 0;
        long begun = System.nanoTime();
        try {
            while (threads.size() < count) {
                threads.add(units.start(wait));
            }
        } catch (OutOfMemoryError error) {
            refused = 1;
            System.err.println(error);
        }
        long took = System.nanoTime() - begun;
        for (long ms = 0; waiting.availablePermits() < threads.size() && ms < TO_BEGIN_MS; ms++) {
            Thread.sleep(1);
        }
        Map<String, Long> figures = new LinkedHashMap<>();
        figures.put("made", (long) threads.size());
        figures.put("begun", (long) waiting.availablePermits());
        figures.put("refused", refused);
        figures.put("took_ns", took);
        open.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        figures.put("again", again(units) ? 1L : 0L);
        done(figures);
    }

    private static boolean again(Units units) throws InterruptedException {
        for (int i = 0; i < TRIES; i++) {
            try {
                units.start(() -> {}).join();
                return true;
            } catch (OutOfMemoryError refused) {
                Thread.sleep(10);
            }
        }
        return false;
    }

    /** The end of its life is nobody's care: whoever is refused a unit ends as a program that expects none does. */
    private static void stacks(Units units, int count) {
        CountDownLatch never = new CountDownLatch(1);
        for (int alive = 1; alive <= count; alive++) {
            units.start(() -> {
                try {
                    never.await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            });
            System.out.println("alive " + alive);
        }
        done(Map.of("made", (long) count));
    }

    /** Lines with their counter, and how many bytes they are in each of these. */
    private static long lines(int prints, String text, PrintStream... into) {
        long bytes = 0;
        for (int counter = 0; counter < prints; counter++) {
            String line = "[" + counter + "]" + text;
            for (PrintStream of : into) {
                of.println(line);
            }
            bytes += line.length() + 1;
        }
        return bytes;
    }

    /** A file in blocks, as a program's log is. */
    private static PrintStream log(String path) throws IOException {
        return new PrintStream(new BufferedOutputStream(new FileOutputStream(path, true), 4096));
    }

    private static void flushed(PrintStream... all) throws IOException {
        for (PrintStream of : all) {
            if (of.checkError()) {
                throw new IOException("a line could not be printed");
            }
        }
    }

    private static void print(Units units, int count, int prints, String text, String log) throws Exception {
        // As System.out is made, which answers here: a line is written when it is printed.
        OutputStream input = new BufferedOutputStream(new FileOutputStream(FileDescriptor.in));
        PrintStream sink = new PrintStream(input, true);
        PrintStream[] into = log.equals("-") ? new PrintStream[] {sink} : new PrintStream[] {sink, log(log)};
        LongAdder bytes = new LongAdder();
        List<Thread> threads = new ArrayList<>();
        long begun = System.nanoTime();
        for (int i = 0; i < count; i++) {
            threads.add(units.start(() -> bytes.add(lines(prints, text, into))));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        sink.println("Okay");
        flushed(into);
        long wall = System.nanoTime() - begun;
        Map<String, Long> figures = new LinkedHashMap<>();
        figures.put("wall_ns", wall);
        figures.put("bytes", bytes.sum());
        done(figures);
    }

    private static void together(Units units, int count, int prints, String text, String log) throws Exception {
        PrintStream into = log(log);
        LongAdder bytes = new LongAdder();
        CountDownLatch open = new CountDownLatch(1);
        Semaphore waiting = new Semaphore(0);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            threads.add(units.start(() -> {
                waiting.release();
                try {
                    open.await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                bytes.add(lines(prints, text, into));
            }));
        }
        waiting.acquire(count);
        System.out.println("ready made=" + count);
        while (System.in.read() >= 0) {
            // Until it ends.
        }
        open.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        flushed(into);
        done(Map.of("bytes", bytes.sum()));
    }

    private static volatile long sink;

    /** Burns CPU time of its own. Nothing tells that of a virtual thread, so it is as many steps as take so long alone. */
    private static void burn(long steps) {
        long value = 1;
        for (long step = 0; step < steps; step++) {
            value = value * 6364136223846793005L + step;
        }
        sink = value;
    }

    /** The most of a few tries: whatever comes between makes it less. */
    private static double stepsOfMillisecond() {
        long steps = 5_000_000;
        double most = 0;
        for (int round = 0; round < 20; round++) {
            long begun = System.nanoTime();
            burn(steps);
            most = Math.max(most, steps * 1e6 / (System.nanoTime() - begun));
        }
        return most;
    }

    private static void pool(Units units, int degree, String kind, double[] lengths) throws InterruptedException {
        boolean isCpu = kind.equals("cpu");
        double steps = isCpu ? stepsOfMillisecond() : 0;
        Semaphore permits = new Semaphore(degree, true);
        long[] ends = new long[lengths.length];
        List<Thread> threads = new ArrayList<>();
        // What runs virtual threads is made with the first of them, and is of the start of the runtime.
        units.start(() -> {}).join();
        long begun = System.nanoTime();
        for (int i = 0; i < lengths.length; i++) {
            int index = i;
            permits.acquire();
            threads.add(units.start(() -> {
                try {
                    if (isCpu) {
                        burn((long) (lengths[index] * steps));
                    } else {
                        Thread.sleep((long) lengths[index]);
                    }
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                ends[index] = System.nanoTime() - begun;
                permits.release();
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
        Map<String, Long> figures = new LinkedHashMap<>();
        long last = 0;
        for (long end : ends) {
            last = Math.max(last, end);
        }
        figures.put("elapsed_ns", last);
        for (int i = 0; i < ends.length; i++) {
            figures.put("turnaround_" + (i + 1) + "_ns", ends[i]);
        }
        done(figures);
    }

    private static void run(String[] args) throws Exception {
        if (args.length < 3) {
            throw new IllegalArgumentException(args.length + " arguments; it takes a case, a unit and more");
        }
        if (args[0].equals("serve")) {
            Serve.serve(args[1], args[2], args.length < 4 ? 0 : Integer.parseInt(args[3]));
            return;
        }
        Units units = units(args[1]);
        int count = Integer.parseInt(args[2]);
        switch (args[0]) {
            case "create":
                create(units, count);
                break;
            case "ring":
                ring(units, count, Long.parseLong(args[3]), Long.parseLong(args[4]));
                break;
            case "idle":
                idle(units, count);
                break;
            case "most":
                most(units, count);
                break;
            case "pool":
                pool(units, count, args[3], Stream.of(args[4].split("/")).mapToDouble(Double::parseDouble).toArray());
                break;
            case "print":
                print(units, count, Integer.parseInt(args[3]), args[4], args[5]);
                break;
            case "together":
                together(units, count, Integer.parseInt(args[3]), args[4], args[5]);
                break;
            case "talk":
                Talk.run(
                        units,
                        count,
                        Integer.parseInt(args[3]),
                        Integer.parseInt(args[4]),
                        Integer.parseInt(args[5]),
                        Integer.parseInt(args[6]));
                break;
            case "past":
                past(units, count);
                break;
            case "stacks":
                stacks(units, count);
                break;
            default:
                throw new IllegalArgumentException("there is no case " + args[0]);
        }
    }

    public static void main(String[] args) {
        try {
            run(args);
        } catch (Exception e) {
            String words = e.getMessage() == null ? e.toString() : e.getMessage();
            System.out.println("error " + words.replace('\n', ' '));
            System.exit(1);
        }
    }
}
