// tessera export: a run's weights for timm, Hugging Face or big_vision, as one plain file, or with a program as StableHLO.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "base/text/text.h"
#include "checkpoint/remote/staged_output.h"
#include "cli/command.h"
#include "cli/common_flags.h"
#include "inference/plain_weights.h"
#include "inference/stablehlo.h"
#include "inference/timm_directory.h"
#include "store/servers/buckets.h"
#include "store/url.h"

namespace tessera::cli {
namespace {

const std::vector<std::string> kFormats = {"timm", "hugging_face", "big_vision", "stablehlo"};  // the first is the default

class Export final : public Command {
 public:
  Page page() const override {
    return {
        "export",
        "--from CKPT|WORKDIR --to DIR|FILE [--format NAME | --plain] [--overwrite]",
        "write trained weights for timm, Hugging Face, big_vision or JAX (StableHLO), or as one plain file",
        {{"tessera export --from runs/digits --to digits_vit", "the newest checkpoint of a run"},
         {"tessera export --from runs/digits/checkpoints/step_000000720 --to digits_vit", "one checkpoint"},
         {"tessera export --format hugging_face --from runs/vit_b --to vit_b_hf", "ViTForImageClassification.from_pretrained"},
         {"tessera export --format big_vision --from runs/cappa --to cappa.npz", "a ViT, CapPa or two towers"},
         {"tessera export --format stablehlo --batch 8 --from runs/digits --to digits_mlir",
          "the inference programs and their weights, for JAX and others; of classifiers, captioners, images and texts"},
         {"tessera export --plain --from runs/digits --to digits.safetensors", "whole arrays under Tessera's own names"}},
        "Checksums come with them, for `sha256sum -c`: SHA256SUMS in a directory, FILE.sha256 beside a file. export.json, or\n"
        "FILE.export.json, names the run: an export of the same weights and format, at the same step or a later one,\n"
        "replaces it unless it was changed.\n"
        "Python: timm.create_model(\"local-dir:digits_vit\", pretrained=True) gives the same logits."};
  }
  void declare(Flags& flags) override {
    flags.add("--from", "PATH", &from_, "a checkpoint or a run's directory").once = true;
    declare_weights_flag(flags, &weights_);
    flags.add(
        "--to", "DIR", &to_,
        "where model.safetensors and what describes it are written, also s3://, gs:// or az://BUCKET/FOLDER; for big_vision "
        "(.npz) and with --plain the file");
    flags.add("--format", "NAME", &format_, OneOf{kFormats}, fmt::format("; {} when not given", kFormats[0]));
    flags.add("--batch", "N", &batch_, {1, 65'536}, "of stablehlo: the images (and texts) of one call; 1 when not given");
    flags.add("--plain", &plain_, "one .safetensors file of whole arrays under Tessera's own names, from any checkpoint");
    flags.add(
        "--overwrite", &overwrite_,
        "replace an earlier export at --to, also of another run or in another format; in one step, so that nobody sees half "
        "of each, but in a bucket file by file");
  }
  Exit run(const std::vector<std::string>& words, const train::DeviceOptions&) override {
    reject_extra(words, 0, "export");
    require_flag(from_, "--from", "tessera export --from runs/digits --to digits_vit");
    require_flag(to_, "--to", "tessera export --from runs/digits --to digits_vit");
    const state::Weights weights = state::parse_weights(weights_, "--weights");
    remote::StagedOutput out(to_, "--to");
    if (plain_) {
      if (!format_.empty()) throw usage_error("`--plain` is a format of its own", "--format", "give one of the two");
      if (store::is_bucket(to_)) check_place(/*file=*/true, known());
      log_line(fmt::format("parameters of {}, whole", inference::write_plain_weights(from_, out.path(), weights, existing())));
    } else {
      write_for_others(weights, out.path());
    }
    if (store::is_bucket(to_)) {
      const std::string record = inference::export_record_at(store::local_files(), out.path());
      check_place(plain_ || format_ == "big_vision", existing(), record);
      inference::remove_other_record(store::files_at(to_), to_, record);
    }
    out.finish();
    print(to_);
    return Exit::kDone;
  }

 private:
  // A directory of such a name is not what was meant.
  void refuse_name_of_a_file() const {
    for (const char* ending : {".safetensors", ".onnx", ".pth", ".pt", ".bin", ".npz", ".mlir", ".stablehlo"}) {
      if (!to_.ends_with(ending)) continue;
      throw usage_error(
          fmt::format("`{}` would be a directory: this format writes several files", to_), "--to",
          ending == std::string_view(".safetensors")
              ? "name it without the ending; --plain writes one .safetensors file, under Tessera's own names"
              : "name it without the ending: model.safetensors and config.json are written, which timm.create_model loads; "
                "--format big_vision writes an .npz file");
    }
  }

  // `path`: where it is written, on its way to --to.
  void write_for_others(state::Weights weights, const std::string& path) const {
    const std::string format = format_.empty() ? kFormats[0] : format_;
    if (std::ranges::find(kFormats, format) == kFormats.end()) {
      throw usage_error(fmt::format("there is no format `{}`", format), "--format", suggest_name(format, kFormats));
    }
    if (format != "big_vision") refuse_name_of_a_file();
    if (batch_ && format != "stablehlo") {
      throw usage_error(fmt::format("is not of the format `{}`", format), "--batch", "--format stablehlo has it");
    }
    check_place(format == "big_vision", known());
    const state::LoadedModel model = state::load_model(from_, weights);
    std::vector<std::string> notes;
    std::string use = fmt::format("timm.create_model(\"local-dir:{}\", pretrained=True)", to_);
    if (format == "timm") notes = inference::write_timm_directory(model, path, existing());
    if (format == "hugging_face") {
      notes = inference::write_hugging_face_directory(model, path, existing());
      use = fmt::format("transformers.ViTForImageClassification.from_pretrained(\"{}\")", to_);
    }
    if (format == "big_vision") {
      inference::write_big_vision_file(model, path, existing());
      use = fmt::format("big_vision's config.model_init = \"{}\"", to_);
    }
    if (format == "stablehlo") {
      inference::write_stablehlo_directory(model, path, batch_.value_or(1), existing());
      use = fmt::format("JAX and others: {}/signature.json has the arguments", to_);
    }
    for (const std::string& note : notes) log_note(note);
    log_line(fmt::format("weights of {}, for {}", model.path, use));
  }

  void check_place(bool file, inference::Existing existing, const std::string& record = {}) const {
    store::FileSystem& files = store::files_at(to_);
    file ? inference::check_export_file(files, to_, existing, record)
         : inference::check_export_directory(files, to_, existing, record);
  }

  // For the check before the weights are read, which say whose run it is: what has a record is checked again then.
  inference::Existing known() const {
    return inference::export_record_at(store::files_at(to_), to_).empty() ? existing() : inference::Existing::kReplace;
  }
  inference::Existing existing() const { return overwrite_ ? inference::Existing::kReplace : inference::Existing::kRefuse; }

  std::string from_, to_, format_, weights_ = "raw";
  std::optional<int64_t> batch_;
  bool plain_ = false, overwrite_ = false;
};

}  // namespace

const CommandEntry kExport = command_entry<Export>("export");

}  // namespace tessera::cli
