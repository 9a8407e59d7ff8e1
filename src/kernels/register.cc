#include "kernels/register.h"

#include <hwy/cache_control.h>
#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "kernels/attention.h"
#include "kernels/product.h"
#include "pjrt/foreign.h"

namespace tessera::kernels {
namespace {

namespace ffi = xla::ffi;

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

ParallelFor parallel_on(ffi::ThreadPool& pool) {
  return [&pool](const std::vector<Phase>& phases) {
    int64_t widest = 0;
    for (const Phase& phase : phases) widest = std::max(widest, phase.count);
    if (widest == 0) return;
    const auto loop = std::make_shared<Loop>(phases);
    for (int64_t i = 1; i < std::min(pool.num_threads(), widest); ++i) pool.Schedule([loop] { loop->help(); });
    loop->help();
    loop->wait();
  };
}

ffi::Error product(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> b, ffi::ResultBuffer<ffi::F32> c,
                   int64_t batch, int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed) {
  const auto count = [](int64_t x) { return static_cast<size_t>(x); };
  if (a.element_count() != count(batch * m * k) || b.element_count() != count(batch * k * n) ||
      c->element_count() != count(batch * m * n)) {
    return ffi::Error::InvalidArgument("tessera.product_f32: the operands' sizes are not those of the attributes");
  }
  product_f32({batch, m, n, k, a_transposed, b_transposed}, a.typed_data(), b.typed_data(), c->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(handle_product, product,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<ffi::Buffer<ffi::F32>>()
                           .Arg<ffi::Buffer<ffi::F32>>()
                           .Ret<ffi::Buffer<ffi::F32>>()
                           .Attr<int64_t>("batch")
                           .Attr<int64_t>("m")
                           .Attr<int64_t>("n")
                           .Attr<int64_t>("k")
                           .Attr<bool>("a_transposed")
                           .Attr<bool>("b_transposed"));

// [batch, tokens, heads, width] of queries and of keys; nothing when the arrays do not go together.
std::optional<AttentionShape> attention_shape(ffi::Span<const int64_t> q, ffi::Span<const int64_t> k) {
  if (q.size() != 4 || k.size() != 4 || q[0] != k[0] || q[2] != k[2] || q[3] != k[3]) return std::nullopt;
  return AttentionShape{.batch = q[0], .heads = q[2], .queries = q[1], .keys = k[1], .width = q[3]};
}

ffi::Error bad_attention() { return ffi::Error::InvalidArgument("tessera attention: the arrays' shapes do not go together"); }

ffi::Error attention(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> q, ffi::Buffer<ffi::F32> k, ffi::Buffer<ffi::F32> v,
                     ffi::ResultBuffer<ffi::F32> out) {
  const auto shape = attention_shape(q.dimensions(), k.dimensions());
  if (!shape || v.element_count() != k.element_count() || out->element_count() != q.element_count()) return bad_attention();
  attention_f32(*shape, q.typed_data(), k.typed_data(), v.typed_data(), out->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

ffi::Error attention_gradient(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> q, ffi::Buffer<ffi::F32> k, ffi::Buffer<ffi::F32> v,
                              ffi::Buffer<ffi::F32> dout, ffi::ResultBuffer<ffi::F32> dq, ffi::ResultBuffer<ffi::F32> dk,
                              ffi::ResultBuffer<ffi::F32> dv) {
  const auto shape = attention_shape(q.dimensions(), k.dimensions());
  const auto as_q = [&](size_t count) { return count == q.element_count(); };
  const auto as_k = [&](size_t count) { return count == k.element_count(); };
  if (!shape || !as_k(v.element_count()) || !as_q(dout.element_count()) || !as_q(dq->element_count()) ||
      !as_k(dk->element_count()) || !as_k(dv->element_count())) {
    return bad_attention();
  }
  attention_gradient_f32(*shape, q.typed_data(), k.typed_data(), v.typed_data(), dout.typed_data(), dq->typed_data(),
                         dk->typed_data(), dv->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

using Array = ffi::Buffer<ffi::F32>;
XLA_FFI_DEFINE_HANDLER(handle_attention, attention,
                       ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Arg<Array>().Ret<Array>());
XLA_FFI_DEFINE_HANDLER(handle_attention_gradient, attention_gradient,
                       ffi::Ffi::Bind()
                           .Ctx<ffi::ThreadPool>()
                           .Arg<Array>()
                           .Arg<Array>()
                           .Arg<Array>()
                           .Arg<Array>()
                           .Ret<Array>()
                           .Ret<Array>()
                           .Ret<Array>());

}  // namespace

HostKernels register_kernels(const pjrt::Client& client) {
  if (client.platform_name() != "cpu") return {};
  const auto target = [&](const char* name, XLA_FFI_Handler* handler) -> std::string_view {
    return pjrt::register_foreign(client.plugin(), name, "Host", reinterpret_cast<void*>(handler)) ? name : "";
  };
  HostKernels kernels;
  if (product_f32_available()) kernels.product = target("tessera.product_f32", handle_product);
  kernels.attention = target("tessera.attention_f32", handle_attention);
  kernels.attention_gradient = target("tessera.attention_gradient_f32", handle_attention_gradient);
  return kernels;
}

}  // namespace tessera::kernels
