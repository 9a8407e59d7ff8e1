#include "train/device.h"

#include <fmt/format.h>

#include <numeric>

#include "base/error.h"

namespace tessera::train {

std::shared_ptr<pjrt::Client> open_client(const DeviceOptions& options) {
  if (options.devices != 1) {
    throw usage_error(fmt::format("--devices is {}, and a run uses one device", options.devices), "--devices", "leave it out");
  }
  return pjrt::Client::create(pjrt::Plugin::load(pjrt::find_plugin(options.platform, options.plugin)));
}

DeviceBatch::DeviceBatch(const pjrt::Client& client, data::Batch batch, int64_t height, int64_t width, bool with_mask)
    : batch_(std::make_unique<data::Batch>(std::move(batch))) {
  const int64_t rows = batch_->rows();
  const auto send = [&](const char* name, const void* data, TensorType type) {
    pjrt::Upload upload = client.to_device_async(data, type);
    upload.buffer.set_name(name);
    arguments_.push_back(std::move(upload.buffer));
    uploads_.push_back(std::move(upload.done_with_host));
  };
  send("images", batch_->images(), {DType::kU8, {rows, height, width, 3}});
  send("labels", batch_->labels(), {DType::kI32, {rows}});
  if (with_mask) send("mask", batch_->mask(), {DType::kF32, {rows}});
  mask_sum_ = std::accumulate(batch_->mask(), batch_->mask() + rows, 0.0);
}

DeviceBatch::~DeviceBatch() { release(); }

DeviceBatch::DeviceBatch(DeviceBatch&&) noexcept = default;

void DeviceBatch::release() noexcept {
  for (const pjrt::Event& upload : uploads_) {
    try {
      upload.await();
    } catch (...) {
      // The program that uses the buffer reports the same failure.
    }
  }
}

}  // namespace tessera::train
