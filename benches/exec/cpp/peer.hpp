// What the C++ peers share: the work, the finisher and the line of JSON. The words are those of ../src/main.rs.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

struct Outcome {
    uint64_t value;
    int64_t ended_ns;  // 0 for an empty processor
};

inline int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

__attribute__((noinline)) inline uint64_t burn(uint64_t x, uint64_t iterations) {
    for (; iterations > 0; iterations--) x = (x ^ (x >> 29)) * 6364136223846793005ULL + 1442695040888963407ULL;
    return x;
}

struct Call {
    int degree;
    uint64_t objects, iterations, sleep_us;

    bool empty() const { return iterations == 0 && sleep_us == 0; }

    Outcome process(uint64_t object) const {
        if (empty()) return {object, 0};
        uint64_t value = burn(object, iterations);
        if (sleep_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(sleep_us));
        return {value, now_ns()};
    }
};

struct Finisher {
    uint64_t count = 0, sum = 0;
    std::vector<int64_t> waits_ns;

    explicit Finisher(const Call& call) {
        if (!call.empty()) waits_ns.reserve(call.objects);
    }

    void finish(Outcome outcome) {
        count++;
        sum += outcome.value;
        if (outcome.ended_ns != 0) waits_ns.push_back(now_ns() - outcome.ended_ns);
    }
};

// Keeps at most `window` objects out: `submit` hands one out, `receive` waits for a result.
template <class Submit, class Receive>
void drive(const Call& call, uint64_t window, Finisher& finisher, Submit submit, Receive receive) {
    uint64_t next = 0, out = 0;
    while (true) {
        for (; out < window && next < call.objects; next++, out++) submit(next);
        if (out == 0) return;
        finisher.finish(receive());
        out--;
    }
}

inline int64_t cpu_ns(const rusage& usage) {
    auto ns = [](timeval t) { return t.tv_sec * 1'000'000'000LL + t.tv_usec * 1'000LL; };
    return ns(usage.ru_utime) + ns(usage.ru_stime);
}

// Not by getrusage, whose peak begins with that of the program that started this one.
inline long peak_rss_kib() {
    long kib = 0;
    if (FILE* status = fopen("/proc/self/status", "r")) {
        char line[256];
        while (fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %ld", &kib) != 1) {
        }
        fclose(status);
    }
    return kib;
}

// `run` takes a call and a finisher; `name` with "-k" or "-1024" after it is what the peer is called.
template <class Run>
int peer(int argc, char** argv, const char* name, Run run) {
    if (argc == 2 && strcmp(argv[1], "calibrate") == 0) {
        int64_t least = INT64_MAX;
        for (uint64_t seed = 0; seed < 60; seed++) {
            int64_t start = now_ns();
            volatile uint64_t needed = burn(seed, 100'000);
            (void)needed;
            least = std::min(least, now_ns() - start);
        }
        printf("{\"ns_per_iteration\": %f}\n", least / 100'000.0);
        return 0;
    }
    size_t stem = strlen(name);
    if (argc != 6 || strncmp(argv[1], name, stem) != 0 || (strcmp(argv[1] + stem, "-k") && strcmp(argv[1] + stem, "-1024"))) {
        fprintf(stderr, "usage: %s-k|%s-1024 DEGREE OBJECTS ITERATIONS SLEEP_US | calibrate\n", name, name);
        return 2;
    }
    auto number = [&](int i) { return strtoull(argv[i], nullptr, 10); };
    Call call{static_cast<int>(number(2)), number(3), number(4), number(5)};
    uint64_t window = strcmp(argv[1] + stem, "-k") == 0 ? call.degree : 1024;
    Call warm_up = call;
    warm_up.objects = std::max<uint64_t>(call.objects / 10, 1);
    Finisher dropped(warm_up), finisher(call);
    run(warm_up, window, dropped);
    rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    int64_t start = now_ns();
    run(call, window, finisher);
    int64_t elapsed_ns = now_ns() - start;
    getrusage(RUSAGE_SELF, &after);
    if (finisher.count != call.objects) {
        fprintf(stderr, "objects lost or finished twice\n");
        return 1;
    }
    printf("{\"elapsed_ns\": %ld, \"cpu_ns\": %ld, \"peak_rss_kib\": %ld", elapsed_ns, cpu_ns(after) - cpu_ns(before),
           peak_rss_kib());
    auto& waits = finisher.waits_ns;
    if (!waits.empty()) {
        std::sort(waits.begin(), waits.end());
        printf(", \"wait_p50_ns\": %ld, \"wait_p99_ns\": %ld, \"wait_max_ns\": %ld", waits[waits.size() / 2],
               waits[waits.size() * 99 / 100], waits.back());
    }
    printf("}\n");
    return 0;
}
