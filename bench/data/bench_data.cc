// Images a second from a folder of class folders through a chain: one JSON object on stdout.
//   bench_data FOLDER CHAIN [threads=1] [images=4000]

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "data/loader/loader.h"

namespace tessera::data {
namespace {

constexpr int64_t kWarmUpBatches = 4;

int run(const std::string& folder, int threads, int64_t images, const std::string& chain) {
  const auto source = open_folder(folder);
  const auto pp = std::make_shared<const Pp>(chain, PpUse::kTrain);
  LoaderOptions options;
  options.batch = std::min<int64_t>(32, source->size());
  options.threads = threads;
  options.unreadable = Unreadable::kError;
  TrainLoader loader({{.source = source, .pp = pp, .name = {}}}, options);
  for (int64_t i = 0; i < kWarmUpBatches; ++i) loader.next();
  const StageSeconds before = loader.stats().stages;
  const int64_t batches = std::max<int64_t>(1, images / options.batch);
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < batches; ++i) loader.next();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const StageSeconds stages = loader.stats().stages;
  const auto count = static_cast<double>(batches * options.batch);
  const auto ms = [&](double a, double b) { return (b - a) / count * 1e3; };
  fmt::print(
      "{{\"program\": \"tessera\", \"threads\": {}, \"images\": {}, \"images_per_second\": {:.1f}, \"read_ms\": {:.4f}, "
      "\"decode_ms\": {:.4f}, \"resize_ms\": {:.4f}, \"augment_ms\": {:.4f}}}\n",
      threads, count, count / seconds, ms(before.read, stages.read), ms(before.decode, stages.decode),
      ms(before.resize, stages.resize), ms(before.augment, stages.augment));
  return 0;
}

}  // namespace
}  // namespace tessera::data

int main(int argc, char** argv) {
  const auto number = [&](int i, int64_t fallback) { return argc > i ? std::atoll(argv[i]) : fallback; };
  if (argc < 3) {
    fmt::print(stderr, "usage: bench_data FOLDER CHAIN [threads=1] [images=4000]\n");
    return 2;
  }
  try {
    return tessera::data::run(argv[1], static_cast<int>(number(3, 1)), number(4, 4000), argv[2]);
  } catch (const tessera::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.code());
  }
}
