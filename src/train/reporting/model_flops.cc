#include "train/reporting/model_flops.h"

#include "models/model.h"

namespace tessera::train {

double model_flops(const recipe::Recipe& recipe) {
  return 3 * models::cost(*recipe.model).flops * static_cast<double>(recipe.batch * recipe.data.pp().views());
}

}  // namespace tessera::train
