// oneTBB: an arena of k threads beside the caller, results through its own bounded queue.
#include <oneapi/tbb/concurrent_queue.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <memory>

#include "peer.hpp"

int main(int argc, char** argv) {
    std::unique_ptr<tbb::global_control> threads;
    std::unique_ptr<tbb::task_arena> arena;
    // Outlives the tasks: the last may still be in `push` when its result is taken.
    tbb::concurrent_bounded_queue<Outcome> results;
    return peer(argc, argv, "tbb", [&](const Call& call, uint64_t window, Finisher& finisher) {
        if (!arena) {
            // The library makes one thread fewer than CPUs unless it is told.
            threads = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism, call.degree + 1);
            arena = std::make_unique<tbb::task_arena>(call.degree, 0);
        }
        drive(
            call, window, finisher,
            [&](uint64_t object) { arena->enqueue([&results, call, object] { results.push(call.process(object)); }); },
            [&] {
                Outcome outcome;
                results.pop(outcome);
                return outcome;
            });
    });
}
