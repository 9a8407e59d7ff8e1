#pragma once
// What Google's cloud tells a machine of itself: https://cloud.google.com/compute/docs/metadata/predefined-metadata-keys

#include <string>

namespace tessera::http {

// Whether this is a machine of that cloud: its firmware says so, or $GCE_METADATA_HOST names the server. Nothing is sent.
bool has_google_metadata();

// The server's text for a path, as "instance/zone". Empty where it has none, or gives no answer three times; each time it has five
// seconds.
std::string google_metadata(const std::string& path);

}  // namespace tessera::http
