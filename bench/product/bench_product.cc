// Times matrix products on one core of this host: [M, K] x [K, N], with packing, as the kernels of a training step make them.
//
//   bench_product DTYPE M N K TIMES      DTYPE: f32 or bf16 (sums and results are f32 in both)
//
// Prints {"name", "seconds": [one for each time], "cpu_seconds": [the same]}.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/shape.h"
#include "host/product.h"

namespace tessera {
namespace {

void on_this_thread(const std::vector<host::Phase>& phases) {
  for (const host::Phase& phase : phases) {
    for (int64_t task = 0; task < phase.count; ++task) phase.work(task);
  }
}

double wall() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double cpu() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Small numbers, none of them zero.
std::vector<uint8_t> numbers(int64_t count, DType dtype) {
  std::vector<uint8_t> out(static_cast<size_t>(count * element_bytes(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<float>(i % 13 + 1) / 16;
    if (dtype == DType::kF32) {
      reinterpret_cast<float*>(out.data())[i] = x;
    } else {
      reinterpret_cast<uint16_t*>(out.data())[i] = float_to_bf16(x);
    }
  }
  return out;
}

int run(DType dtype, const host::Product& product, int times) {
  const auto a = numbers(product.m * product.k, dtype), b = numbers(product.k * product.n, dtype);
  std::vector<float> c(static_cast<size_t>(product.m * product.n));
  std::vector<double> seconds, cpu_seconds;
  for (int i = -1; i < times; ++i) {  // once before: touches every page
    const double begin = wall(), cpu_begin = cpu();
    host::multiply(product, {a.data(), dtype}, {b.data(), dtype}, {c.data(), DType::kF32}, on_this_thread);
    if (i < 0) continue;
    seconds.push_back(wall() - begin);
    cpu_seconds.push_back(cpu() - cpu_begin);
  }
  fmt::print("{{\"name\": \"tessera\", \"seconds\": [{:.6f}], \"cpu_seconds\": [{:.6f}]}}\n", fmt::join(seconds, ", "),
             fmt::join(cpu_seconds, ", "));
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::string dtype = argc == 6 ? argv[1] : "";
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  if ((dtype != "f32" && dtype != "bf16") || number(2) < 1 || number(3) < 1 || number(4) < 1 || number(5) < 1) {
    std::fputs("usage: bench_product (f32|bf16) M N K TIMES\n", stderr);
    return 2;
  }
  return tessera::run(dtype == "f32" ? tessera::DType::kF32 : tessera::DType::kBF16,
                      {.m = number(2), .n = number(3), .k = number(4)}, static_cast<int>(number(5)));
}
