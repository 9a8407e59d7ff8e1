#include "inference/captions.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/text/text.h"
#include "inference/caption_programs.h"
#include "inference/row_reader.h"
#include "inference/training_data.h"
#include "objectives/captioning.h"
#include "recipe/run_identity.h"
#include "train/step/hardware.h"
#include "train/step/trace.h"

namespace tessera::inference {
namespace {

const models::Captioner& captioner_of(const state::LoadedModel& model) {
  if (const auto* captioner = model.model->captioner()) return *captioner;
  const bool classifies = model.model->classifier() != nullptr;
  throw usage_error(
      fmt::format("the model writes no captions: it is a {}", model.model->describe()), model.path,
      classifies ? "tessera predict says what classes it sees in images" : "name a run of model.name = \"cappa\"");
}

int64_t length_of(const models::Captioner& model, int64_t asked) {
  const int64_t most = model.input().tokens;
  if (asked > most) {
    throw usage_error(fmt::format("captions of {} tokens are asked for, and the model's have {} at most", asked, most),
                      "--max-tokens", "ask for fewer, or leave it out");
  }
  return asked == 0 ? most : asked;
}

uint64_t stream_of(const uint8_t* row, size_t bytes) { return hash128({reinterpret_cast<const char*>(row), bytes}).low; }

}  // namespace

// The captions of a batch between two tokens: the arrays on the device, and what the host tells it.
class CaptionWriter::Step {
 public:
  Step(CaptionWriter& writer, const std::vector<uint8_t>& rows)
      : w_(writer),
        length_(writer.model_.input().tokens),
        previous_(static_cast<size_t>(writer.rows_)),
        parents_(previous_.size()),
        captions_(previous_.size() * static_cast<size_t>(length_)) {
    pjrt::Buffer images = w_.client_->to_device(rows.data(), w_.batch_type_);
    arrays_ = w_.begin_->run({&images});
  }

  // [rows][vocabulary], of the token at `position`.
  std::vector<float> logits(int32_t position) {
    std::vector<pjrt::Buffer> told;
    const auto tell = [&](const std::vector<int32_t>& values, const Dims& dims) {
      told.push_back(w_.client_->to_device(values.data(), {DType::kI32, dims}));
    };
    if (w_.options_.cache) {
      tell(previous_, {w_.rows_});
      if (w_.rows_ > w_.images_) tell(parents_, {w_.rows_});
    } else {
      tell(captions_, {w_.rows_, length_});
    }
    tell({position}, {});
    std::vector<pjrt::Buffer*> more;
    for (pjrt::Buffer& array : arrays_) more.push_back(&array);
    for (pjrt::Buffer& one : told) more.push_back(&one);
    std::vector<pjrt::Buffer> results = w_.next_->run(more);
    if (w_.options_.cache) {
      arrays_[2] = std::move(results[0]);
      arrays_[3] = std::move(results[1]);
    }
    return results.back().to_host<float>();
  }

  // What an image's search chose at `position`.
  void take(size_t image, const CaptionSearch& search, int32_t position) {
    const auto beams = static_cast<size_t>(w_.options_.search.beams), first = image * beams, row = static_cast<size_t>(length_);
    const std::vector<int32_t> before(captions_.begin() + static_cast<ptrdiff_t>(first * row),
                                      captions_.begin() + static_cast<ptrdiff_t>((first + beams) * row));
    for (size_t b = 0; b < search.tokens().size(); ++b) {
      const auto parent = static_cast<size_t>(search.parents()[b]);
      previous_[first + b] = search.tokens()[b];
      parents_[first + b] = static_cast<int32_t>(first + parent);
      std::copy_n(before.begin() + static_cast<ptrdiff_t>(parent * row), position,
                  captions_.begin() + static_cast<ptrdiff_t>((first + b) * row));
      captions_[(first + b) * row + static_cast<size_t>(position)] = search.tokens()[b];
    }
  }

