#pragma once
// What evaluators, exports and captions take from the `data` of a run's recipe.

#include <cstdint>
#include <string>

namespace tessera::inference {

struct TrainingData {
  int64_t batch = 0;
  std::string pp;
  template <class Visitor>
  void visit(Visitor&& field) {
    field("batch", batch, "images of one step");
    field("pp", pp, "preprocessing chain, whose tokens captions are made of");
  }
};

}  // namespace tessera::inference
