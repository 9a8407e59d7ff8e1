#pragma once
// A call of a kernel from a compiled program, as the plugin's foreign-function extension brings it.

#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/system/spans.h"
#include "base/visit.h"
#include "host/kernel.h"
#include "host/units/parallel_for.h"

namespace tessera::host {

// One array of a call, dense and row-major: of f32, or, where `Number` is void, of `dtype`.
template <class Number>
struct CallArray {
  std::span<const int64_t> dims;
  Number* data = nullptr;
  DType dtype = DType::kF32;

  size_t rank() const { return dims.size(); }
  // Whether it has so many numbers.
  bool has(int64_t count) const {
    int64_t own = 1;
    for (const int64_t dim : dims) own *= dim;
    return own == count;
  }
  bool is_f32(int64_t count) const { return dtype == DType::kF32 && has(count); }
  bool same_shape(const auto& other) const { return std::ranges::equal(dims, other.dims); }
  bool same_type(const auto& other) const { return dtype == other.dtype && same_shape(other); }
};

// The numbers of an array that is of f32.
inline const float* f32(const CallArray<const void>& array) { return static_cast<const float*>(array.data); }
inline float* f32(const CallArray<void>& array) { return static_cast<float*>(array.data); }

// The phases of a kernel on the threads of the plugin.
ParallelFor parallel_on(xla::ffi::ThreadPool& pool);

class Call {
 public:
  Call(xla::ffi::ThreadPool& pool, const xla::ffi::RemainingArgs& arguments, const xla::ffi::RemainingRets& results,
       const xla::ffi::Dictionary& attributes)
      : parallel_(parallel_on(pool)), arguments_(arguments), results_(results), attributes_(attributes) {}

  // Whether there are so many arrays of each kind, all f32; before that, none may be asked for.
  bool has(size_t arguments, size_t results) const;
  size_t arguments() const { return arguments_.size(); }
  CallArray<const float> argument(size_t i) const;
  CallArray<float> result(size_t i) const;

  // The same where each array is of f32 or of bf16; argument `packed` may also be bytes that a call has packed.
  bool has_floats(size_t arguments, size_t results, std::optional<size_t> packed = {}) const;
  CallArray<const void> floats(size_t i) const;  // its dtype is u8 where it is packed
  CallArray<void> float_result(size_t i) const;

  // The arrays of a call that packs one of f32 or bf16 (Packing); nothing where they are others.
  struct Packed {
    CallArray<const void> from;
    uint8_t* to;
    int64_t bytes;
  };
  std::optional<Packed> packed() const;

  // What the emitting side wrote (ir/attributes.h); nothing when one is missing or has another type.
  template <class T>
  std::optional<T> attributes() const {
    T out;
    bool good = true;
    out.visit([&](const char* name, auto& field, FieldHelp) {
      using Field = std::remove_reference_t<decltype(field)>;
      using Travels = std::conditional_t<std::is_enum_v<Field>, int64_t, Field>;
      const auto value = attributes_.get<Travels>(name);
      if (value.has_value()) field = static_cast<Field>(*value);
      good = good && value.has_value();
    });
    return good ? std::optional(out) : std::nullopt;
  }

  const ParallelFor& parallel() const { return parallel_; }

 private:
  ParallelFor parallel_;
  const xla::ffi::RemainingArgs& arguments_;
  const xla::ffi::RemainingRets& results_;
  const xla::ffi::Dictionary& attributes_;
};

// The part of the model that a call is of (ir::ffi_call), while it is recorded; null: unknown.
const char* scope_of(const xla::ffi::Dictionary& attributes);

// Does the call; false, and nothing done, where its arrays are not those of its attributes.
struct Function {
  const char* name;
  bool (*run)(const Call& call);
};

// A function that programs may call.
template <const Function& kFunction>
XLA_FFI_Error* handle(XLA_FFI_CallFrame* frame) {
  namespace ffi = xla::ffi;
  static auto* handler =
      ffi::Ffi::Bind()
          .Ctx<ffi::ThreadPool>()
          .RemainingArgs()
          .RemainingRets()
          .Attrs()
          .To([](ffi::ThreadPool pool, ffi::RemainingArgs arguments, ffi::RemainingRets results, ffi::Dictionary attributes) {
            const Span span(SpanKind::kKernel, kFunction.name, kNoNumber, scope_of(attributes));
            if (kFunction.run(Call(pool, arguments, results, attributes))) return ffi::Error::Success();
            return ffi::Error::InvalidArgument(call_target(kFunction.name) + ": its arrays are not those of its attributes");
          })
          .release();
  return handler->Call(frame);
}
template <const Function& kFunction>
inline constexpr Entry kEntry{kFunction.name, handle<kFunction>};

}  // namespace tessera::host
