#pragma once
// Batches of the input on the devices of a run.

#include <memory>
#include <vector>

#include "data/loader/loader.h"
#include "objectives/batch.h"
#include "pjrt/client.h"
#include "state/device_arrays.h"

namespace tessera::train {

// A batch on its way to the devices of a mesh, each of which gets its rows. The host's rows are given back to their loader once
// the device has read them: at the latest when this is destroyed, which waits for that.
class DeviceBatch {
 public:
  // The images that `pp` made, and of the rest what `inputs` names.
  DeviceBatch(const pjrt::Client& client, const mesh::Mesh& mesh, data::Batch batch, const data::Pp& pp,
              const objectives::Inputs& inputs);
  ~DeviceBatch();
  DeviceBatch(DeviceBatch&&) noexcept;
  DeviceBatch& operator=(DeviceBatch&& other) noexcept;

  // Whether all images of this process's rows are the same, of four at least: as the chain made them, before the device augments.
  bool images_alike() const;

  // For each device its images, the inputs and what training augments with: a program's last arguments.
  state::DeviceArrays& arguments() { return arguments_; }

 private:
  void release() noexcept;
  state::DeviceArrays arguments_;
  std::vector<pjrt::Event> uploads_;
  std::unique_ptr<data::Batch> batch_;
};

}  // namespace tessera::train
