package crosscheck;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** What the guest in {@code guests/java} measures, as benchmarks of JMH. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Units {
    private static final int LAPS = 1_000;
    private static final int WAITS = 8;
    private static final Integer END = -1;

    @Param({"platform", "virtual"})
    public String unit;

    private Thread.Builder units;

    /** What runs virtual threads is made with the first of them, which is of a runtime's start. */
    @Setup
    public void find() throws InterruptedException {
        units = unit.equals("virtual") ? Thread.ofVirtual() : Thread.ofPlatform();
        units.start(() -> {}).join();
    }

    /** The thread that hands a token back. */
    @State(Scope.Benchmark)
    public static class Ring {
        final BlockingQueue<Integer> there = new ArrayBlockingQueue<>(1);
        final BlockingQueue<Integer> back = new ArrayBlockingQueue<>(1);
        private Thread other;

        @Setup
        public void start(Units of) {
            other = of.units.start(() -> handBack(there, back));
        }

        @TearDown
        public void end() throws InterruptedException {
            there.put(END);
            other.join();
        }
    }

    private static void handBack(BlockingQueue<Integer> there, BlockingQueue<Integer> back) {
        try {
            Integer token;
            do {
                token = there.take();
                back.put(token);
            } while (!token.equals(END));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** A thread, made and ended. */
    @Benchmark
    public void create() throws InterruptedException {
        units.start(() -> {}).join();
    }

    /** A token to another thread and back, two hops. The threads of JMH are no virtual ones, so it starts its own. */
    @Benchmark
    @OperationsPerInvocation(LAPS)
    public void lap(Ring ring) throws InterruptedException {
        units.start(() -> {
            try {
                for (int i = 0; i < LAPS; i++) {
                    ring.there.put(1);
                    ring.back.take();
                }
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }).join();
    }

    /** Eight waits of 20 ms, as many at once. */
    @Benchmark
    public void pool() throws InterruptedException {
        Semaphore permits = new Semaphore(WAITS, true);
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < WAITS; i++) {
            permits.acquire();
            threads.add(units.start(() -> {
                try {
                    Thread.sleep(20);
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
                permits.release();
            }));
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }
}
