#pragma once
// Cross-entropy over the tokens of captions, as big_vision's trainers/proj/cappa/generative.py.

#include "models/image_text/captioner.h"
#include "objectives/objective.h"

namespace tessera::objectives {

// Which tokens of the data are the captions.
struct CaptionOptions {
  std::string tokens, label_masks;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("tokens", tokens,
          "the captions: what tokenize(…, to=NAME) of data.pp makes; may be left out where it makes one array");
    field("label_masks", label_masks,
          "an array of the same length that says which tokens count; all but padding when not given");
  }
};

struct CaptioningOptions {
  CaptionOptions captions;
  double label_smoothing = 0;
  template <class Visitor>
  void visit(Visitor&& field) {
    captions.visit(field);
    field("label_smoothing", label_smoothing, "share s of the target spread evenly over all other ids");
  }
};

// The factory of objectives.def. A caption's loss is the mean over its tokens; the loss of a batch the mean over captions. In
// training the model says which captions are predicted all at once (models/image_text/captioner.h).
std::shared_ptr<const Objective> make_captioning(config::Section section, const DataInputs& available);

// The captions' inputs as the options name them: ids, then the label masks where there are some.
Inputs caption_inputs(const CaptionOptions& options, const DataInputs& available, const config::Section& section);
// Throws a usage Error at a key of `section` unless the model writes captions such as these.
void check_captioner(const models::Model& model, const Inputs& inputs, const config::Section& section);
// Tokens that hold captions such as `captions`, one or several of each image after another: what tokenize(…, texts=N) makes. A
// usage Error at `key` where `name` are none.
TokenInput find_several(const DataInputs& available, const std::string& name, const TokenInput& captions,
                        const config::Section& section, const char* key);
// Those of a file's lines that are not empty.
std::vector<std::string> read_lines(const std::string& path);
// The model, known to be one.
const models::Captioner& as_captioner(const models::Model& model);

// 1 for each token that counts, else 0: f32 [B, L]. Padding never counts.
ir::Value token_weights(const Inputs& inputs, const ir::Values& tokens);

// Sum over a row's tokens of weight times -sum_v t_v log p_v, f32 [B]; t is 1 - s for the token's id and s / (vocabulary - 1)
// for every other. With `normalize` it is divided by the sum of the weights. logits f32 [B, L, vocabulary], ids i32 [B, L],
// weights f32 [B, L]. big_vision's weighted_softmax_xent.
ir::Value token_cross_entropy(ir::Value logits, ir::Value ids, ir::Value weights, double label_smoothing, bool normalize);

}  // namespace tessera::objectives
