#include "train/process/product_check.h"

#include <cstdint>
#include <new>
#include <vector>

#include "base/system/process.h"
#include "pjrt/executable.h"

namespace tessera::train {
namespace {

// What is written takes 24 pieces of up to 0.5 MiB; other threads of a start take memory meanwhile.
constexpr int64_t kNeeded = int64_t{192} << 20;

// Large enough that XLA leaves it to oneDNN, and that every number is exact.
constexpr int64_t kSide = 128;
constexpr const char* kProduct = R"(module @product_check {
  func.func public @main(%a: tensor<128x128xf32>, %b: tensor<128x128xf32>) -> tensor<128x128xf32> {
    %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    return %c : tensor<128x128xf32>
  }
})";

std::vector<float> small_integers(int64_t step) {
  std::vector<float> values;
  for (int64_t i = 0; i < kSide * kSide; ++i) values.push_back(static_cast<float>(i * step % 11 - 5));
  return values;
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> c(kSide * kSide);
  for (size_t i = 0; i < kSide; ++i) {
    for (size_t k = 0; k < kSide; ++k) {
      for (size_t j = 0; j < kSide; ++j) c[i * kSide + j] += a[i * kSide + k] * b[k * kSide + j];
    }
  }
  return c;
}

}  // namespace

void check_products(const pjrt::Client& client) {
  const auto left = address_space_left();
  if (!left) return;
  if (*left < kNeeded) throw std::bad_alloc();
  pjrt::CompileOptions options;
  options.flags["xla_backend_optimization_level"] = int64_t{0};
  const pjrt::Executable executable = client.compile(kProduct, options);
  const std::vector<float> a = small_integers(3), b = small_integers(7);
  const TensorType type{DType::kF32, {kSide, kSide}};
  pjrt::Buffer on_device[] = {client.to_device(a.data(), type), client.to_device(b.data(), type)};
  pjrt::Buffer* const arguments[] = {&on_device[0], &on_device[1]};
  if (executable.run(arguments)[0].to_host<float>() != product(a, b)) throw std::bad_alloc();
}

}  // namespace tessera::train
