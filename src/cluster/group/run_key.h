#pragma once
// The key of one run: who has it may come to the etcd where the run's processes meet, and nobody else. It is PEM text of a private
// key (P-256) and a certificate that it signed, which all show to each other (http/client.h, Endpoint::key).

#include <string>

namespace tessera::group {

// A new one. It is good for a year, and from a day ago on, since hosts' clocks differ.
std::string new_run_key();

// The certificate alone, also PEM: what etcd takes as an authority may hold nothing else.
std::string certificate_of(const std::string& key);

// A usage Error where there is a key of a coordinator, and no coordinator's address: nothing would use it.
void refuse_key_alone(const std::string& key, const std::string& address);

// The key itself, from what --coordinator-key and TESSERA_COORDINATOR_KEY may hold: its text, or the name of a file that has it.
// Empty for empty text. A usage Error where it is neither.
std::string read_run_key(const std::string& text);

}  // namespace tessera::group
