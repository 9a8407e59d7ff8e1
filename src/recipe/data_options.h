#pragma once
// A recipe's data sections: `data` of training, with its mixture, and that of an evaluator.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/section.h"
#include "data/limits.h"
#include "data/loader/loader.h"
#include "objectives/batch.h"

namespace tessera::recipe {

// The keys of every data section.
struct DataOptions {
  std::string source, pp;
  int64_t threads = 0;
  int64_t prefetch = 2;
  std::string on_error = "skip";
  std::string max_bad = "1 %";
  std::string cache = "none";
  std::string memory;
  std::optional<std::string> fold;
  std::string fold_by;
  data::LimitOptions limits;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("source", source, "where the images are: folder(path), tfds(name), wds(pattern), …; tessera help sources lists all");
    field("fold", fold,
          "\"0/5\": training goes without the first of five folds of its source, and evaluators of the same source have that "
          "alone");
    field(
        "fold_by", fold_by,
        "of fold: images with the same value in this column of their table, or in the parentheses of a pattern on their names, "
        "stay together");
    field("pp", pp,
          "preprocessing chain: \"decode | resize(18) | value_range(-1, 1)\"; or from_weights: the one that the weights of "
          "model_init were evaluated with, in training with random crops and mirroring");
    field("threads", threads, may_change("that decode, at most 1024; 0: one for each core"));
    field("prefetch", prefetch, may_change("batches made ahead, 1 to 1024"));
    field("on_error", on_error, may_change("an unreadable file: skip (count and name it) or error"));
    field("cache", cache,
          may_change("none; ram(8 GiB): decoded pictures, as far as they fit; disk(path, 100 GiB): the files' bytes, or with "
                     "decoded=true pictures, which runs at the same time share"));
    field("memory", memory, may_change("\"2 GiB\": of all batches, in place of prefetch, which then is what fits"));
    field("limits", limits, may_change("of each image"));
    field("max_bad", max_bad,
          may_change("more unreadable files than this share of the data stop the run; one may always be skipped"));
  }
};

// The keys that only training's data section has.
struct TrainDataOptions {
  int64_t batch = 0;
  std::string shuffle = "auto";
  int64_t aug_repeats = 1;
  std::string on_change = "error";
  template <class Visitor>
  void visit(Visitor&& field) {
    field("batch", batch, "images of one step");
    field("shuffle", shuffle,
          "full: every epoch a permutation; window(samples=8192, lanes=64, stretch=128): reads in a row; balanced(power=1): "
          "all classes equally often; auto: as the source likes");
    field(
        "aug_repeats", aug_repeats,
        "how often each image comes in a row, changed by other draws (repeated augmentation); an epoch stays as long, so that "
        "so many of them go through all images once");
    field("on_change", on_change,
          may_change("what happens where a run goes on and files were added to its data or removed: error (and names some), or "
                     "accept: it goes on with those that are there"));
  }
};

// data.mix.NAME: one data set of a mixture, in place of data.source.
struct MixOptions {
  std::string source;
  std::string pp;
  double weight = 1;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("source", source, "as data.source");
    field("pp", pp, "as data.pp, which it is when not given; the images must come out in the same size");
    field("weight", weight, "its share of the training images, relative to the other sets'");
  }
};

// A data section with everything opened.
struct Data {
  DataOptions options;
  std::vector<data::DataSet> sets;  // one, unless it is a mixture
  std::string where;                // the recipe key, for messages
  double max_bad = 1;
  std::string max_bad_key;
  image::DecodeLimits limits;
  int64_t memory = 0;        // bytes of all batches of a loader; 0: as options.prefetch says
  std::string memory_place;  // its key
  // Of training alone.
  bool may_change = false;  // between two starts of a run
  data::Shuffle shuffle;
  std::optional<image::Mixup> mixup;

  const data::Source& source() const { return *sets.front().source; }
  const data::Pp& pp() const { return *sets.front().pp; }
  // Samples of all sets: an epoch's.
  int64_t size() const;
  std::string name() const;
  // What objectives and evaluators may read of it.
  objectives::DataInputs inputs() const;
  // For a loader of `batch` rows; `seed` matters in training only.
  data::LoaderOptions loader(int64_t batch, uint64_t seed) const;
};

// The fold that is held out of training; evaluators of the same source get it.
struct HeldOut {
  std::optional<std::string> fold;
  std::string by;                    // data.fold_by
  std::vector<std::string> sources;  // of training, as the recipe writes them
};
// From the `data` section of a recipe.
HeldOut held_out(config::Section data_section);

// The arrays of tokens that a chain makes.
std::vector<objectives::TokenInput> token_inputs(const data::Pp& pp);

// Throws usage Errors for the section, data Errors for what its sources lack. Other keys of the section are left to others.
Data open_data(config::Section section, data::PpUse use);
// The same for an evaluator's section. Where training holds out a fold, and the section has training's source or none, the data
// is that fold.
Data open_evaluation_data(config::Section section, const HeldOut& held_out);
// The same for training's, with its mixture.
Data open_training_data(config::Section section, TrainDataOptions& options);

}  // namespace tessera::recipe
