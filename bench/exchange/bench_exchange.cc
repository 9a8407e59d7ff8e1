// Sums of arrays over processes: Tessera's (cluster/group/exchange.h) and Gloo's own all-reduce (its ring and its bcube), which take turns
// in the same processes over connections of the same kind, so that whatever else slows the machine does so to all alike.
//
//   bench_exchange PROCESSES MEGABYTES ROUNDS
//
// Prints {"processes", "megabytes", "rounds", "seconds": {"tessera", "gloo ring", "gloo bcube": the median}, "gb_per_s": the same as
// bytes of the array each second, "ratio": the median over rounds of Gloo's ring's time to Tessera's in the same round}.

#include <fmt/format.h>
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/system/temporary_directory.h"
#include "base/text/json.h"
#include "cluster/group/exchange.h"
#include "cluster/group/local_etcd.h"

namespace tessera {
namespace {

constexpr int kWarmup = 2;  // rounds
constexpr const char* kSides[] = {"tessera", "gloo ring", "gloo bcube"};

struct Setting {
  int processes, megabytes, rounds;
  size_t numbers() const { return static_cast<size_t>(megabytes) * 1'000'000 / sizeof(float); }
};

// Gloo's own, over loopback, which meets in a directory.
class Peer {
 public:
  Peer(int process, int processes, const std::string& directory) {
    gloo::transport::tcp::attr attr;
    attr.hostname = "127.0.0.1";
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
    gloo::rendezvous::FileStore store(directory);
    context_ = std::make_shared<gloo::rendezvous::Context>(process, processes);
    context_->connectFullMesh(store, device);
  }
  void wait_for_all() {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }
  void sum(std::vector<float>& in, std::vector<float>& out, gloo::AllreduceOptions::Algorithm algorithm) {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(algorithm);
    options.setInput(in.data(), in.size());
    options.setOutput(out.data(), out.size());
    using Add = void (*)(void*, const void*, const void*, size_t);
    options.setReduceFunction(static_cast<Add>(&gloo::sum<float>));
    gloo::allreduce(options);
  }

 private:
  std::shared_ptr<gloo::rendezvous::Context> context_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

void print(const Setting& setting, const std::vector<std::vector<double>>& seconds) {
  nlohmann::ordered_json json{{"processes", setting.processes}, {"megabytes", setting.megabytes}, {"rounds", setting.rounds}};
  for (size_t side = 0; side < std::size(kSides); ++side) {
    const double time = median(seconds[side]);
    json["seconds"][kSides[side]] = time;
    json["gb_per_s"][kSides[side]] = static_cast<double>(setting.megabytes) / 1000 / time;
  }
  std::vector<double> ratios;
  for (size_t round = 0; round < seconds[0].size(); ++round) ratios.push_back(seconds[1][round] / seconds[0][round]);
  json["ratio"] = median(ratios);
  fmt::print("{}\n", json.dump());
}

void run(int process, const Setting& setting, const std::string& coordinator, const std::string& directory) {
  const auto members = group::join_by_etcd({process, setting.processes, coordinator, "bench"}, [](const std::string&, Exit) {});
  group::GlooExchange exchange(*members, coordinator);
  Peer peer(process, setting.processes, directory);
  std::vector<float> in(setting.numbers()), out(in.size());
  std::iota(in.begin(), in.end(), static_cast<float>(process));
  const std::function<void()> sides[] = {
      [&] { exchange.sum(in, out, 0); },
      [&] { peer.sum(in, out, gloo::AllreduceOptions::Algorithm::RING); },
      [&] { peer.sum(in, out, gloo::AllreduceOptions::Algorithm::BCUBE); },
  };
  std::vector<std::vector<double>> seconds(std::size(kSides));
  for (int round = -kWarmup; round < setting.rounds; ++round) {
    for (size_t turn = 0; turn < std::size(kSides); ++turn) {
      const size_t side = (turn + static_cast<size_t>(round + kWarmup)) % std::size(kSides);
      peer.wait_for_all();
      const auto begin = std::chrono::steady_clock::now();
      sides[side]();
      peer.wait_for_all();  // until the last one has its sum
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (round >= 0) seconds[side].push_back(took.count());
    }
  }
  if (process == 0) print(setting, seconds);
  members->barrier("end", std::chrono::minutes(1));
  members->leave();
}

int main_of(int argc, char** argv) {
  if (argc != 4) throw usage_error("bench_exchange PROCESSES MEGABYTES ROUNDS");
  const Setting setting{std::atoi(argv[1]), std::atoi(argv[2]), std::atoi(argv[3])};
  if (setting.processes < 2 || setting.megabytes < 1 || setting.rounds < 1) throw usage_error("two processes, 1 MB, one round");
  const TemporaryDirectory directory("tessera-bench");
  const group::LocalEtcd etcd;
  std::vector<pid_t> children;
  for (int process = 0; process < setting.processes; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        run(process, setting, etcd.address(), directory.path());
        std::fflush(stdout);
      } catch (const std::exception& error) {
        fmt::print(stderr, "process {}: {}\n", process, error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    children.push_back(child);
  }
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    failed += status != 0;
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::main_of(argc, argv);
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  }
}
