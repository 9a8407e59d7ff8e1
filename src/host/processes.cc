#include "host/processes.h"

#include <xla/ffi/api/ffi.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/system/spans.h"
#include "host/call.h"
#include "host/device_exchange.h"
#include "host/kernel.h"
#include "ir/manual.h"
#include "ir/op_entries.h"
#include "ir/ops.h"

namespace tessera::host {
namespace {

namespace ffi = xla::ffi;
using Numbers = ffi::Buffer<ffi::F32>;

std::atomic<group::Exchange*> exchange{nullptr};

constexpr int64_t kMaxDevices = 256;  // of a process

constexpr const char* kSum = "sum_over_processes";
constexpr const char* kGather = "gather_over_processes";

// The work on a thread of its own. Calls that don't depend on each other begin in another order in each process: one that waited
// on a thread of the plugin could keep the call from beginning that another process waits for.
ffi::Future in_background(const char* name, const char* scope, std::function<void()> work) {
  ffi::Promise promise;
  ffi::Future future(promise);
  std::thread([name, scope, work = std::move(work), promise]() mutable {
    try {
      {
        const Span span(SpanKind::kKernel, name, kNoNumber, scope);
        work();
      }
      promise.SetAvailable();
    } catch (const InternalError&) {
      throw;
    } catch (const std::exception& error) {
      promise.SetError(ffi::Error(ffi::ErrorCode::kUnavailable, error.what()));
    }
  }).detach();
  return future;
}

// What a device of this process calls. All of its devices take part in one call, or (`devices` is 1) each makes its own.
DeviceCall device_call(const ffi::Dictionary& attributes, int32_t device, ffi::RunId run) {
  const int64_t channel = attributes.get<int64_t>("channel").value(), devices = attributes.get<int64_t>("devices").value();
  return {.run = run.run_id,
          .channel = channel,
          .device = devices == 1 ? 0 : device,
          .devices = devices,
          .exchange_channel = static_cast<uint32_t>(channel * kMaxDevices + device),
          .exchange = exchange.load()};
}

ffi::Future sum(ffi::RemainingArgs arguments, ffi::RemainingRets results, int32_t device, ffi::RunId run,
                ffi::Dictionary attributes) {
  std::vector<SummedArray> arrays;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Numbers in = *arguments.get<Numbers>(i);
    auto out = *results.get<Numbers>(i);
    arrays.push_back({{in.typed_data(), in.element_count()}, {out->typed_data(), out->element_count()}});
  }
  return in_background(kSum, scope_of(attributes), [arrays = std::move(arrays), call = device_call(attributes, device, run)] {
    sum_over_devices(call, arrays);
  });
}

ffi::Future gather(ffi::AnyBuffer in, ffi::AnyBuffer, ffi::Result<ffi::AnyBuffer> out, int32_t device, ffi::RunId run,
                   ffi::Dictionary attributes) {
  const std::span from(static_cast<const std::byte*>(in.untyped_data()), in.size_bytes());
  const std::span to(static_cast<std::byte*>(out->untyped_data()), out->size_bytes());
  return in_background(kGather, scope_of(attributes),
                       [from, to, call = device_call(attributes, device, run)] { gather_over_devices(call, from, to); });
}

XLA_FFI_Error* handle_sum(XLA_FFI_CallFrame* frame) {
  static auto* handler =
      ffi::Ffi::Bind().RemainingArgs().RemainingRets().Ctx<ffi::DeviceOrdinal>().Ctx<ffi::RunId>().Attrs().To(sum).release();
  return handler->Call(frame);
}
XLA_FFI_Error* handle_gather(XLA_FFI_CallFrame* frame) {
  static auto* handler = ffi::Ffi::Bind()
                             .Arg<ffi::AnyBuffer>()
                             .Arg<ffi::AnyBuffer>()
                             .Ret<ffi::AnyBuffer>()
                             .Ctx<ffi::DeviceOrdinal>()
                             .Ctx<ffi::RunId>()
                             .Attrs()
                             .To(gather)
                             .release();
  return handler->Call(frame);
}

constexpr Entry kFunctions[] = {{kSum, handle_sum}, {kGather, handle_gather}};

// Each call is a channel: processes find each other's by its number, which the same program text gives it in all of them. Where
// each virtual device has rows of its own, they meet in it. On a mesh every device makes a call of its own, of the whole arrays
// where they are not its own parts already.
std::optional<ir::Values> replace(const ir::Node& node, const ir::Values& operands, Selection& selection) {
  const bool sums = node.op == &ir::kOpSumOverProcesses;
  if (!sums && node.op != &ir::kOpGatherOverProcesses) return std::nullopt;
  const ir::AttrDict channel{{{"channel", selection.channels++}, {"devices", selection.devices.that_meet}}};
  const auto call = [&](const ir::Values& parts) {
    return ir::ffi_call(call_target(sums ? kSum : kGather), parts, node.types, channel, /*has_side_effect=*/true);
  };
  if (!selection.devices.mesh || node.attr<bool>("_on_device")) return call(operands);
  const std::vector<int64_t> whole(operands.size(), ir::kWhole);
  return ir::shard_map(*selection.devices.mesh, operands, whole, call, ir::kWhole);
}

}  // namespace

void set_exchange(group::Exchange* to) { exchange = to; }

constinit const Kernel kProcesses{.functions = kFunctions, .replace = replace};

}  // namespace tessera::host
