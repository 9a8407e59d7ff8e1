#include "host/register.h"

#include <hwy/cache_control.h>
#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "host/attention.h"
#include "host/dense.h"
#include "host/max_pool.h"
#include "host/patches.h"
#include "host/product.h"
#include "pjrt/foreign.h"

namespace tessera::host {
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

// How many threads a call takes. The plugin gives virtual devices a pool of one thread each, however few cores there are, and
// each device has a thread of its own that calls: where calls run side by side already, helpers would only take turns with
// them.
class Share {
 public:
  explicit Share(int64_t pool) {
    const int64_t cores = std::max<int64_t>(1, std::thread::hardware_concurrency()), calls = ++running;
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

ParallelFor parallel_on(ffi::ThreadPool& pool) {
  return [&pool](const std::vector<Phase>& phases) {
    const Share share(pool.num_threads());
    int64_t widest = 0;
    for (const Phase& phase : phases) widest = std::max(widest, phase.count);
    if (widest == 0) return;
    const auto loop = std::make_shared<Loop>(phases);
    for (int64_t i = 1; i < std::min(share.threads(), widest); ++i) pool.Schedule([loop] { loop->help(); });
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

// ---- attention over one array of queries, keys and values

// [batch * tokens, 3 * heads * width]; nothing when the numbers do not go together.
std::optional<AttentionShape> self_attention_shape(ffi::Span<const int64_t> qkv, int64_t batch, int64_t heads) {
  if (qkv.size() != 2 || batch < 1 || heads < 1 || qkv[0] % batch != 0 || qkv[1] % (3 * heads) != 0) return std::nullopt;
  const int64_t tokens = qkv[0] / batch, width = qkv[1] / (3 * heads);
  return AttentionShape{.batch = batch, .heads = heads, .queries = tokens, .keys = tokens, .width = width, .stride = qkv[1]};
}

ffi::Error self_attention(ffi::ThreadPool pool, Array qkv, ffi::ResultBuffer<ffi::F32> out, int64_t batch, int64_t heads) {
  const auto shape = self_attention_shape(qkv.dimensions(), batch, heads);
  if (!shape || out->element_count() * 3 != qkv.element_count()) return bad_attention();
  const float* q = qkv.typed_data();
  const int64_t features = shape->stride / 3;
  attention_f32(*shape, q, q + features, q + 2 * features, out->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

ffi::Error self_attention_gradient(ffi::ThreadPool pool, Array qkv, Array dout, ffi::ResultBuffer<ffi::F32> dqkv, int64_t batch,
                                   int64_t heads) {
  const auto shape = self_attention_shape(qkv.dimensions(), batch, heads);
  if (!shape || dout.element_count() * 3 != qkv.element_count() || dqkv->element_count() != qkv.element_count()) {
    return bad_attention();
  }
  const float* q = qkv.typed_data();
  float* dq = dqkv->typed_data();
  const int64_t features = shape->stride / 3;
  attention_gradient_f32(*shape, q, q + features, q + 2 * features, dout.typed_data(), dq, dq + features, dq + 2 * features,
                         parallel_on(pool));
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER(
    handle_self_attention, self_attention,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Ret<Array>().Attr<int64_t>("batch").Attr<int64_t>("heads"));
XLA_FFI_DEFINE_HANDLER(
    handle_self_attention_gradient, self_attention_gradient,
    ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>().Ret<Array>().Attr<int64_t>("batch").Attr<int64_t>(
        "heads"));

// ---- dense layers

// A call's arrays, taken one after the other; `good` falls when one is missing or has another size.
class Arrays {
 public:
  Arrays(const ffi::RemainingArgs& arguments, const ffi::RemainingRets& results) : arguments_(arguments), results_(results) {}

  const float* argument(int64_t count) {
    const auto array = arguments_.get<Array>(next_argument_++);
    good_ = good_ && array.has_value() && array->element_count() == static_cast<size_t>(count);
    return good_ ? array->typed_data() : nullptr;
  }
  float* result(int64_t count) {
    auto array = results_.get<Array>(next_result_++);
    good_ = good_ && array.has_value() && (*array)->element_count() == static_cast<size_t>(count);
    return good_ ? (*array)->typed_data() : nullptr;
  }
  bool more() const { return next_argument_ < arguments_.size(); }
  bool good() const { return good_ && !more() && next_result_ == results_.size(); }

 private:
  const ffi::RemainingArgs& arguments_;
  const ffi::RemainingRets& results_;
  size_t next_argument_ = 0, next_result_ = 0;
  bool good_ = true;
};

std::optional<DenseInput> input_of(std::string_view name) {
  if (name == "plain") return DenseInput::kPlain;
  if (name == "norm") return DenseInput::kNorm;
  if (name == "gelu") return DenseInput::kGelu;
  if (name == "gelu_tanh") return DenseInput::kGeluTanh;
  return std::nullopt;
}

ffi::Error bad_dense() {
  return ffi::Error::InvalidArgument("tessera dense layer: the arrays are not those of the attributes");
}

ffi::Error dense(ffi::ThreadPool pool, ffi::RemainingArgs arguments, ffi::RemainingRets results, int64_t rows, int64_t in,
                 int64_t out, std::string_view input, double epsilon) {
  const std::optional<DenseInput> kind = input_of(input);
  if (!kind) return bad_dense();
  const Dense d{rows, in, out, *kind, epsilon};
  Arrays arrays(arguments, results);
  DenseArguments a{arrays.argument(rows * in), arrays.argument(in * out), arrays.argument(out)};
  if (d.input == DenseInput::kNorm) a.scale = arrays.argument(in), a.offset = arrays.argument(in);
  if (arrays.more()) a.residual = arrays.argument(rows * out);
  float* y = arrays.result(rows * out);
  if (!arrays.good()) return bad_dense();
  dense_f32(d, a, y, parallel_on(pool));
  return ffi::Error::Success();
}

ffi::Error dense_gradient(ffi::ThreadPool pool, ffi::RemainingArgs arguments, ffi::RemainingRets results, int64_t rows,
                          int64_t in, int64_t out, std::string_view input, double epsilon) {
  const std::optional<DenseInput> kind = input_of(input);
  if (!kind) return bad_dense();
  const Dense d{rows, in, out, *kind, epsilon};
  const bool norm = d.input == DenseInput::kNorm;
  Arrays arrays(arguments, results);
  DenseGradientArguments a{arrays.argument(rows * out), arrays.argument(rows * in), arrays.argument(in * out)};
  if (norm) a.scale = arrays.argument(in), a.offset = arrays.argument(in);
  if (norm && arrays.more()) a.add = arrays.argument(rows * in);
  DenseGradient g{arrays.result(rows * in), arrays.result(in * out), arrays.result(out)};
  if (norm) g.dscale = arrays.result(in), g.doffset = arrays.result(in);
  if (!arrays.good()) return bad_dense();
  dense_gradient_f32(d, a, g, parallel_on(pool));
  return ffi::Error::Success();
}

#define TESSERA_DENSE_BINDING          \
  ffi::Ffi::Bind()                     \
      .Ctx<ffi::ThreadPool>()          \
      .RemainingArgs()                 \
      .RemainingRets()                 \
      .Attr<int64_t>("rows")           \
      .Attr<int64_t>("in")             \
      .Attr<int64_t>("out")            \
      .Attr<std::string_view>("input") \
      .Attr<double>("epsilon")
XLA_FFI_DEFINE_HANDLER(handle_dense, dense, TESSERA_DENSE_BINDING);
XLA_FFI_DEFINE_HANDLER(handle_dense_gradient, dense_gradient, TESSERA_DENSE_BINDING);
#undef TESSERA_DENSE_BINDING

// ---- convolutions

// Of pictures and what becomes of them: of each place of the window `numbers`, or as many as there are channels. Nothing when
// the two do not go together.
std::optional<Patches> windows_of(ffi::Span<const int64_t> x, ffi::Span<const int64_t> out, int64_t window, int64_t stride,
                                  int64_t padding, int64_t (Patches::*numbers)() const = nullptr) {
  if (x.size() != 4 || out.size() != 4 || window < 1 || stride < 1 || padding < 0) return std::nullopt;
  const Patches p{x[0], x[1], x[2], x[3], window, stride, padding};
  const int64_t last = numbers ? (p.*numbers)() : p.channels;
  const bool fits = out[0] == p.batch && out[1] == p.rows() && out[2] == p.columns() && out[3] == last;
  return fits ? std::optional(p) : std::nullopt;
}

std::optional<Patches> patches_of(ffi::Span<const int64_t> x, ffi::Span<const int64_t> out, int64_t window, int64_t stride,
                                  int64_t padding) {
  return windows_of(x, out, window, stride, padding, &Patches::elements);
}

ffi::Error bad_windows() {
  return ffi::Error::InvalidArgument("tessera windows: the arrays' shapes are not those of the attributes");
}

ffi::Error patches(ffi::ThreadPool pool, Array x, ffi::ResultBuffer<ffi::F32> out, int64_t window, int64_t stride,
                   int64_t padding) {
  const auto p = patches_of(x.dimensions(), out->dimensions(), window, stride, padding);
  if (!p) return bad_windows();
  patches_f32(*p, x.typed_data(), out->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

ffi::Error patches_gradient(ffi::ThreadPool pool, Array dout, ffi::ResultBuffer<ffi::F32> dx, int64_t window, int64_t stride,
                            int64_t padding) {
  const auto p = patches_of(dx->dimensions(), dout.dimensions(), window, stride, padding);
  if (!p) return bad_windows();
  patches_gradient_f32(*p, dout.typed_data(), dx->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

ffi::Error max_pool(ffi::ThreadPool pool, Array x, ffi::ResultBuffer<ffi::F32> out, int64_t window, int64_t stride,
                    int64_t padding) {
  const auto p = windows_of(x.dimensions(), out->dimensions(), window, stride, padding);
  if (!p) return bad_windows();
  max_pool_f32(*p, x.typed_data(), out->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

ffi::Error max_pool_gradient(ffi::ThreadPool pool, Array x, Array dout, ffi::ResultBuffer<ffi::F32> dx, int64_t window,
                             int64_t stride, int64_t padding) {
  const auto p = windows_of(x.dimensions(), dout.dimensions(), window, stride, padding);
  if (!p || dx->element_count() != x.element_count()) return bad_windows();
  max_pool_gradient_f32(*p, x.typed_data(), dout.typed_data(), dx->typed_data(), parallel_on(pool));
  return ffi::Error::Success();
}

#define TESSERA_WINDOW(BINDING) BINDING.Ret<Array>().Attr<int64_t>("window").Attr<int64_t>("stride").Attr<int64_t>("padding")
#define TESSERA_OF_ONE TESSERA_WINDOW(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>())
#define TESSERA_OF_TWO TESSERA_WINDOW(ffi::Ffi::Bind().Ctx<ffi::ThreadPool>().Arg<Array>().Arg<Array>())
XLA_FFI_DEFINE_HANDLER(handle_patches, patches, TESSERA_OF_ONE);
XLA_FFI_DEFINE_HANDLER(handle_patches_gradient, patches_gradient, TESSERA_OF_ONE);
XLA_FFI_DEFINE_HANDLER(handle_max_pool, max_pool, TESSERA_OF_ONE);
XLA_FFI_DEFINE_HANDLER(handle_max_pool_gradient, max_pool_gradient, TESSERA_OF_TWO);
#undef TESSERA_OF_ONE
#undef TESSERA_OF_TWO
#undef TESSERA_WINDOW

// ---- memory

ffi::Error unwritten(ffi::Result<ffi::AnyBuffer>, int64_t) { return ffi::Error::Success(); }
XLA_FFI_DEFINE_HANDLER(handle_unwritten, unwritten, ffi::Ffi::Bind().Ret<ffi::AnyBuffer>().Attr<int64_t>("stack"));

}  // namespace

HostKernels register_kernels(const pjrt::Client& client) {
  if (client.platform_name() != "cpu") return {};
  const auto target = [&](const char* name, XLA_FFI_Handler* handler) -> std::string_view {
    return pjrt::register_foreign(client.plugin(), name, "Host", reinterpret_cast<void*>(handler)) ? name : "";
  };
  HostKernels kernels;
  if (product_f32_available()) {
    kernels.product = target("tessera.product_f32", handle_product);
    kernels.dense = target("tessera.dense_f32", handle_dense);
    kernels.dense_gradient = target("tessera.dense_gradient_f32", handle_dense_gradient);
  }
  kernels.attention = target("tessera.attention_f32", handle_attention);
  kernels.attention_gradient = target("tessera.attention_gradient_f32", handle_attention_gradient);
  kernels.self_attention = target("tessera.self_attention_f32", handle_self_attention);
  kernels.self_attention_gradient = target("tessera.self_attention_gradient_f32", handle_self_attention_gradient);
  kernels.patches = target("tessera.patches_f32", handle_patches);
  kernels.patches_gradient = target("tessera.patches_gradient_f32", handle_patches_gradient);
  kernels.max_pool = target("tessera.max_pool_f32", handle_max_pool);
  kernels.max_pool_gradient = target("tessera.max_pool_gradient_f32", handle_max_pool_gradient);
  kernels.unwritten = target("tessera.unwritten", handle_unwritten);
  return kernels;
}

}  // namespace tessera::host