 private:
  CaptionWriter& w_;
  int64_t length_;
  std::vector<int32_t> previous_, parents_, captions_;
  std::vector<pjrt::Buffer> arrays_;
};

CaptionWriter::CaptionWriter(std::shared_ptr<pjrt::Client> client, const state::LoadedModel& model,
                             const data::PixelScale& pixels, int64_t images, const train::DeviceOptions& device,
                             CaptionOptions options)
    : client_(std::move(client)),
      model_(captioner_of(model)),
      images_(images),
      rows_(images * options.search.beams),
      options_(options),
      batch_type_(train::image_batch(*model.model, images)) {
  options_.length = length_of(model_, options.length);
  const train::ProgramOptions program{
      .batch = images, .pixels = pixels, .compute = model.compute, .hardware = train::hardware_of(*client_, device.cache)};
  const CaptionPrograms programs =
      (options.cache ? caption_programs : plain_caption_programs)(model_, model.layout, program, rows_);
  const auto arrays = train::arguments_of(model.layout, model.layout.params, batch_type_);
  params_ = state::to_device(model.layout, model.params, *client_);
  begin_.emplace(train::compile(*client_, programs.begin, device.cache, arrays), params_);
  next_.emplace(train::compile(*client_, programs.next, device.cache, arrays), params_);
  train::free_prepared({&begin_->compiled(), &next_->compiled()}, params_);
}

CaptionWriter::FixedProgram::FixedProgram(train::Compiled compiled, state::DeviceArrays& params)
    : compiled_(std::move(compiled)), fixed_(compiled_, params, params.at(0).size()) {}

std::vector<pjrt::Buffer> CaptionWriter::FixedProgram::run(const std::vector<pjrt::Buffer*>& more) const {
  return compiled_.executable.run(fixed_.with(more));
}

std::vector<std::vector<CaptionTokens>> CaptionWriter::write(const std::vector<uint8_t>& rows, size_t count) {
  const size_t bytes = rows.size() / static_cast<size_t>(images_);
  std::vector<CaptionSearch> searches;
  for (size_t i = 0; i < count; ++i) {
    searches.emplace_back(options_.search, options_.length, options_.eos, stream_of(rows.data() + i * bytes, bytes));
  }
  Step step(*this, rows);
  const int threads = thread_count(0, static_cast<int64_t>(count));
  const auto done = [](const CaptionSearch& search) { return search.done(); };
  for (int32_t position = 0; !std::ranges::all_of(searches, done); ++position) {
    const std::vector<float> logits = step.logits(position);
    const size_t part = logits.size() / static_cast<size_t>(images_);
    parallel_for(static_cast<int64_t>(count), threads, [&](int64_t image, int) {
      const auto i = static_cast<size_t>(image);
      if (searches[i].done()) return;
      searches[i].step(std::span(logits).subspan(i * part, part));
      step.take(i, searches[i], position);
    });
  }
  std::vector<std::vector<CaptionTokens>> captions;
  for (const CaptionSearch& search : searches) captions.push_back(search.captions());
  return captions;
}

std::shared_ptr<const data::TextEncoder> caption_encoder(const state::LoadedModel& model) {
  captioner_of(model);
  if (model.recipe.empty()) {
    throw usage_error("the weights are none of a run's, so that nothing says what their tokens are", model.path, "name a run");
  }
  config::Section recipe = config::parse_recipe(model.recipe, model.path);
  TrainingData training;
  objectives::CaptionOptions captions;
  config::Section data_section = recipe.section("data");
  data_section.bind_part(training);
  recipe.section("objective").bind_part(captions);
  const data::Pp pp(training.pp, data::PpUse::kTrain, data_section.place("pp"));
  for (const data::TokenField& field : pp.token_fields()) {
    if (!captions.tokens.empty() && field.name != captions.tokens) continue;
    const int64_t known = model.model->input().vocabulary;
    const std::string& file = field.encoder->tokenizer().path();
    if (field.vocabulary != known) {
      throw data_error(fmt::format("`{}` has {} pieces, and had {} when the run was trained", file,
                                   human_count(field.vocabulary), human_count(known)),
                       model.path, "put the run's own tokenizer back there");
    }
    // Of a mixture it is that of all its chains.
    if (!data_section.has("mix") && !model.tokenizers.empty() && model.tokenizers != recipe::tokenizers_hash({&pp})) {
      throw data_error(fmt::format("`{}` is another file than when the run was trained, so that tokens mean other words", file),
                       model.path, "put the run's own tokenizer back there");
    }
    return field.encoder;
  }
  throw usage_error("the run's `data.pp` makes no tokens that captions could be read by", model.path, "name a run of captions");
}

namespace {

// A batch of images, read.
struct ReadImages {
  std::vector<uint8_t> rows;
  std::vector<std::string> errors;
};

ImageCaptions as_text(std::string path, const data::TextEncoder& encoder, std::vector<CaptionTokens> written) {
  ImageCaptions out{std::move(path), {}, {}};
  for (CaptionTokens& one : written) {
    std::string text = encoder.decode(one.ids);
    out.captions.push_back({std::move(text), std::move(one)});
  }
  return out;
}

}  // namespace

CaptionSpeed caption(const state::LoadedModel& model, const std::string& pp_text, const std::vector<std::string>& paths,
                     const train::DeviceOptions& device, CaptionOptions options,
                     const std::function<void(ImageCaptions)>& take) {
  const auto encoder = caption_encoder(model);
  const data::Pp pp(pp_text, data::PpUse::kEval, "preprocessing");
  check_size(pp, model.model->input());
  if (encoder->options().eos != data::Eos::kNo) options.eos = encoder->tokenizer().eos();
  const size_t batch = rows_for(paths.size(), static_cast<size_t>(options.batch));
  CaptionWriter writer(train::open_client(device), model, pp.pixel_scale(), static_cast<int64_t>(batch), device, options);

  RowReader reader(pp, model.limits, static_cast<int64_t>(batch));
  const auto part = [&](size_t begin) { return std::span(paths).subspan(begin, std::min(batch, paths.size() - begin)); };
  const auto read = [&](size_t begin) {
    ReadImages images{std::vector<uint8_t>(batch * pp.image_bytes()), {}};
    images.errors = reader.read(part(begin), images.rows.data());
    return images;
  };
  CaptionSpeed speed;
  const auto started = std::chrono::steady_clock::now();
  std::future<ReadImages> next = std::async(std::launch::async, read, 0);
  for (size_t begin = 0; begin < paths.size(); begin += batch) {
    const ReadImages images = next.get();
    if (begin + batch < paths.size()) next = std::async(std::launch::async, read, begin + batch);
    std::vector<std::vector<CaptionTokens>> written = writer.write(images.rows, part(begin).size());
    for (size_t i = 0; i < written.size(); ++i) {
      if (!images.errors[i].empty()) {
        take({paths[begin + i], {}, images.errors[i]});
        continue;
      }
      ++speed.images;
      speed.tokens += static_cast<int64_t>(written[i][0].ids.size());
      take(as_text(paths[begin + i], *encoder, std::move(written[i])));
    }
  }
  speed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return speed;
}

}  // namespace tessera::inference
