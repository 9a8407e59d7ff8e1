#include "host/call.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/cores.h"
#include "base/error.h"
#include "host/units/scratch.h"

namespace tessera::host {
namespace {

using F32 = xla::ffi::Buffer<xla::ffi::F32>;
using Any = xla::ffi::AnyBuffer;

std::optional<DType> float_of(xla::ffi::DataType type) {
  if (type == xla::ffi::F32) return DType::kF32;
  return type == xla::ffi::BF16 ? std::optional(DType::kBF16) : std::nullopt;
}
bool is_packed(const Any& array) {
  return array.element_type() == xla::ffi::U8 && reinterpret_cast<uintptr_t>(array.untyped_data()) % Scratch::kAlign == 0;
}
xla::ffi::DataType element_type(const Any& array) { return array.element_type(); }
xla::ffi::DataType element_type(xla::ffi::Result<Any> array) { return array->element_type(); }

// Phases on the threads of the plugin. The calling thread, which may be one of them, works too, and waits only for calls that
// have begun: a helper that comes late, or never, is not missed.
class Loop {
 public:
  explicit Loop(const std::vector<Phase>& phases) : phases_(&phases) {
    for (const Phase& phase : phases) ends_.push_back((ends_.empty() ? 0 : ends_.back()) + phase.count);
  }

  void help() {
    size_t phase = 0;
    for (int64_t i = next_++; i < ends_.back(); i = next_++) {
      while (i >= ends_[phase]) ++phase;
      const int64_t begin = phase == 0 ? 0 : ends_[phase - 1];
      wait_for(begin);
      (*phases_)[phase].work(i - begin);
      if (++done_ == ends_[phase]) done_.notify_all();
    }
  }
  void wait() { wait_for(ends_.back()); }

 private:
  // What is waited for has begun, and is short as a rule: sleeping and waking would take as long.
  void wait_for(int64_t count) {
    constexpr int kSpins = 4000;
    for (int i = 0; i < kSpins && done_ < count; ++i) hwy::Pause();
    for (int64_t done = done_; done < count; done = done_) done_.wait(done);
  }

  const std::vector<Phase>* phases_;  // not read once every call has begun
  std::vector<int64_t> ends_;         // of each phase, counted over all
  std::atomic<int64_t> next_{0}, done_{0};
};

// How many threads a call takes. The plugin gives virtual devices a pool of one thread each, however few cores there are, and
// each device has a thread of its own that calls: where calls run side by side already, helpers would only take turns with
// them.
class Share {
 public:
  explicit Share(int64_t pool) {
    const int64_t cores = usable_cores(), calls = ++running;
    threads_ = pool <= cores ? pool : std::max<int64_t>(1, cores / calls);
  }
  ~Share() { --running; }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  int64_t threads() const { return threads_; }

 private:
  static inline std::atomic<int64_t> running{0};
  int64_t threads_;
};

}  // namespace

ParallelFor parallel_on(xla::ffi::ThreadPool& pool) {
  return [&pool](const std::vector<Phase>& phases) {
    const Share share(pool.num_threads());
    int64_t widest = 0;
    for (const Phase& phase : phases) widest = std::max(widest, phase.count);
    if (widest == 0) return;
    const auto loop = std::make_shared<Loop>(phases);
    for (int64_t i = 1; i < std::min(share.threads(), widest); ++i) {
      pool.Schedule([loop, work = current_work] {
        const WorkScope scope(work);
        loop->help();
      });
    }
    loop->help();
    loop->wait();
  };
}

const char* scope_of(const xla::ffi::Dictionary& attributes) {
  if (spans::recording.load(std::memory_order_relaxed) == 0) return nullptr;
  const auto scope = attributes.get<std::string_view>("scope");
  return scope.has_value() ? lasting_name(*scope) : nullptr;
}

bool Call::has(size_t arguments, size_t results) const {
  bool good = arguments_.size() == arguments && results_.size() == results;
  for (size_t i = 0; good && i < arguments; ++i) good = arguments_.get<F32>(i).has_value();
  for (size_t i = 0; good && i < results; ++i) good = results_.get<F32>(i).has_value();
  return good;
}

bool Call::has_floats(size_t arguments, size_t results, std::optional<size_t> packed) const {
  const auto is_float = [](const auto& array) { return array.has_value() && float_of(element_type(*array)).has_value(); };
  bool good = arguments_.size() == arguments && results_.size() == results;
  for (size_t i = 0; good && i < arguments; ++i) {
    const auto array = arguments_.get<Any>(i);
    good = is_float(array) || (i == packed && array.has_value() && is_packed(*array));
  }
  for (size_t i = 0; good && i < results; ++i) good = is_float(results_.get<Any>(i));
  return good;
}

CallArray<const void> Call::floats(size_t i) const {
  const auto array = arguments_.get<Any>(i);
  TESSERA_CHECK(array.has_value(), "argument {} of a call", i);
  const auto dims = array->dimensions();
  return {{dims.begin(), dims.size()}, array->untyped_data(), float_of(array->element_type()).value_or(DType::kU8)};
}

CallArray<void> Call::float_result(size_t i) const {
  auto array = results_.get<Any>(i);
  TESSERA_CHECK(array.has_value(), "result {} of a call", i);
  const auto dims = (*array)->dimensions();
  return {{dims.begin(), dims.size()}, (*array)->untyped_data(), float_of((*array)->element_type()).value()};
}

std::optional<Call::Packed> Call::packed() const {
  if (arguments_.size() != 1 || results_.size() != 1) return std::nullopt;
  const auto from = arguments_.get<Any>(0);
  auto to = results_.get<Any>(0);
  if (!from.has_value() || !float_of(from->element_type()) || !to.has_value() || !is_packed(**to)) return std::nullopt;
  return Packed{floats(0), static_cast<uint8_t*>((*to)->untyped_data()), static_cast<int64_t>((*to)->size_bytes())};
}

CallArray<const float> Call::argument(size_t i) const {
  const auto array = arguments_.get<F32>(i);
  TESSERA_CHECK(array.has_value(), "argument {} of a call", i);
  const auto dims = array->dimensions();
  return {{dims.begin(), dims.size()}, array->typed_data()};
}

CallArray<float> Call::result(size_t i) const {
  auto array = results_.get<F32>(i);
  TESSERA_CHECK(array.has_value(), "result {} of a call", i);
  const auto dims = (*array)->dimensions();
  return {{dims.begin(), dims.size()}, (*array)->typed_data()};
}

}  // namespace tessera::host
