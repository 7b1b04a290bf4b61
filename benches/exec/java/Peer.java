import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorCompletionService;
import java.util.concurrent.Executors;

/**
 * One way of bounded concurrent execution in Java, run once on one workload. The words are those of ../src/main.rs.
 *
 * <p>Every peer keeps at most k processors at work and finishes each result on the caller's thread as soon as it is
 * known there. Before the timed run it warms up for {@link #WARM_UP_NS}, so that the compiler has come and gone.
 */
public final class Peer {
    record Call(int degree, long objects, long iterations, long sleepUs) {
        boolean empty() {
            return iterations == 0 && sleepUs == 0;
        }

        Outcome process(long object) {
            if (empty()) {
                return new Outcome(object, 0);
            }
            long value = burn(object, iterations);
            if (sleepUs > 0) {
                try {
                    Thread.sleep(sleepUs / 1000, (int) (sleepUs % 1000 * 1000));
                } catch (InterruptedException nobodyInterrupts) {
                    throw new AssertionError(nobodyInterrupts);
                }
            }
            return new Outcome(value, System.nanoTime());
        }
    }

    /** {@code endedNs} is 0 for an empty processor; {@code value} is -1 for a worker's order to go home. */
    record Outcome(long value, long endedNs) {}

    static final class Finisher {
        long count;
        long sum;
        final long[] waitsNs;

        Finisher(Call call) {
            waitsNs = new long[call.empty() ? 0 : (int) call.objects];
        }

        void finish(Outcome outcome) {
            if (outcome.endedNs != 0) {
                waitsNs[(int) count] = System.nanoTime() - outcome.endedNs;
            }
            count++;
            sum += outcome.value;
        }
    }

    interface Run {
        void on(Call call, Finisher finisher) throws Exception;
    }

    static final long WARM_UP_NS = 200_000_000;
    static final long GO_HOME = -1;

    static final Map<String, Run> PEERS =
            Map.of(
                    "java-queues-k", (call, finisher) -> queues(call, call.degree, finisher),
                    "java-queues-1024", (call, finisher) -> queues(call, 1024, finisher),
                    "java-completion-1024", Peer::completion,
                    "java-virtual", Peer::virtual);

    /** k platform threads between two blocking queues; never more than window objects out. */
    static void queues(Call call, int window, Finisher finisher) throws Exception {
        BlockingQueue<Long> objects = new ArrayBlockingQueue<>(window + call.degree);
        BlockingQueue<Outcome> results = new ArrayBlockingQueue<>(window);
        Thread[] workers = new Thread[call.degree];
        for (int i = 0; i < call.degree; i++) {
            workers[i] =
                    Thread.ofPlatform()
                            .start(
                                    () -> {
                                        try {
                                            for (long o = objects.take(); o != GO_HOME; o = objects.take()) {
                                                results.put(call.process(o));
                                            }
                                        } catch (InterruptedException nobodyInterrupts) {
                                            throw new AssertionError(nobodyInterrupts);
                                        }
                                    });
        }
        long next = 0;
        int out = 0;
        while (true) {
            for (; out < window && next < call.objects; next++, out++) {
                objects.put(next);
            }
            if (out == 0) {
                break;
            }
            finisher.finish(results.take());
            out--;
            for (Outcome more = results.poll(); more != null; more = results.poll()) {
                finisher.finish(more);
                out--;
            }
        }
        for (Thread ignored : workers) {
            objects.put(GO_HOME);
        }
        for (Thread worker : workers) {
            worker.join();
        }
    }

    /** The library's own: a completion service over a fixed pool. */
    static void completion(Call call, Finisher finisher) throws Exception {
        try (var pool = Executors.newFixedThreadPool(call.degree)) {
            var service = new ExecutorCompletionService<Outcome>(pool);
            long next = 0;
            int out = 0;
            while (true) {
                for (; out < 1024 && next < call.objects; next++, out++) {
                    long object = next;
                    service.submit(() -> call.process(object));
                }
                if (out == 0) {
                    break;
                }
                finisher.finish(service.take().get());
                out--;
            }
        }
    }

    /** A virtual thread for each object, made when its turn comes. */
    static void virtual(Call call, Finisher finisher) throws Exception {
        BlockingQueue<Outcome> results = new ArrayBlockingQueue<>(call.degree);
        int out = 0;
        for (long next = 0; next < call.objects; next++) {
            if (out == call.degree) {
                finisher.finish(results.take());
                out--;
            }
            long object = next;
            Thread.startVirtualThread(() -> results.add(call.process(object)));
            out++;
        }
        for (; out > 0; out--) {
            finisher.finish(results.take());
        }
    }

    static long burn(long x, long iterations) {
        for (long i = 0; i < iterations; i++) {
            x = (x ^ (x >>> 29)) * 6364136223846793005L + 1442695040888963407L;
        }
        return x;
    }

    static long cpuNs() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    static long peakRssKib() throws Exception {
        return Files.readAllLines(Path.of("/proc/self/status")).stream()
                .filter(line -> line.startsWith("VmHWM:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", "")))
                .findFirst()
                .orElse(0);
    }

    static void calibrate() {
        long least = Long.MAX_VALUE;
        long needed = 0;
        for (int i = 0; i < 400; i++) {
            long start = System.nanoTime();
            needed += burn(i, 100_000);
            least = Math.min(least, System.nanoTime() - start);
        }
        System.err.print(needed == 42 ? " " : "");
        System.out.printf(Locale.ROOT, "{\"ns_per_iteration\": %f}%n", least / 100_000.0);
    }

    public static void main(String[] words) throws Exception {
        if (words.length == 1 && words[0].equals("calibrate")) {
            calibrate();
            return;
        }
        if (words.length != 5 || !PEERS.containsKey(words[0])) {
            System.err.println("usage: PEER DEGREE OBJECTS ITERATIONS SLEEP_US | calibrate");
            System.exit(2);
        }
        var call =
                new Call(
                        Integer.parseInt(words[1]),
                        Long.parseLong(words[2]),
                        Long.parseLong(words[3]),
                        Long.parseLong(words[4]));
        Run run = PEERS.get(words[0]);
        var tenth = new Call(call.degree, Math.max(call.objects / 10, 1), call.iterations, call.sleepUs);
        for (long start = System.nanoTime(); System.nanoTime() - start < WARM_UP_NS; ) {
            run.on(tenth, new Finisher(tenth));
        }
        var finisher = new Finisher(call);
        long cpuBefore = cpuNs();
        long start = System.nanoTime();
        run.on(call, finisher);
        long elapsedNs = System.nanoTime() - start;
        long cpu = cpuNs() - cpuBefore;
        if (finisher.count != call.objects) {
            throw new AssertionError("objects lost or finished twice");
        }
        System.out.printf(
                "{\"elapsed_ns\": %d, \"cpu_ns\": %d, \"peak_rss_kib\": %d", elapsedNs, cpu, peakRssKib());
        long[] waits = finisher.waitsNs;
        if (waits.length > 0) {
            Arrays.sort(waits);
            System.out.printf(
                    ", \"wait_p50_ns\": %d, \"wait_p99_ns\": %d, \"wait_max_ns\": %d",
                    waits[waits.length / 2], waits[(int) (waits.length * 99L / 100)], waits[waits.length - 1]);
        }
        System.out.println("}");
    }
}
