#pragma once
// What the pages of reports have in common.

#include <string>
#include <vector>

#include "pages/report/curves.h"
#include "pages/report/html.h"
#include "pages/report/verdict.h"

namespace tessera::report {

// A whole page. Its policy keeps whatever a browser could be talked into from running.
Markup page(const std::string& title, const Markup& body);
// A verdict as a list.
Markup remarks(const std::vector<Remark>& all);
// A section, where there is anything to draw.
Markup all_curves(const Curves& curves);

}  // namespace tessera::report
