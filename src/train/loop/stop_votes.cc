#include "train/loop/stop_votes.h"

#include <utility>

#include "base/error.h"

namespace tessera::train {

StopVotes::Votes StopVotes::own() const {
  const Exit wanted = run_.stop.wanted();
  Votes votes{};
  votes[kVoteStop] = wanted == Exit::kDone ? 0 : 1;
  votes[kVoteInterrupt] = wanted == Exit::kInterrupted ? 1 : 0;
  votes[kVoteSave] = run_.saves_jointly && run_.control.save_wanted() ? 1 : 0;
  return votes;
}

state::DeviceArrays* StopVotes::arguments() {
  if (!run_.processes.several()) return nullptr;
  const Votes votes = own();
  if (!votes_.empty() && voted_ == votes) return &votes_;
  voted_ = votes;
  if (run_.recipe.processes.joint) {
    votes_ = state::replicate(*run_.client, run_.layout.mesh, votes.data(), {DType::kF32, {1, kVotes}});
    return &votes_;
  }
  const auto index = static_cast<int32_t>(run_.processes.index());
  votes_ = state::replicate(*run_.client, run_.layout.mesh, &index, {DType::kI32, {}});
  state::DeviceArrays wanted = state::replicate(*run_.client, run_.layout.mesh, votes.data(), {DType::kF32, {kVotes}});
  for (size_t d = 0; d < votes_.size(); ++d) votes_[d].push_back(std::move(wanted[d][0]));
  return &votes_;
}

void StopVotes::take_kept() {
  if (kept_) take(kept_->data());
  kept_.reset();
}

void StopVotes::take(const float* sums) {
  run_.save_agreed = run_.save_agreed || sums[kVoteSave] > 0;
  if (sums[kVoteStop] > 0) run_.stop.agree(sums[kVoteInterrupt] > 0 ? Exit::kInterrupted : Exit::kPreempted);
}

}  // namespace tessera::train
