#include "train/step/device_batch.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/error.h"

namespace tessera::train {
namespace {

constexpr int64_t kLeastAlike = 4;

// Which of the batch's arrays it is.
size_t token_field(const data::Batch& batch, const objectives::TokenInput& tokens) {
  const std::vector<data::TokenField>& fields = batch.token_fields();
  const auto at = std::ranges::find(fields, tokens.name, &data::TokenField::name);
  TESSERA_CHECK(at != fields.end() && at->length == tokens.length, "a batch without {} tokens {}", tokens.length, tokens.name);
  return static_cast<size_t>(at - fields.begin());
}

}  // namespace

DeviceBatch::DeviceBatch(const pjrt::Client& client, const mesh::Mesh& mesh, data::Batch batch, const data::Pp& pp,
                         const objectives::Inputs& inputs)
    : arguments_(static_cast<size_t>(mesh.devices())), batch_(std::make_unique<data::Batch>(std::move(batch))) {
  const auto send = [&](const char* name, const void* values, const TensorType& type) {
    std::vector<pjrt::Upload> uploads = state::send_rows(client, mesh, values, type);
    for (size_t device = 0; device < uploads.size(); ++device) {
      if (!client.is_own(device)) continue;
      uploads[device].buffer.set_name(name);
      arguments_[device].push_back(std::move(uploads[device].buffer));
      uploads_.push_back(std::move(uploads[device].done_with_host));
    }
  };
  const int64_t rows = batch_->rows();
  if (inputs.images) send("images", batch_->images(), {DType::kU8, {rows, pp.height(), pp.width(), 3}});
  TESSERA_CHECK(!inputs.labels || inputs.multi_hot == batch_->multi_hot_classes(), "{} and {} classes", inputs.multi_hot,
                batch_->multi_hot_classes());
  if (inputs.labels && inputs.multi_hot > 0) send("labels", batch_->multi_hot(), {DType::kU8, {rows, inputs.multi_hot}});
  if (inputs.labels && inputs.multi_hot == 0) send("labels", batch_->labels(), {DType::kI32, {rows}});
  for (const objectives::TokenInput& tokens : inputs.tokens) {
    send(tokens.name.c_str(), batch_->tokens(token_field(*batch_, tokens)), {DType::kI32, {rows, tokens.length}});
  }
  if (batch_->augment_values() > 0) send("augment", batch_->augment(), {DType::kF32, {rows, batch_->augment_values()}});
}

// Images that differ do so in their first rows of pixels, as a rule: only where all are the same is all of them read.
bool DeviceBatch::images_alike() const {
  if (batch_->rows() < kLeastAlike) return false;
  const uint8_t* const first = batch_->images();
  const size_t bytes = batch_->image_bytes() / static_cast<size_t>(batch_->rows());
  for (int64_t i = 1; i < batch_->rows(); ++i) {
    if (std::memcmp(first, first + static_cast<size_t>(i) * bytes, bytes) != 0) return false;
  }
  return true;
}

DeviceBatch::~DeviceBatch() { release(); }

DeviceBatch::DeviceBatch(DeviceBatch&&) noexcept = default;

DeviceBatch& DeviceBatch::operator=(DeviceBatch&& other) noexcept {
  release();
  arguments_ = std::move(other.arguments_);
  uploads_ = std::move(other.uploads_);
  batch_ = std::move(other.batch_);
  return *this;
}

void DeviceBatch::release() noexcept {
  for (const pjrt::Event& upload : uploads_) {
    try {
      upload.await();
    } catch (const InternalError&) {
      std::terminate();
    } catch (...) {
      // The program that uses the buffer reports the same failure.
    }
  }
}

}  // namespace tessera::train
