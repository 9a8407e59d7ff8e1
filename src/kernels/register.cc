#include "kernels/register.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>

#include "kernels/product.h"
#include "pjrt/foreign.h"
#include "xla/ffi/api/ffi.h"

namespace tessera::kernels {
namespace {

namespace ffi = xla::ffi;

constexpr const char* kProductTarget = "tessera.product_f32";

// One parallel loop on the threads of the plugin. The calling thread, which may be one of them, works too, and waits only for
// calls that have begun: a helper that comes late, or never, is not missed.
class Loop {
 public:
  Loop(int64_t count, const std::function<void(int64_t)>& work) : count_(count), work_(&work) {}

  void help() {
    for (int64_t i = next_++; i < count_; i = next_++) {
      (*work_)(i);
      if (++done_ == count_) done_.notify_all();
    }
  }
  void wait() {
    for (int64_t done = done_; done < count_; done = done_) done_.wait(done);
  }

 private:
  const int64_t count_;
  const std::function<void(int64_t)>* work_;  // not read once every call has begun
  std::atomic<int64_t> next_{0}, done_{0};
};

void run_loop(ffi::ThreadPool& pool, int64_t threads, int64_t count, const std::function<void(int64_t)>& work) {
  const auto loop = std::make_shared<Loop>(count, work);
  for (int64_t i = 1; i < std::min(threads, count); ++i) pool.Schedule([loop] { loop->help(); });
  loop->help();
  loop->wait();
}

ffi::Error product(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> a, ffi::Buffer<ffi::F32> b, ffi::ResultBuffer<ffi::F32> c,
                   int64_t batch, int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_transposed) {
  const auto count = [](int64_t x) { return static_cast<size_t>(x); };
  if (a.element_count() != count(batch * m * k) || b.element_count() != count(batch * k * n) ||
      c->element_count() != count(batch * m * n)) {
    return ffi::Error::InvalidArgument("tessera.product_f32: the operands' sizes are not those of the attributes");
  }
  const int64_t threads = std::max<int64_t>(1, pool.num_threads());
  product_f32({batch, m, n, k, a_transposed, b_transposed}, a.typed_data(), b.typed_data(), c->typed_data(), threads,
              [&](int64_t calls, const std::function<void(int64_t)>& work) { run_loop(pool, threads, calls, work); });
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

}  // namespace

std::string register_product(const pjrt::Client& client) {
  if (client.platform_name() != "cpu" || !product_f32_available()) return "";
  return pjrt::register_foreign(client.plugin(), kProductTarget, "Host", reinterpret_cast<void*>(handle_product)) ? kProductTarget : "";
}

}  // namespace tessera::kernels
