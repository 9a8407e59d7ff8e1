#pragma once
// Captions that a trained model writes for images.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text/text_encoder.h"
#include "data/transform/pp.h"
#include "inference/caption_search.h"
#include "models/image_text/captioner.h"
#include "pjrt/client.h"
#include "state/device_arrays.h"
#include "state/model_source.h"
#include "train/process/device.h"
#include "train/step/fixed_arguments.h"

namespace tessera::inference {

struct CaptionOptions {
  SearchOptions search;
  int64_t batch = 32;          // images at once, at most
  int64_t length = 0;          // of the longest caption in tokens; 0: the model's
  bool cache = true;           // false: every token from the whole caption, slower, for comparison
  std::optional<int32_t> eos;  // the id that ends a caption
};

// Writes the captions of batches of images; holds the model's parameters on the device.
class CaptionWriter {
 public:
  // `images` of a batch; `pixels`: bytes -> the model's numbers. The model must be a Captioner, and outlive this. A length beyond
  // the model's is a usage Error.
  CaptionWriter(std::shared_ptr<pjrt::Client> client, const state::LoadedModel& model, const data::PixelScale& pixels,
                int64_t images, const train::DeviceOptions& device, CaptionOptions options);
  // The captions of the first `count` images of u8 [images, H, W, 3], for each image the best first. Draws depend on the seed
  // and on an image's own bytes, so its caption does not depend on the rest of the batch.
  std::vector<std::vector<CaptionTokens>> write(const std::vector<uint8_t>& rows, size_t count);

 private:
  class Step;

  // A program over the model's parameters.
  class FixedProgram {
   public:
    FixedProgram(train::Compiled compiled, state::DeviceArrays& params);
    std::vector<pjrt::Buffer> run(const std::vector<pjrt::Buffer*>& more) const;
    const train::Compiled& compiled() const { return compiled_; }

   private:
    train::Compiled compiled_;
    train::FixedArguments fixed_;
  };

  std::shared_ptr<pjrt::Client> client_;
  const models::Captioner& model_;
  int64_t images_, rows_;
  CaptionOptions options_;
  TensorType batch_type_;
  state::DeviceArrays params_;
  std::optional<FixedProgram> begin_, next_;
};

struct WrittenCaption {
  std::string text;
  CaptionTokens tokens;
};
// The captions of one image file, the best first, or why there are none.
struct ImageCaptions {
  std::string path;
  std::vector<WrittenCaption> captions;
  std::string error;
};

// Encodes captions as training did, by the run's data.pp and objective.tokens. Throws a usage Error where the model writes no
// captions, or the weights do not come from a run.
std::shared_ptr<const data::TextEncoder> caption_encoder(const state::LoadedModel& model);

struct CaptionSpeed {
  int64_t images = 0, tokens = 0;
  double seconds = 0;  // of writing, without compiling; images are read meanwhile
};
// `take` gets every path's captions, in the order of `paths`. `pp` as for predict(). `options.eos` is the run's.
CaptionSpeed caption(const state::LoadedModel& model, const std::string& pp, const std::vector<std::string>& paths,
                     const train::DeviceOptions& device, CaptionOptions options,
                     const std::function<void(ImageCaptions)>& take);

}  // namespace tessera::inference
