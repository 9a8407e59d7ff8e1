#include "host/product.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "host/cpu_level.h"
#include "host/tiles.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tessera::host {
namespace {

constexpr int64_t kChunk = 512;        // of k: packed at a time
constexpr int64_t kPackPanels = 4;     // packed by a task
constexpr int64_t kGroupRows = 4;      // panels of the result that a task computes …
constexpr int64_t kGroupColumns = 12;  // … the right side kept in L2
constexpr int64_t kEnoughGroups = 8;   // where there are fewer, a group has fewer columns

int64_t divided_up(int64_t x, int64_t by) { return (x + by - 1) / by; }

// One product in phases: for each chunk of k its operands are packed, then it is added to the result.
class Phases {
 public:
  Phases(const Operand& a, const Operand& b, float* c) : a_(a), b_(b), c_(c), left_(panels(a.rows)), right_(panels(b.rows)) {
    groups_ = divided_up(left_, kGroupRows);
    const int64_t split = std::max(divided_up(right_, kGroupColumns), std::min(right_, divided_up(kEnoughGroups, groups_)));
    columns_ = divided_up(right_, split);
  }

  // `scratch` is of the calling thread and stays as it is until the phases are done.
  std::vector<Phase> list(Scratch& scratch) const {
    uint8_t* packed = scratch.get<uint8_t>((left_ + right_) * steps(std::min(kChunk, a_.k)) * kStepBytes);
    std::vector<Phase> phases;
    for (int64_t k = 0; k < a_.k; k += kChunk) {
      const int64_t count = steps(std::min(kChunk, a_.k - k));
      phases.push_back({divided_up(left_, kPackPanels) + divided_up(right_, kPackPanels),
                        [this, packed, k, count](int64_t task) { pack(task, k, count, packed); }});
      phases.push_back({groups_ * divided_up(right_, columns_),
                        [this, packed, k, count](int64_t task) { multiply(task, count, packed, k == 0); }});
    }
    return phases;
  }

 private:
  uint8_t* packed_right(uint8_t* packed, int64_t count) const { return packed + left_ * count * kStepBytes; }

  void pack(int64_t task, int64_t k, int64_t count, uint8_t* packed) const {
    const int64_t left_tasks = divided_up(left_, kPackPanels);
    const auto end = [](int64_t first, int64_t all) { return std::min(all, first + kPackPanels); };
    if (task < left_tasks) {
      const int64_t first = task * kPackPanels;
      pack_panels(a_, Side::kLeft, first, end(first, left_), k, count, packed);
    } else {
      const int64_t first = (task - left_tasks) * kPackPanels;
      pack_panels(b_, Side::kRight, first, end(first, right_), k, count, packed_right(packed, count));
    }
  }

  void multiply(int64_t task, int64_t count, uint8_t* packed, bool fresh) const {
    const int64_t row = task % groups_ * kGroupRows, column = task / groups_ * columns_;
    const Block block{row, std::min(left_, row + kGroupRows), column, std::min(right_, column + columns_)};
    multiply_block(block, packed, packed_right(packed, count), count, c_, a_.rows, b_.rows, fresh);
  }

  const Operand a_, b_;
  float* const c_;
  const int64_t left_, right_;  // panels
  int64_t groups_, columns_;    // groups of rows; panels of columns in a group
};

void serial(const std::vector<Phase>& phases) {
  for (const Phase& phase : phases) {
    for (int64_t task = 0; task < phase.count; ++task) phase.work(task);
  }
}

}  // namespace

void product_f32(const Product& x, const float* a, const float* b, float* c, const ParallelFor& parallel) {
  const auto one = [&](int64_t i, const ParallelFor& run) {
    thread_local Scratch scratch;
    const Operand left{a + i * x.m * x.k, x.m, x.k, x.a_transposed ? 1 : x.k, x.a_transposed ? x.m : 1};
    const Operand right{b + i * x.n * x.k, x.n, x.k, x.b_transposed ? x.k : 1, x.b_transposed ? 1 : x.n};
    const Phases phases(left, right, c + i * x.m * x.n);
    run(phases.list(scratch));
  };
  if (x.batch == 1) return one(0, parallel);
  parallel({{x.batch, [&](int64_t i) { one(i, serial); }}});
}

bool product_f32_available() {
#if defined(__x86_64__)
  static const bool available = [] {
    constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM of arch_prctl(2), XFEATURE_XTILEDATA
    unsigned a = 0, b = 0, c = 0, d = 0;
    __asm__("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    const bool amx = (d >> 22 & 1) != 0 && (d >> 24 & 1) != 0;
    return matrix_unit_allowed() && amx && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw") &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return available;
#else
  return false;  // No other processor has such a unit that this folder knows.
#endif
}

}  // namespace tessera::host
