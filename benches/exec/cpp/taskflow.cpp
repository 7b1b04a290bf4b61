// Taskflow: asynchronous tasks on an executor of k threads, results through a queue with a condition.
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <taskflow/taskflow.hpp>

#include "peer.hpp"

int main(int argc, char** argv) {
    std::unique_ptr<tf::Executor> executor;
    return peer(argc, argv, "taskflow", [&](const Call& call, uint64_t window, Finisher& finisher) {
        if (!executor) executor = std::make_unique<tf::Executor>(call.degree);
        std::mutex mutex;
        std::condition_variable some;
        std::deque<Outcome> results;
        drive(
            call, window, finisher,
            [&](uint64_t object) {
                executor->silent_async([&, object] {
                    Outcome outcome = call.process(object);
                    std::lock_guard guard(mutex);
                    results.push_back(outcome);
                    some.notify_one();
                });
            },
            [&] {
                std::unique_lock lock(mutex);
                some.wait(lock, [&] { return !results.empty(); });
                Outcome outcome = results.front();
                results.pop_front();
                return outcome;
            });
        executor->wait_for_all();
    });
}
