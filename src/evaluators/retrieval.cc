#include "metrics/retrieval.h"

#include <fmt/format.h>

#include "base/error.h"
#include "evaluators/evaluator.h"
#include "evaluators/image_text_evaluator.h"
#include "ir/functions.h"
#include "ir/ops.h"
#include "objectives/captioning.h"

namespace tessera::evaluators {

using ir::Value;
using ir::Values;

namespace {

struct RetrievalOptions {
  std::string texts;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("texts", texts,
          "the texts of each image: what tokenize(…, texts=N, to=NAME) of the data's pp makes; may be left out where it makes "
          "one array");
  }
};

class Retrieval final : public ImageTextEvaluator {
 public:
  Retrieval(const RetrievalOptions& options, const config::Section& section, const EvaluatorData& available)
      : ImageTextEvaluator(section, available),
        inputs_{false, {objectives::find_several(available.inputs, options.texts, text(), section, "texts")}} {}

  std::vector<ScoreKind> score_kinds() const override {
    std::vector<ScoreKind> kinds;
    for (const char* direction : {"img2txt", "txt2img"}) {
      for (const int64_t k : metrics::kRecallAt) kinds.push_back({fmt::format("{}_R@{}", direction, k), true});
    }
    return kinds;
  }
  const objectives::Inputs& inputs(size_t) const override { return inputs_; }
  // The embedding of the image, of each text, and whether that text is there.
  std::vector<Column> columns(size_t) const override { return {{"embeddings", 0}}; }
  Values rows(size_t, const models::Model& model, const nn::Scope& scope, const objectives::Batch& batch) const override {
    const models::ImageText& both = towers(model);
    const Value ids = ir::reshape(batch.tokens[0], {-1, text().length});
    const Value words = ir::compare(ir::Compare::kNe, ids, ir::constant(inputs_.tokens[0].pad, DType::kI32));
    return {both.embed_images(scope, batch.images), both.embed_texts(scope, ids),
            ir::reduce_max(ir::convert(words, DType::kF32), {1})};
  }

  Outcome outcome(std::vector<Rows> sets) const override {
    const Rows& rows = sets[0];
    const int64_t texts = texts_of_each(), size = (rows.features.width - texts) / (1 + texts);
    metrics::Features images{size, {}}, all{size, {}};
    std::vector<int64_t> image_of;
    for (int64_t i = 0; i < rows.size(); ++i) {
      const auto part = [row = rows.features.row(i), size](int64_t k) {
        return row.subspan(static_cast<size_t>(k * size), static_cast<size_t>(size));
      };
      images.values.insert(images.values.end(), part(0).begin(), part(0).end());
      const std::span<const float> there = rows.features.row(i).last(static_cast<size_t>(texts));
      for (int64_t t = 0; t < texts; ++t) {
        if (there[static_cast<size_t>(t)] == 0) continue;
        all.values.insert(all.values.end(), part(1 + t).begin(), part(1 + t).end());
        image_of.push_back(i);
      }
    }
    if (image_of.empty()) throw data_error("not one of the images to retrieve has a text", {}, "look at the text ops of pp");
    const metrics::Recalls recalls = metrics::retrieval_recalls(images, all, image_of);
    Outcome out;
    out.scores.assign(recalls.image_to_text.begin(), recalls.image_to_text.end());
    out.scores.insert(out.scores.end(), recalls.text_to_image.begin(), recalls.text_to_image.end());
    return out;
  }

 private:
  int64_t texts_of_each() const { return inputs_.tokens[0].length / text().length; }

  objectives::Inputs inputs_;
};

// For models that embed images and texts, over all images and texts of the data, k = 1, 5, 10 (metrics/retrieval.h):
// img2txt_R@k is the fraction of images that find one of their own texts among the nearest k, txt2img_R@k the fraction of texts
// that find their image. Texts without a token are left out.
std::shared_ptr<const Evaluator> make_retrieval(config::Section section, const EvaluatorData& available) {
  RetrievalOptions options;
  section.bind_part(options);
  return std::make_shared<Retrieval>(options, section, available);
}

}  // namespace

const EvaluatorKind kRetrieval = {"retrieval",
                                  "img2txt_R@1, @5, @10 and txt2img_R@1, @5, @10 over all images and texts of the data",
                                  make_retrieval, config::keys_of<RetrievalOptions>};

}  // namespace tessera::evaluators
