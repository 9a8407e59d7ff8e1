#pragma once
// What a run measures as the values of a W&B history.

#include <string>

#include "monitor/record.h"
#include "monitor/wandb/records.h"

namespace tessera::monitor {

// As JSON, with the NaN and Infinity that W&B has besides.
std::string wandb_json(double value);
std::string wandb_json(const MetricValue& value);
std::string wandb_json(const HyperParameter& value);
// wandb.Histogram
std::string wandb_json(const Histogram& histogram);
// wandb.Image, several: `files` are their places below the run's files.
std::string wandb_json(const Images& images, const std::vector<std::string>& files);
// Whether a value is one of the last two, and not a number.
bool is_wandb_media(const std::string& json);

WandbItems wandb_items(const Scalars& scalars);
// Of a line of metrics.jsonl.
WandbItems wandb_items(const MetricRow& row);

}  // namespace tessera::monitor
