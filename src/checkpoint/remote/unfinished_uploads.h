#pragma once
// What a start that was killed while it wrote to S3 left there beside objects (store/servers/s3_uploads.h).

#include <functional>
#include <string>

namespace tessera::remote {

// Gives up the unfinished uploads below `url`, a run's address, whose names there are `is_own`, and says in a note how many. For the
// owner of the run's claim, before anybody writes there for this start: then none of them is a living process's. `expect_held` is
// called before the first one is given up, after all were listed; what it throws leaves here. A server that refuses costs a note.
// Nothing but in S3.
void remove_unfinished_uploads(const std::string& url, const std::function<bool(const std::string& name)>& is_own,
                               const std::function<void()>& expect_held);

}  // namespace tessera::remote
